"""What to change where a model does not fit on a machine: a setting and a preset on which it does, each tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from npusim.isa.base.errors import CompileError, NpusimError
from npusim.isa.hardware import file as hardware_file
from npusim.isa.hardware.hardware import Hardware
from npusim.session.api import DEFAULT_HARDWARE

_KEY = "scratchpad.size_kib"
_DOUBLINGS = 3
"""A scratchpad of more than eight times the size makes another chip."""
_PRESETS = ("stm32n6", "edge-128", "mobile-1024")
"""A chip that exists, and two arrays with room for most networks, smallest first."""


@contextmanager
def says_what_fits(machine: Hardware | None, compiled: Callable[[Hardware], Any]) -> Iterator[None]:
    """Add to the message of a model that does not fit on the machine what it would fit on.

    machine:  the default if None.
    compiled: compiles the model for another machine, and raises NpusimError if that cannot be.
    """
    try:
        yield
    except CompileError as fault:
        chosen = machine or hardware_file.hardware(DEFAULT_HARDWARE)
        raise CompileError(f"{fault}{remedy(fault, chosen, compiled)}") from None


def remedy(fault: CompileError, machine: Hardware, compiled: Callable[[Hardware], Any]) -> str:
    """The end of a message: "; tried: --set KEY=VALUE or --hw PRESET fits", empty where nothing that is tried fits.

    A larger scratchpad is tried only where the fault names its size.
    """
    settings = _larger(machine) if _KEY in str(fault) else iter(())
    fitting = [_first(settings, compiled), _first(_presets(machine), compiled)]
    words = " or ".join(each for each in fitting if each)
    return f"; tried: {words} fits" if words else ""


def _larger(machine: Hardware) -> Iterator[tuple[str, Hardware]]:
    for doubling in range(1, _DOUBLINGS + 1):
        size = machine.scratchpad.size_kib << doubling
        yield f"--set {_KEY}={size}", hardware_file.change(machine, {_KEY: size})


def _presets(machine: Hardware) -> Iterator[tuple[str, Hardware]]:
    for name in _PRESETS:
        if name != machine.name:
            yield f"--hw {name}", hardware_file.hardware(name)


def _first(machines: Iterator[tuple[str, Hardware]], compiled: Callable[[Hardware], Any]) -> str:
    while True:
        try:
            words, machine = next(machines)
            compiled(machine)
        except StopIteration:
            return ""
        except NpusimError:
            continue
        return words
