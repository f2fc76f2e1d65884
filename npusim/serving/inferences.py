"""The queue of single inferences before one machine, as a discrete-event model in whole cycles of its clock."""

from __future__ import annotations

from array import array
from collections.abc import Generator, Sequence
from heapq import heappop, heappush
from typing import Any

import simpy

from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.serving.arrivals import MOST_GIVEN, Requests, check_numbers
from npusim.serving.log import Log, Outcome
from npusim.serving.steps import Step, Stops


@dataclass(frozen=True, slots=True)
class Rules:
    """How single inferences are queued.

    priority: of each model; the larger goes first, as in the NN HAL. Of equal ones the first to arrive goes first.
              Empty: all are equal.
    deadline_ms: time from arrival in which the result of each model must be there; empty for none.
    queue:    most requests that wait; None for no limit. One that finds the queue full is refused (BUSY), unless it
              preempts the running one. A preempted request waits beside the queue's limit.
    preempt:  whether a request of higher priority stops another at the end of a layer.
    """

    priority: Sequence[int] = ()
    deadline_ms: Sequence[float] = ()
    queue: int | None = None
    preempt: bool = False

    def check(self, models: Sequence[str]) -> None:
        """Raise NpusimError for what does not fit the models, or together."""
        check_numbers("--priority", self.priority, models)
        check_numbers("--deadline-ms", self.deadline_ms, models, 0.0, MOST_GIVEN)
        if self.queue is not None and self.queue < 0:
            raise NpusimError(f"--queue {self.queue}: must be 0 or more, the requests that may wait")
        if self.preempt and len(set(self.priority)) < 2:
            raise NpusimError("--preempt: needs models of different --priority, such as 1,0")

    def to_dict(self) -> dict[str, Any]:
        """Return the rules as in the JSON."""
        return {
            "priority": list(self.priority),
            "deadline_ms": list(self.deadline_ms),
            "queue": self.queue,
            "preempt": self.preempt,
        }


def simulate(
    requests: Requests,
    steps: Sequence[Step],
    stops: Sequence[Stops],
    rules: Rules,
    clock_mhz: float,
    log: Log,
) -> None:
    """Run all requests through the queue, and fill their log.

    steps: what an inference of each model takes; stops: where it can be preempted, needed with `rules.preempt`.
    """
    log.steps.extend(steps)
    environment = simpy.Environment()
    server = _Server(environment, requests, steps, stops, rules, clock_mhz, log)
    environment.process(server.arrive())
    environment.run()


