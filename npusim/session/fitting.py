"""Remedies for a model that does not fit on a machine: a setting and a preset on which it compiles, both tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from npusim.isa.base.errors import CompileError, NpusimError
from npusim.isa.hardware import file as hardware_file
from npusim.isa.hardware.hardware import Hardware
from npusim.session.api import DEFAULT_HARDWARE

_KEY = "scratchpad.size_kib"
_DOUBLINGS = 3
"""How many times the scratchpad is doubled: one more than eight times as large would be a different chip."""
_PRESETS = ("stm32n6", "edge-128", "mobile-1024")
"""Presets to try, in this order: a real chip, then a small and a large array with room for most networks."""


def with_remedy(
    fault: CompileError, machine: Hardware | None, compiled: Callable[[Hardware], Any]
) -> CompileError:
    """Return the error of a model that does not fit on a machine, with a setting and a preset on which it fits.

    machine:  the machine; None: the default.
    compiled: compiles the model for another machine, or raises NpusimError.
    """
    chosen = machine or hardware_file.hardware(DEFAULT_HARDWARE)
    return CompileError(f"{fault}{remedy(fault, chosen, compiled)}")


def remedy(fault: CompileError, machine: Hardware, compiled: Callable[[Hardware], Any]) -> str:
    """Return the end of the message: "; tried: --set KEY=VALUE or --hw PRESET fits"; empty if nothing tried fits.

    A larger scratchpad is tried only if the fault names its size.
    """
    settings = _larger(machine) if _KEY in str(fault) else iter(())
    fitting = [_first(settings, compiled), _first(_presets(machine), compiled)]
    words = " or ".join(choice for choice in fitting if choice)
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
