"""A stage of a run: one program on one core, from one cycle of the run to another.

A run of one program is one stage. Of several programs one begins in the cycle in which the one before has ended, so
their stages cover the run. What is known of a program and its timeline is known in cycles of its core; a stage says
which cycles of the run these are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from npusim.isa.hardware.memories import Space
from npusim.isa.program.executable import Launch, Step
from npusim.isa.program.program import Program
from npusim.machine.clock import CoreTime
from npusim.machine.trace import Execution
from npusim.numbers.bounds import LowerBound
from npusim.numbers.causes import STAGES
from npusim.numbers.losses import Account, in_order
from npusim.numbers.timeline import Times

OWN_TIME = CoreTime(Fraction(0), Fraction(1))
"""The time of a core whose clock is that of the run."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A program and its timeline, and where in the run they are.

    execution:   in cycles of the core.
    start_cycle, end_cycle: of the run; waiting for the core, and for its edge, included.
    time:        the core's cycles in those of the run, from the start on.
    device:      its place among the devices of the run.
    step:        what it is of the executable; None where there is none.
    first_layer, first_instruction: the numbers, among those of the run, of its program's first ones.
    bases:       the addresses of each memory that its program's count from, among those of the run; 0 where none is.
    """

    program: Program
    execution: Execution
    start_cycle: int
    end_cycle: int
    time: CoreTime = OWN_TIME
    device: int = 0
    step: Step | None = None
    first_layer: int = 0
    first_instruction: int = 0
    bases: Mapping[Space, int] = field(default_factory=dict)

    def base(self, space: Space) -> int:
        """Where what its program sees of a memory begins."""
        return self.bases.get(space, 0)

    @property
    def is_piece(self) -> bool:
        """Whether it computes a part of the model; else it moves what crosses between such parts, or decides."""
        return self.step is None or isinstance(self.step, Launch)

    def of_run(self, cycles: Times) -> Times:
        """Cycles of its core as cycles of the run, rounded up."""
        return self.start_cycle + self.time.cycles(cycles)

    def cycle_of_run(self, cycle: int) -> int:
        """One of them."""
        return self.start_cycle + self.time.cycle(cycle)

    @property
    def late_cycles(self) -> int:
        """Cycles of the run in front of its own first one."""
        return self.time.cycle(0)

    def account(self, account: Account, begin: int, late_cycles: int = 0) -> Account:
        """An account of cycles of its core from cycle `begin` on, in cycles of the run.

        Bound and losses are laid one behind the other, and each has the cycles between its two ends: they add up
        whatever the clocks. late_cycles: what to lose to waiting besides.
        """
        at = self.time.cycle(begin)
        resources, busy = (
            {name: self.time.cycle(begin + cycles) - at for name, cycles in each.items()}
            for each in (account.bound.by_resource, account.busy)
        )
        reached, lost = begin + account.bound.cycles, dict[str, int]()
        for cause, cycles in account.lost.items():
            lost[cause] = self.time.cycle(reached + cycles) - self.time.cycle(reached)
            reached += cycles
        lost[STAGES.name] = lost.get(STAGES.name, 0) + late_cycles
        cycles = self.time.cycle(begin + account.cycles) - at + late_cycles
        return Account(cycles, LowerBound(resources, account.bound.port), in_order(lost), busy)

    def in_run(self) -> Execution:
        """Its timeline in cycles of the run, counted from its start."""
        if self.time.same:
            return self.execution
        trace, time = self.execution.trace, self.time
        moved = replace(
            trace,
            dispatched=time.cycles(trace.dispatched),
            at_head=time.cycles(trace.at_head),
            ready=time.cycles(trace.ready),
            started=time.cycles(trace.started),
            ended=time.cycles(trace.ended),
            busy=time.cycles(trace.started + trace.busy) - time.cycles(trace.started),
            transfers=tuple(
                replace(
                    transfer,
                    start_cycle=time.cycle(transfer.start_cycle),
                    end_cycle=time.cycle(transfer.end_cycle),
                )
                for transfer in trace.transfers
            ),
        )
        return replace(self.execution, cycles=self.end_cycle - self.start_cycle, trace=moved)
