"""All networks of the zoo, one line each, and what Vela says of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from benchmarks import peers
from benchmarks.silicon.ethos_u55 import DESCRIBED, LEAST_CYCLES, LEAST_SHARE, OF_CPU
from benchmarks.silicon.frame import Measurement
from benchmarks.silicon.zoo import apart, others, vision

Network = Callable[[], bytes]


def _networks(module: ModuleType) -> tuple[Network, ...]:
    """The functions that a module has of its own, in order."""
    own = [each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__]
    return tuple(each for each in own if callable(each) and not each.__name__.startswith("_"))


SEEN = (*_networks(vision), *_networks(others))
"""Those that showed what was missing; no constant was chosen by one of them."""
APART = _networks(apart)
"""Those that were run for the first time when everything was done."""


def built(network: Network, folder: Path) -> Path:
    """The file of a network in a folder, which it is written to."""
    file = folder / f"{network.__name__}.tflite"
    file.write_bytes(network())
    return file


def measured(network: Network, file: Path, size: int) -> Measurement | None:
    """Vela's cycles, if the row counts as those of the shared table do. Raises `peers.Missing`."""
    found = peers.vela_estimate(file, f"ethos-u55-{size}")
    described = sum([cycles for kind, cycles in found.by_operator.items() if kind in DESCRIBED])
    counts = found.cycles >= LEAST_CYCLES and described >= LEAST_SHARE * sum(found.by_operator.values())
    if not counts or not found.on_cpu <= OF_CPU:
        return None
    return Measurement(network.__name__, file, found.cycles, network in APART)
