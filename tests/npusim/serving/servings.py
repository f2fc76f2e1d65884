"""Requests, steps and machines for tests, where a cycle is a nanosecond."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npusim.isa.hardware.hardware import Hardware
from npusim.numbers.provenance import uncertainty
from npusim.serving import batching, inferences
from npusim.serving.arrivals import Requests
from npusim.serving.batching import Plan
from npusim.serving.inferences import Rules
from npusim.serving.log import Log
from npusim.serving.served import Serving
from npusim.serving.steps import DECODE, INFERENCE, PREFILL, Step, Stops

MACHINE = Hardware(name="bench", clock_mhz=1000.0)


def requests(
    arrival: Sequence[int], model: Sequence[int] = (), tokens: Sequence[tuple[int, int]] = ()
) -> Requests:
    """Requests at these cycles; of each the model, or the tokens of prompt and answer."""
    none = np.empty(0, np.int64)
    which = np.array(model or [0] * len(arrival), np.int64)
    prompt, new = np.array(tokens, np.int64).reshape(-1, 2).T
    names = tuple(f"model{each}" for each in range(max(which) + 1))
    return Requests(np.array(arrival, np.int64), which, prompt, new, which, names, none)


def step(
    cycles: int, phase: str = INFERENCE, energy_uj: float = 1.0, name: str = "step", **shape: int
) -> Step:
    sizes = {"tokens": 0, "past": 0, "batch": 1} | shape
    return Step(
        name=name, phase=phase, cycles=cycles, energy_uj=energy_uj, macs=cycles, dram_bytes=cycles,
        busy={"mac": cycles}, limited_by="mac", **sizes,
    )  # fmt: skip


def queued(
    asked: Requests, cycles: Sequence[int], rules: Rules | None = None, stops: Sequence[Stops] = ()
) -> Serving:
    """Single inferences of models that take these cycles."""
    log, energies = Log(len(asked)), [each.energy_uj[-1] for each in stops] or [1.0] * len(cycles)
    steps = [step(each, energy_uj=energy) for each, energy in zip(cycles, energies, strict=True)]
    inferences.simulate(asked, steps, stops, rules or Rules(), MACHINE.clock_mhz, log)
    return result(asked, log, rules or Rules())


def result(asked: Requests, log: Log, policy: Any, cache: Any = None) -> Serving:
    return Serving(
        models=asked.tenants, hardware=MACHINE, policy=policy.to_dict() | {"requests": "a.csv"},
        requests=asked, log=log, idle_mw=2.0,
        uncertainty=uncertainty(MACHINE, 0.0, 1, ""), cache=cache,
    )  # fmt: skip


class Steps:
    """Steps of a language model that take a fixed time, and some for each sequence, token and past token."""

    def __init__(self, fixed: int = 1000, sequence: int = 10, token: int = 3, past: int = 0) -> None:
        self.fixed, self.sequence, self.token, self.past = fixed, sequence, token, past
        self.steps: dict[tuple[int, int, int], Step] = {}

    def __call__(self, tokens: int, past: int, batch: int) -> Step:
        each = self.sequence + self.token * tokens + self.past * past
        phase = DECODE if tokens == 1 and past else PREFILL
        made = step(self.fixed + batch * each, phase, 1.0 + batch, tokens=tokens, past=past, batch=batch)
        return self.steps.setdefault((tokens, past, batch), made)


def batched(asked: Requests, plan: Plan, steps: Steps | None = None) -> Serving:
    """Requests of a language model with a plan."""
    log = Log(len(asked))
    cache = batching.simulate(asked, steps or Steps(), plan, log)
    return result(asked, log, plan, cache)


def plan(
    policy: str, max_batch: int = 1, *, chunk: int = 0, bucket: int = 1, pages: int = 1 << 20, page: int = 4
) -> Plan:
    return Plan(policy, max_batch, chunk, bucket, pages, page)
