"""The result of a simulated run: the timeline of its instructions and transfers, and its action counts."""

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
"""The requester name, in a core's trace, of all transfers of other cores during its run."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Grants of one requester that a memory's port served in sequence. Cycles are half-open: start <= t < end."""

    requester: str
    start_cycle: int
    end_cycle: int
    size_bytes: int
    write: bool
    core: int = 0
    space: Space = Space.DRAM


@dataclass(frozen=True)
class Trace:
    """The timeline of a run, one entry per instruction in program order; all times in cycles (int64).

    unit:       `npusim.isa.hardware.units.Unit` of each instruction (FRONT_END for barriers).
    dispatched: the instruction entered the queue of its unit.
    at_head:    it was first in the queue and the unit was free; from then on it waited only for other units.
    ready:      all waits were satisfied; from then on it waited only for bank ports or for the shared host.
    started:    its ports were granted and its operands read.
    ended:      its results became visible.
    blocked_by: the unit whose completion satisfied its last wait; -1 if it did not wait.
    busy:       cycles of its own work (`Cost.cycles`); ended - started - busy is time lost to the DRAM port.
    transfers:  all transfers at the memory ports during the run, including those of other cores.
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
    """The result of one launch of a program; all times count from its start.

    outputs: one array per model output; None in a run without data.
    cycles:  total, from the first fetch to the last completion.
    layer_actions: action counts per layer of the program; the last entry counts the front end's own actions.
    dram_read_bytes, dram_write_bytes: data traffic in whole bursts.
    instruction_bytes: fetched code.
    states: final content of the program's states, one array per state; empty in a run without data.
    """

    outputs: tuple[Array, ...] | None
    cycles: int
    trace: Trace
    layer_actions: tuple[Mapping[str, int], ...]
    dram_read_bytes: int
    dram_write_bytes: int
    instruction_bytes: int
    states: tuple[Array, ...] = ()
