"""How the two sides of a transfer wait for each other: beats at the scratchpad port, bursts at the DRAM port.

What a beat moves, and how blocks pass a burst buffer, is in `npusim.isa.instructions.beats`. A burst is handed over
whole: a beat on the way in waits for the last burst that it needs, a burst on the way out until its last beat
has been read. One burst may take `slack` cycles at the scratchpad port, its beats and two for runs that begin
or end in it. They are part of what the transfer waits anyway: reads of the scratchpad begin that much before
the end of the setup, and a burst from the DRAM is handed over that much before its latency has passed. So the
scratchpad side shows only where it is the slower one. `tests/rtl` describes the same in registers.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from npusim.isa.hardware.memories import PortTiming
from npusim.isa.instructions.beats import Beats
from npusim.isa.instructions.region import Region
from npusim.machine.port import UNPACED, Pace, run_starts


def pace(region: Region, write: bool, beats: Beats, setup_cycles: int, timing: PortTiming) -> Pace:
    """The pace of a transfer; UNPACED where the DRAM side surely is the slower one, burst by burst. The cycles of
    `not_before` count from the start of the transfer. Only where in a grant it begins matters.
    """
    lowest = region.rising.address if min(region.strides, default=0) < 0 else region.address
    within = region._replace(address=region.address - lowest + lowest % timing.grant_bytes)
    return _pace(within, write, beats, setup_cycles, timing)


@lru_cache(maxsize=4096)
def _pace(region: Region, write: bool, beats: Beats, setup_cycles: int, timing: PortTiming) -> Pace:
    slack = slack_cycles(beats.walk.port_bytes, timing)
    waits = setup_cycles if write else timing.latency_cycles
    # With runs at least as long as a burst no more than two of them meet in one, and it has `slack` beats at most;
    # but for a source that repeats, of which any number may.
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
        return Pace(not_before=np.maximum.reduceat(ends, first).tolist())
    landings = _cycles(position, timing) + early + beats.left(np.concatenate(([0], ended[:-1])))
    return Pace(landing=np.maximum.reduceat(landings, first).tolist())


def slack_cycles(port_bytes: int, timing: PortTiming) -> int:
    """Cycles that one burst may take at the scratchpad port without being noticed."""
    return ceil(timing.burst_bytes / port_bytes) + 2


def _cycles(bursts: NDArray[np.int64], timing: PortTiming) -> NDArray[np.int64]:
    cycles: NDArray[np.int64] = np.ceil(bursts * timing.burst_cycles - 1e-9).astype(np.int64)
    return cycles


def _beats_of_bursts(
    region: Region, beats: Beats, timing: PortTiming
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For each burst in order: beats that begin up to its end, beats that end up to its end, its grant's block."""
    starts, length = run_starts(region), region.counts[-1]
    first, last = starts // timing.burst_bytes, (starts + length - 1) // timing.burst_bytes
    counts = last - first + 1
    run = np.repeat(np.arange(len(starts)), counts)
    burst = first[run] + np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts)
    passed = run * length + np.minimum((burst + 1) * timing.burst_bytes - starts[run], length)
    # A burst that consecutive runs share is one burst.
    kept = np.flatnonzero(np.diff(burst, append=-1))
    begun, ended = beats.walk.passed(passed[kept])
    return begun, ended, burst[kept] // (timing.grant_bytes // timing.burst_bytes)
