"""Choices by estimate: which storages give way where not all fit, before any tile is placed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from npusim.isa.base.errors import CompileError
from npusim.scheduler.fit.choices import FAST, Choices
from npusim.scheduler.network.network import Network
from npusim.scheduler.place.chains import plan_chains
from npusim.scheduler.place.residency import Residents, fit

_LARGE = (2, 4)
"""Parts of the scratchpad; storages that are larger go to DRAM, or band by band through a chain."""

_LEAST_GAIN = 0.01
"""Share of the estimated cycles that makes another policy worth it; estimates are not better than that."""


def estimated(network: Network) -> Choices:
    """The choices of the fast effort: those that evict item by item, unless others are faster by estimate.

    Raises CompileError for a network that does not fit.
    """
    residents = fit(network, FAST)
    if not residents.evicted:
        return FAST
    best, least = FAST, _cycles(residents) * (1 - _LEAST_GAIN)
    for choices in _policies(residents):
        try:
            cycles = _cycles(fit(network, choices))
        except CompileError:
            continue
        if cycles < least:
            best, least = choices, cycles
    return best


def _policies(residents: Residents) -> Iterator[Choices]:
    for part in _LARGE:
        yield replace(FAST, evicted=residents.larger_than(residents.capacity_bytes // part))
    yield replace(FAST, readmit=True)


def _cycles(residents: Residents) -> float:
    """Estimated cycles of all works, in the chains that they would form."""
    chains = plan_chains(residents, residents.hardware)
    inside = {index for chain in chains.values() for index in chain.items}
    alone = sum(residents.cycles(index) for index in range(len(residents.items)) if index not in inside)
    return alone + sum(chain.cycles for chain in chains.values())
