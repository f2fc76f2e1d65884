"""What happens to each request while it is served, in compact columns, and when which program runs."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from enum import IntEnum

from npusim.serving.steps import Step


class Outcome(IntEnum):
    """What became of a request, in the words of the NN HAL.

    NONE:  it was answered.
    BUSY:  it found the queue full and was refused.
    MISSED_DEADLINE_TRANSIENT:  it could not end in time any more when its turn came; it was not run to its end.
    MISSED_DEADLINE_PERSISTENT: an inference takes longer than the deadline even on an idle machine.
    """

    NONE = 0
    BUSY = 1
    MISSED_DEADLINE_TRANSIENT = 2
    MISSED_DEADLINE_PERSISTENT = 3


class Log:
    """What happens to requests: a number for each, in compact arrays; and when which step runs.

    start: cycle at which its first step begins; first: of its first token; end: of its end; -1 if there is none.
    stops: how often it was stopped; energy_uj: its share of the energy of steps.
    """

    def __init__(self, requests: int) -> None:
        self.start, self.first, self.end = (array("q", [-1]) * requests for _ in range(3))
        self.stops = array("q", [0]) * requests
        self.energy_uj = array("d", [0.0]) * requests
        self.outcome = bytearray(requests)
        self.steps: list[Step] = []
        self._index: dict[int, int] = {}
        self.runs: Counter[int] = Counter()
        """Complete runs of each step, by its index in `steps`."""
        self.run_begin, self.run_end, self.run_step, self.run_batch = (array("q") for _ in range(4))
        self.pages_at, self.pages = array("q"), array("q")
        """The cycles at which the cache changes, and the pages taken from then on."""
        self.gaps: Counter[int] = Counter()
        """Numbers of the times between two tokens of a request, by cycles."""
        self.moved_uj = 0.0
        """Energy of storing and loading the scratchpad for preemption."""
        self.partial: dict[int, tuple[int, int, float]] = {}
        """Of each request that was preempted and has not ended: its step, and the cycles and energy done of it."""

    def refuse(self, number: int, outcome: Outcome) -> None:
        """Note why a request is not answered."""
        self.outcome[number] = outcome

    def step(self, begin: int, end: int, step: Step, numbers: Sequence[int]) -> None:
        """Note the run of a step, whose energy is shared equally by its requests."""
        self._complete(begin, end, step, len(numbers))
        part = step.energy_uj / len(numbers)
        for number in numbers:
            self.energy_uj[number] += part
            if self.start[number] < 0:
                self.start[number] = begin

    def finish(self, number: int, begin: int, end: int, step: int, energy_uj: float) -> None:
        """Note the end of an inference, and the energy of its last part."""
        self.runs[step] += 1
        self._run(begin, end, step, 1)
        self.partial.pop(number, None)
        self.end[number] = end
        self.energy_uj[number] += energy_uj

    def pause(
        self, number: int, begin: int, end: int, step: int, energy_uj: float, done: tuple[int, float]
    ) -> None:
        """Note a part of an inference that is preempted, and the cycles and energy done since its start."""
        self._run(begin, end, step, 1)
        self.partial[number] = step, *done
        self.stops[number] += 1
        self.energy_uj[number] += energy_uj

    def move(self, number: int, begin: int, end: int, step: Step) -> None:
        """Note a program that moves the scratchpad of a preempted request; nothing for an empty scratchpad."""
        if end > begin:
            self._complete(begin, end, step, 1)
            self.energy_uj[number] += step.energy_uj
            self.moved_uj += step.energy_uj

    def _complete(self, begin: int, end: int, step: Step, batch: int) -> None:
        """Note a complete run of a step, which may be new."""
        if id(step) not in self._index:
            self._index[id(step)] = len(self.steps)
            self.steps.append(step)
        self.runs[self._index[id(step)]] += 1
        self._run(begin, end, self._index[id(step)], batch)

    def _run(self, begin: int, end: int, step: int, batch: int) -> None:
        self.run_begin.append(begin)
        self.run_end.append(end)
        self.run_step.append(step)
        self.run_batch.append(batch)
