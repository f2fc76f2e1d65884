"""What happened: per instruction when it waited, started and ended; and what was counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Array
from npusim.isa.hardware.memories import Space

INSTRUCTION_FETCH = "fetch"
"""The requester name of the front end in transfers."""

OTHER_CORE = "other core"
"""The requester name of everything that another core of the system does at the ports meanwhile."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """One stretch of traffic of a requester of a core at a memory's port. Cycles are half-open: start <= t < end."""

    requester: str
    start_cycle: int
    end_cycle: int
    size_bytes: int
    write: bool
    core: int = 0
    space: Space = Space.DRAM


@dataclass(frozen=True)
class Trace:
    """The timeline, one entry per instruction in program order; all times in cycles (int64).

    unit:      `npusim.isa.instructions.instruction.Unit` of each instruction (FRONT_END for barriers).
    dispatched: entered the queue of its unit.
    at_head:   first in its unit's queue with the unit free (then it waits for other units only).
    ready:     all waits satisfied (then it waits for ports of the scratchpad's banks only, or for the host, which
               the cores of a system share).
    started:   ports granted: operands read.
    ended:     results visible.
    blocked_by: unit whose completion came last among its waits, or -1 if it did not wait.
    busy:      cycles of own work (`Cost.cycles`); ended - started - busy is time lost to the DRAM port.
    transfers: at the ports of the memories while the program ran, those of other cores included.
    """

    unit: NDArray[np.int8]
    dispatched: NDArray[np.int64]
    at_head: NDArray[np.int64]
    ready: NDArray[np.int64]
    started: NDArray[np.int64]
    ended: NDArray[np.int64]
    blocked_by: NDArray[np.int8]
    busy: NDArray[np.int64]
    transfers: tuple[Transfer, ...]


@dataclass(frozen=True)
class Execution:
    """What the machine gives back of one launch of a program; all times count from its beginning.

    outputs: one array per model output, or None when no data was executed.
    cycles:  total, from the first fetch to the last completion.
    layer_actions: action counts per layer of the program; the last entry is the front end's own work.
    dram_read_bytes, dram_write_bytes: data traffic in whole bursts; instruction_bytes: fetched code.
    states: what the program's states hold afterwards, one array per state; none when no data was executed.
    """

    outputs: tuple[Array, ...] | None
    cycles: int
    trace: Trace
    layer_actions: tuple[Mapping[str, int], ...]
    dram_read_bytes: int
    dram_write_bytes: int
    instruction_bytes: int
    states: tuple[Array, ...] = ()