class _Server:
    """One machine and the queue before it; request numbers stand for requests."""

    def __init__(
        self,
        environment: simpy.Environment,
        requests: Requests,
        steps: Sequence[Step],
        stops: Sequence[Stops],
        rules: Rules,
        clock_mhz: float,
        log: Log,
    ) -> None:
        self._environment, self._log = environment, log
        self._priority = rules.priority or [0] * len(steps)
        self._deadline = [round(each * clock_mhz * 1e3) for each in rules.deadline_ms]
        """Cycles from arrival in which the result of each model must be there; empty for none."""
        self._most = len(requests) if rules.queue is None else rules.queue
        self._preempts = rules.preempt
        self._steps, self._stops = steps, stops
        # Python's own integers are several times as fast in a loop as those of numpy, and arrays of 8 bytes each.
        self._arrival, self._model = (
            array("q", requests.arrival.tobytes()),
            array("q", requests.model.tobytes()),
        )
        self._waiting: list[tuple[int, int]] = []
        """A heap of (priority with its sign changed, request)."""
        self._resumes: dict[int, int] = {}
        """The stop at which each preempted request goes on."""
        self._idle: simpy.Event | None = None
        self._process = environment.process(self._serve())
        self._running = -1
        """The request that may be preempted; -1 if none may."""
        self._part = 0, 0
        """The cycle in which it would have begun without a preemption, and the stop at which this part goes on."""

    @property
    def _now(self) -> int:
        """The current cycle: all delays are whole numbers."""
        return int(self._environment.now)

    def arrive(self) -> Generator[simpy.Event, Any, None]:
        """Admit each request to the queue, or refuse it, in the cycle of its arrival."""
        environment = self._environment
        yield environment.timeout(0)  # the server starts first
        for number, at in enumerate(self._arrival):
            yield environment.timeout(at - self._now)
            # What ends in this cycle, or starts for the request before, does so before the request arrives.
            yield environment.timeout(0)
            self._admit(number)

    def _admit(self, number: int) -> None:
        model, priority = self._model[number], self._priority
        if self._deadline and self._steps[model].cycles > self._deadline[model]:
            # Even an idle machine would be too late, whenever the request came.
            self._log.refuse(number, Outcome.MISSED_DEADLINE_PERSISTENT)
        elif self._idle is None and len(self._waiting) >= self._most and not self._preempts_running(model):
            self._log.refuse(number, Outcome.BUSY)
        else:
            heappush(self._waiting, (-priority[model], number))
            if self._idle is not None:
                self._idle.succeed()
                self._idle = None
            elif self._preempts_running(model):
                self._running = -1
                self._process.interrupt()

    def _preempts_running(self, model: int) -> bool:
        """Return whether a request that arrives now has a higher priority than the running one, and time to answer.

        One that is too late even behind the current layer is refused at its turn, so it stops nobody.
        """
        if self._running < 0:
            return False
        other = self._model[self._running]
        if self._priority[model] <= self._priority[other]:
            return False
        if not self._deadline:
            return True
        stops, (origin, stop) = self._stops[other], self._part
        at = max(stops.next(self._now - origin), stop)
        start = origin + stops.cycle[at] + stops.store[at].cycles
        return start + self._steps[model].cycles <= self._now + self._deadline[model]

    def _serve(self) -> Generator[simpy.Event, Any, None]:
        """Serve requests for ever, each to its end or until it is preempted."""
        environment, log, waiting = self._environment, self._log, self._waiting
        while True:
            if not waiting:
                self._idle = environment.event()
                yield self._idle
            _, number = heappop(waiting)
            model = self._model[number]
            stop = self._resumes.pop(number, -1)
            left = self._steps[model].cycles
            if stop >= 0:
                left += self._stops[model].load[stop].cycles - self._stops[model].cycle[stop]
            if self._deadline and self._now + left > self._arrival[number] + self._deadline[model]:
                log.refuse(number, Outcome.MISSED_DEADLINE_TRANSIENT)
                continue
            begin = self._now
            if stop < 0:
                log.start[number] = begin
            if self._preempts:
                yield from self._until_preempted(number, model, stop, left)
            else:
                yield environment.timeout(left)
                log.finish(number, begin, self._now, model, self._steps[model].energy_uj)

    def _until_preempted(
        self, number: int, model: int, stop: int, left: int
    ) -> Generator[simpy.Event, Any, None]:
        """Run a request from a stop on, to its end or to the end of the layer in which it is preempted."""
        environment, stops, log = self._environment, self._stops[model], self._log
        begin = self._now
        done_uj, loaded = 0.0, begin
        # The cycle of the inference at `begin`; negative while the scratchpad is loaded.
        offset = 0 if stop < 0 else stops.cycle[stop] - stops.load[stop].cycles
        if stop >= 0:
            done_uj, loaded = stops.energy_uj[stop], begin + stops.load[stop].cycles
            log.move(number, begin, loaded, stops.load[stop])
        self._running, self._part = number, (begin - offset, stop)
        try:
            yield environment.timeout(left)
            at = len(stops.cycle) - 1
        except simpy.Interrupt:
            at = max(stops.next(offset + self._now - begin), stop)
            # The rest of the layer, which is not preempted, and the store of what it leaves in the scratchpad.
            yield environment.timeout(begin + stops.cycle[at] - offset - self._now)
        self._running = -1
        spent = stops.energy_uj[at] - done_uj
        if at == len(stops.cycle) - 1:
            log.finish(number, loaded, self._now, model, spent)
            return
        ended, store = self._now, stops.store[at]
        log.pause(number, loaded, ended, model, spent, (stops.cycle[at], stops.energy_uj[at]))
        yield environment.timeout(store.cycles)
        log.move(number, ended, self._now, store)
        self._resumes[number] = at
        heappush(self._waiting, (-self._priority[model], number))
