"""The stages of a run: each is one program on one core, from one cycle of the run to another.

A run of one program is one stage. Each of several programs begins in the cycle in which the one before has ended, so
the stages cover the run. The timeline of a program counts cycles of its core; a stage converts them to cycles of the
run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from fractions import Fraction

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.memories import Space
from npusim.isa.program.executable import Launch, Step
from npusim.isa.program.program import Program
from npusim.machine.clock import CoreTime
from npusim.machine.trace import Execution, Transfers
from npusim.numbers.bounds import LowerBound
from npusim.numbers.causes import STAGES
from npusim.numbers.losses import Account, in_order
from npusim.numbers.timeline import Times

OWN_TIME = CoreTime(Fraction(0), Fraction(1))
"""The time conversion of a core whose clock is that of the run."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A program with its timeline, and its place in the run.

    execution:   the timeline, in cycles of the core.
    start_cycle, end_cycle: in cycles of the run, with waits for the core and for its clock edge.
    time:        conversion of cycles of the core to cycles of the run, counted from the start.
    device:      index of its device in the run.
    step:        the step of the executable that it runs; None without an executable.
    first_layer, first_instruction: numbers of its program's first layer and instruction in the run.
    bases:       by memory, the address in the run of the program's address 0; 0 for a memory that is not listed.
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
        """Return the address in the run of the program's address 0 of a memory."""
        return self.bases.get(space, 0)

    @property
    def is_piece(self) -> bool:
        """Whether it computes a part of the model; else it transfers values between parts, or decides."""
        return self.step is None or isinstance(self.step, Launch)

    def of_run(self, cycles: Times) -> Times:
        """Convert cycles of its core to cycles of the run, rounded up."""
        return self.start_cycle + self.time.cycles(cycles)

    def cycle_of_run(self, cycle: int) -> int:
        """Convert one cycle of its core to a cycle of the run, rounded up."""
        return self.start_cycle + self.time.cycle(cycle)

    @property
    def late_cycles(self) -> int:
        """Cycles of the run that it waits before its first own cycle."""
        return self.time.cycle(0)

    def account(self, account: Account, begin: int, late_cycles: int = 0) -> Account:
        """Convert a cycle breakdown from cycles of its core, from cycle `begin` on, to cycles of the run.

        The lower bound and the lost cycles are placed one after another on the time axis, and the ends of each are
        converted. So they add up to the converted total with any clocks.
        late_cycles: cycles to add as lost to waiting for the core.
        """
        at = self.time.cycle(begin)
        resources, busy = (
            {name: self.time.cycle(begin + cycles) - at for name, cycles in cycles_by_name.items()}
            for cycles_by_name in (account.bound.by_resource, account.busy)
        )
        reached, lost = begin + account.bound.cycles, dict[str, int]()
        for cause, cycles in account.lost.items():
            lost[cause] = self.time.cycle(reached + cycles) - self.time.cycle(reached)
            reached += cycles
        lost[STAGES.name] = lost.get(STAGES.name, 0) + late_cycles
        cycles = self.time.cycle(begin + account.cycles) - at + late_cycles
        return Account(cycles, LowerBound(resources, account.bound.port), in_order(lost), busy)

    def in_run(self) -> Execution:
        """Return its timeline in cycles of the run, counted from its start."""
        if self.time.same:
            return self.execution
        trace, time = self.execution.trace, self.time
        transfers = Transfers.of(trace.transfers)
        moved = replace(
            trace,
            dispatched=time.cycles(trace.dispatched),
            at_head=time.cycles(trace.at_head),
            ready=time.cycles(trace.ready),
            started=time.cycles(trace.started),
            ended=time.cycles(trace.ended),
            busy=time.cycles(trace.started + trace.busy) - time.cycles(trace.started),
            transfers=transfers.at(time.cycles(transfers.started), time.cycles(transfers.ended)),
        )
        return replace(self.execution, cycles=self.end_cycle - self.start_cycle, trace=moved)
