"""The result of serving requests: what happened to each, and the numbers about all of them and about each tenant.

Times are whole cycles of the machine's clock. A percentile is the smallest value that at least so many percent of the
values do not exceed, so it is one of the values and no interpolation.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cached_property
from math import fsum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.version import npusim_version
from npusim.isa.hardware.hardware import Hardware
from npusim.numbers.bounds import UNBOUND
from npusim.numbers.layers import share
from npusim.numbers.provenance import Uncertainty
from npusim.numbers.run import SCHEMA_VERSION
from npusim.serving.arrivals import Requests
from npusim.serving.log import Log, Outcome
from npusim.serving.steps import Step

PERCENTILES = (50, 90, 95, 99)
"""The percentiles of a `Spread`."""


class Spread(NamedTuple):
    """Mean, percentiles and maximum of values; all 0 without values."""

    mean: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    max: float = 0.0


def spread(values: NDArray[Any], factor: float = 1.0) -> Spread:
    """Return the spread of values times a factor."""
    distinct, counts = np.unique(values, return_counts=True)
    return spread_of_counts(dict(zip(distinct.tolist(), counts.tolist(), strict=True)), factor)


def spread_of_counts(counts: Mapping[Any, int], factor: float = 1.0) -> Spread:
    """Return the spread of values that are given as the number of each."""
    if not counts:
        return Spread()
    values = sorted(counts)
    numbers = [counts[value] for value in values]
    upto = np.cumsum(numbers)
    ranks = [-(-each * int(upto[-1]) // 100) for each in PERCENTILES]
    mean = fsum(value * number for value, number in zip(values, numbers, strict=True)) / int(upto[-1])
    at = [values[int(np.searchsorted(upto, rank))] for rank in ranks]
    return Spread(*(factor * value for value in (mean, *at, values[-1])))


@dataclass(frozen=True, slots=True)
class Group:
    """The numbers of all requests, or of those of one tenant.

    outcomes: number of requests by outcome.
    queue_ms, total_ms: times from arrival to the first step, and to the end, of those that were answered.
    first_token_ms, token_ms: of language models: time to the first token, and mean time of each token after it.
    request_uj: energy of an answered request; energy_uj: of all together. tokens: generated tokens.
    """

    name: str
    outcomes: Mapping[str, int]
    queue_ms: Spread
    total_ms: Spread
    first_token_ms: Spread
    token_ms: Spread
    request_uj: Spread
    energy_uj: float
    tokens: int

    @property
    def requests(self) -> int:
        """The number of requests."""
        return sum(self.outcomes.values())

    @property
    def answered(self) -> int:
        """The number of requests that were answered."""
        return self.outcomes[Outcome.NONE.name]

    @property
    def token_uj(self) -> float:
        """The energy per generated token in uJ, prompts included; 0 without tokens."""
        return self.energy_uj / self.tokens if self.tokens else 0.0

    @property
    def missed_deadlines(self) -> float:
        """The share of requests that missed their deadline."""
        missed = sum(number for name, number in self.outcomes.items() if name.startswith("MISSED"))
        return share(missed, self.requests)

    def to_dict(self) -> dict[str, Any]:
        """Return the group as in the JSON."""
        tokens = ("first_token_ms", "token_ms", "tokens", "token_uj") if self.tokens else ()
        names = (
            "name",
            "requests",
            "outcomes",
            "missed_deadlines",
            "queue_ms",
            "total_ms",
            "request_uj",
            "energy_uj",
        )
        values = {name: getattr(self, name) for name in (*names, *tokens)}
        return {key: value._asdict() if isinstance(value, Spread) else value for key, value in values.items()}


@dataclass(frozen=True, slots=True)
class Phase:
    """All runs of the steps of one phase, added up; `busy` are cycles of each unit and memory.

    An inference that was preempted and has not ended is no run, but counts for the part that was done in all sums:
    cycles and energy exactly, the rest by its share of the cycles.
    """

    name: str
    runs: int
    cycles: int
    energy_uj: float
    macs: int
    dram_bytes: int
    busy: Mapping[str, int]

    @property
    def limited_by(self) -> str:
        """The unit or memory that is busy longest; "none" if nothing is."""
        longest = max(self.busy, key=lambda name: self.busy[name], default=UNBOUND)
        return longest if self.busy.get(longest) else UNBOUND


@dataclass(frozen=True, slots=True)
class CacheUse:
    """The cache of keys and values over the run.

    bytes, pages, page: its size, its pages, and the tokens of a page; token_bytes: bytes of one token.
    peak:  most pages taken at a time; mean: pages taken on average over the run.
    stops: how often a request lost its pages to an older one; again: tokens computed again for that.
    """

    bytes: int
    token_bytes: int
    pages: int
    page: int
    peak: int
    mean: float
    stops: int
    again: int


@dataclass(frozen=True, kw_only=True)
class Serving:
    """The result of serving requests on one machine.

    models:   names of the models; policy: how requests are queued or batched, by option, as in the JSON.
    requests: what was asked for; log: what happened.
    idle_mw:  power of the machine while it waits: leakage, clocks, DRAM standby and refresh, or what the user gave.
    battery_wh: energy of a battery whose life is asked for; 0 for none.
    cache:    of a language model; None for other models.
    weights:  how the weights of a language model are stored, and `parameters` its number of them; "" and 0 for others.
    """

    models: tuple[str, ...]
    hardware: Hardware
    policy: Mapping[str, Any]
    requests: Requests
    log: Log
    idle_mw: float
    uncertainty: Uncertainty
    cache: CacheUse | None = None
    weights: str = ""
    parameters: int = 0
    battery_wh: float = 0.0

    @property
    def is_language(self) -> bool:
        """Whether the requests generate tokens."""
        return self.cache is not None

    @property
    def begin(self) -> int:
        """The cycle from which rates are counted: that of the first arrival, or 0 if a duration is given."""
        return self.requests.begin

    @cached_property
    def end(self) -> int:
        """The cycle in which the last step ends, or the next request would arrive if that is later."""
        return self.requests.end(max(self.log.run_end, default=0))

    @property
    def cycles(self) -> int:
        """The cycles from `begin` to `end`."""
        return self.end - self.begin

    @property
    def seconds(self) -> float:
        """The time from `begin` to `end`, in seconds: rates, powers and shares of the time are over it."""
        return self.hardware.us_of_cycles(self.cycles) * 1e-6

    @cached_property
    def busy_cycles(self) -> int:
        """The cycles in which a step runs."""
        return sum(self.log.run_end) - sum(self.log.run_begin)

    @property
    def utilization(self) -> float:
        """The share of the time in which a step runs."""
        return share(self.busy_cycles, self.cycles)

    @property
    def idle_uj(self) -> float:
        """The energy of the machine while no step runs, in uJ; no part of a request's energy."""
        return self.idle_mw * self.hardware.us_of_cycles(self.cycles - self.busy_cycles) * 1e-3

    @cached_property
    def energy_uj(self) -> float:
        """The energy of all requests, and of the machine while no step runs, in uJ."""
        return fsum(self.log.energy_uj) + self.idle_uj

    def with_power(self, sleep_mw: float | None, battery_wh: float) -> Serving:
        """Return the same result with another power while the machine waits, unless that is None, and a battery."""
        return replace(self, idle_mw=self.idle_mw if sleep_mw is None else sleep_mw, battery_wh=battery_wh)

    @property
    def mean_mw(self) -> float:
        """The mean power of the machine from `begin` to `end`, in mW."""
        return self.energy_uj / (self.seconds * 1e3) if self.cycles else 0.0

    @property
    def battery_h(self) -> float | None:
        """The hours for which the battery gives the mean power; None without one."""
        return self.battery_wh / (self.mean_mw * 1e-3) if self.battery_wh and self.mean_mw else None

    @cached_property
    def total(self) -> Group:
        """The numbers of all requests."""
        return self._group("all", np.ones(len(self.requests), bool))

    @cached_property
    def by_tenant(self) -> tuple[Group, ...]:
        """The numbers of each tenant's requests by name, if there are several tenants."""
        names = self.requests.tenants
        order = sorted(range(len(names)), key=names.__getitem__) if len(names) > 1 else []
        return tuple(self._group(names[number], self.requests.tenant == number) for number in order)

    def _group(self, name: str, chosen: NDArray[np.bool_]) -> Group:
        requests, log = self.requests, self.log
        outcomes = np.frombuffer(log.outcome, np.uint8)[chosen]
        done = chosen & (np.frombuffer(log.outcome, np.uint8) == Outcome.NONE)
        energy, ms = np.frombuffer(log.energy_uj), self.hardware.us_of_cycles(1) * 1e-3
        arrival, start, end = requests.arrival[done], _column(log.start)[done], _column(log.end)[done]
        none = np.empty(0, np.int64)
        first, new = (_column(log.first)[done], requests.new[done]) if self.is_language else (none, none)
        several = new > 1
        return Group(
            name=name,
            outcomes={each.name: int((outcomes == each).sum()) for each in Outcome},
            queue_ms=spread(start - arrival, ms),
            total_ms=spread(end - arrival, ms),
            first_token_ms=spread(first - arrival if self.is_language else none, ms),
            token_ms=spread(
                (end[several] - first[several]) / (new[several] - 1) if self.is_language else none, ms
            ),
            request_uj=spread(energy[done]),
            energy_uj=fsum(energy[chosen].tolist()),
            tokens=int(new.sum()),
        )

    @cached_property
    def gaps(self) -> Spread:
        """The times between two tokens of a request, in ms."""
        return spread_of_counts(self.log.gaps, self.hardware.us_of_cycles(1) * 1e-3)

    @property
    def mean_in_system(self) -> float:
        """The mean number of requests that wait or are served, of those that are answered."""
        answered = self.total.answered
        return self.total.total_ms.mean * answered / (self.seconds * 1e3) if self.cycles else 0.0

    @property
    def requests_per_s(self) -> float:
        """Answered requests per second, from `begin` to `end`."""
        return self.total.answered / self.seconds if self.cycles else 0.0

    @property
    def tokens_per_s(self) -> float:
        """Generated tokens per second, from `begin` to `end`."""
        return self.total.tokens / self.seconds if self.cycles else 0.0

    @property
    def runs(self) -> tuple[int, ...]:
        """The number of complete runs of each step of the log."""
        return tuple(self.log.runs[index] for index in range(len(self.log.steps)))

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The runs of the steps, added up by phase."""
        done: Counter[int] = Counter()
        done_uj: defaultdict[int, float] = defaultdict(float)
        for index, cycles, energy_uj in self.log.partial.values():
            done[index] += cycles
            done_uj[index] += energy_uj
        phases = []
        for name in dict.fromkeys(step.phase for step in self.log.steps):
            steps = [
                (step, self.runs[index], done[index], done_uj[index])
                for index, step in enumerate(self.log.steps)
                if step.phase == name
            ]
            busy: Counter[str] = Counter()
            for step, runs, part, _ in steps:
                busy.update({unit: _times(cycles, step, runs, part) for unit, cycles in step.busy.items()})
            phases.append(
                Phase(
                    name,
                    sum(runs for _, runs, *_ in steps),
                    sum(step.cycles * runs + part for step, runs, part, _ in steps),
                    fsum(step.energy_uj * runs + part_uj for step, runs, _, part_uj in steps),
                    sum(_times(step.macs, step, runs, part) for step, runs, part, _ in steps),
                    sum(_times(step.dram_bytes, step, runs, part) for step, runs, part, _ in steps),
                    dict(busy),
                )
            )
        return tuple(phases)

    @property
    def busy(self) -> dict[str, float]:
        """The share of the time in which each unit and each memory's port is busy."""
        sums: Counter[str] = Counter()
        for phase in self.phases:
            sums.update(phase.busy)
        return {unit: share(cycles, self.cycles) for unit, cycles in sums.items()}

    def columns(self) -> dict[str, list[Any]]:
        """Return a row per request, as columns: times in ms, energy in uJ; None for what a request does not have."""
        requests, log, ms = self.requests, self.log, self.hardware.us_of_cycles(1) * 1e-3
        arrival = requests.arrival.tolist()

        def since(ends: array[int]) -> list[float | None]:
            return [None if end < 0 else (end - at) * ms for end, at in zip(ends, arrival, strict=True)]

        tokens = {
            "prompt_tokens": requests.prompt.tolist(),
            "new_tokens": requests.new.tolist(),
            "first_token_ms": since(log.first),
        }
        return {
            "request": list(range(len(requests))),
            "tenant": [requests.tenants[each] for each in requests.tenant.tolist()],
            "model": [self.models[each] for each in requests.model.tolist()],
            "arrival_s": [at * ms * 1e-3 for at in arrival],
            "queue_ms": since(log.start),
            **(tokens if self.is_language else {}),
            "total_ms": since(log.end),
            "stops": log.stops.tolist(),
            "energy_uj": log.energy_uj.tolist(),
            "outcome": [Outcome(each).name for each in log.outcome],
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the result as the JSON of `--json`."""
        return {
            "schema_version": SCHEMA_VERSION,
            "npusim_version": npusim_version(),
            "models": list(self.models),
            "hardware": self.hardware.model_dump(mode="json"),
            "agreement": self.uncertainty.to_dict(),
            "policy": dict(self.policy),
            "notes": list(self.requests.notes),
            "seconds": self.seconds,
            "utilization": self.utilization,
            "busy": self.busy,
            "requests_per_s": self.requests_per_s,
            "tokens_per_s": self.tokens_per_s,
            "mean_in_system": self.mean_in_system,
            "energy_uj": {
                "total": self.energy_uj,
                "requests": fsum(self.log.energy_uj),
                "idle": self.idle_uj,
                "preemption": self.log.moved_uj,
            },
            "idle_mw": self.idle_mw,
            "mean_mw": self.mean_mw,
            **(
                {} if self.battery_h is None else {"battery_wh": self.battery_wh, "battery_h": self.battery_h}
            ),
            "all": self.total.to_dict(),
            "tenants": [group.to_dict() for group in self.by_tenant],
            **({"between_tokens_ms": self.gaps._asdict(), "cache": asdict(self.cache)} if self.cache else {}),
            "phases": [asdict(phase) | {"limited_by": phase.limited_by} for phase in self.phases],
            "programs": [
                asdict(step) | {"runs": runs} for step, runs in zip(self.log.steps, self.runs, strict=True)
            ],
        }


def _times(amount: int, step: Step, runs: int, part: int) -> int:
    """Return an amount of a step for its runs, and for a part of its cycles."""
    return amount * runs + (round(amount * part / step.cycles) if part else 0)


def _column(values: array[int]) -> NDArray[np.int64]:
    return np.frombuffer(values, np.int64)
