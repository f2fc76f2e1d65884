"""The rate matching of a DMA transfer: transfer cycles (beats) at the scratchpad port against bursts at the DRAM port.

`npusim.isa.instructions.beats` defines what a beat moves and how blocks pass a burst buffer. A burst is handed over
as a whole: a load's beat waits for the last burst that it needs, and a store's burst waits until its last beat has
been read. One burst may take `slack` cycles at the scratchpad port: its beats, and two more for runs that begin or
end within it.

The slack overlaps with waits that the transfer has anyway. A store starts to read the scratchpad `slack` cycles before
the end of its setup, and a load's burst is handed over `slack` cycles before the memory latency has passed. So the
scratchpad side adds time only if it is the slower side. `tests/rtl` holds the same model in registers.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from npusim.isa.hardware.memories import CYCLE_ERROR, PortTiming
from npusim.isa.instructions.beats import Beats
from npusim.isa.instructions.region import Region
from npusim.machine.request import UNPACED, Pace, run_starts


def pace(region: Region, write: bool, beats: Beats, setup_cycles: int, timing: PortTiming) -> Pace:
    """Return the limits that the scratchpad side sets for a transfer's grants.

    The result is UNPACED if the DRAM side is certainly the slower one for every burst. Cycles of `not_before` count
    from the start of the transfer.
    """
    # The pace depends only on the offset within a grant, so equal shapes at other addresses share a cache entry.
    lowest = region.rising.address if min(region.strides, default=0) < 0 else region.address
    within = region._replace(address=region.address - lowest + lowest % timing.grant_bytes)
    return _pace(within, write, beats, setup_cycles, timing)


@lru_cache(maxsize=4096)
def _pace(region: Region, write: bool, beats: Beats, setup_cycles: int, timing: PortTiming) -> Pace:
    slack = slack_cycles(beats.walk.port_bytes, timing)
    waits = setup_cycles if write else timing.latency_cycles
    # If runs are at least as long as a burst, at most two of them meet in one burst, which then takes at most `slack`
    # beats. A source that repeats is the exception: any number of its runs may fall into one burst.
    long_runs = beats.walk.run_bytes >= min(timing.burst_bytes, region.size_bytes)
    repeats = min(region.strides, default=region.counts[-1]) < region.counts[-1]
    if (
        long_runs
        and not repeats
        and not beats.buffered
        and waits >= slack
        and floor(timing.burst_cycles) >= slack
    ):
        return UNPACED
    early = max(waits - slack, 0)
    begun, ended, grants = _beats_of_bursts(region, beats, timing)
    # Position of each burst in its grant, counted from one, and from the end.
    first = np.flatnonzero(np.diff(grants, prepend=-1))
    counts = np.diff(np.append(first, len(grants)))
    position = np.arange(len(grants)) - np.repeat(first, counts) + 1
    if write:
        left = np.repeat(counts, counts) - position + 1
        ends = early + beats.drained(begun) + _cycles(left, timing)
        return Pace(not_before=np.maximum.reduceat(ends, first))
    landings = _cycles(position, timing) + early + beats.left(np.concatenate(([0], ended[:-1])))
    return Pace(landing=np.maximum.reduceat(landings, first))


def slack_cycles(port_bytes: int, timing: PortTiming) -> int:
    """Return the cycles that one burst may take at the scratchpad port without delaying the transfer."""
    return ceil(timing.burst_bytes / port_bytes) + 2


def _cycles(bursts: NDArray[np.int64], timing: PortTiming) -> NDArray[np.int64]:
    # `burst_cycles` is a rounded float: without the tolerance, a whole number of cycles could become one too many.
    cycles: NDArray[np.int64] = np.ceil(bursts * timing.burst_cycles - CYCLE_ERROR).astype(np.int64)
    return cycles


def _beats_of_bursts(
    region: Region, beats: Beats, timing: PortTiming
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For each burst in order, return the beats begun by its end, the beats ended by its end, and its grant's index."""
    starts, length = run_starts(region), region.counts[-1]
    first, last = starts // timing.burst_bytes, (starts + length - 1) // timing.burst_bytes
    counts = last - first + 1
    run = np.repeat(np.arange(len(starts)), counts)
    burst = first[run] + np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts)
    passed = run * length + np.minimum((burst + 1) * timing.burst_bytes - starts[run], length)
    # A burst that consecutive runs share is transferred once.
    distinct = np.flatnonzero(np.diff(burst, append=-1))
    begun, ended = beats.walk.passed(passed[distinct])
    return begun, ended, burst[distinct] // (timing.grant_bytes // timing.burst_bytes)
