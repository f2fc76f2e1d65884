"""`npusim.serve`: requests against one machine, from their arrivals to percentiles of their times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from npusim.frontends.transformer.published import configuration
from npusim.frontends.transformer.sizes import TransformerConfig
from npusim.isa.base.errors import NpusimError
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.program import Program
from npusim.numbers.energy import floor_mw
from npusim.serving import inferences
from npusim.serving.arrivals import MOST_GIVEN, Load, Requests
from npusim.serving.batching import Batching, Plan, simulate
from npusim.serving.inferences import Rules
from npusim.serving.log import Log
from npusim.serving.served import Serving
from npusim.serving.steps import INFERENCE, LanguageSteps, Moves, step_of, stops_of, weakest
from npusim.session import api
from npusim.session.opening import open_model
from npusim.session.options import FAST, Options

Watch = Callable[[str], None]
"""A function that is called with the name of each program before it is compiled."""


def serve(
    models: str | Path | TransformerConfig | Sequence[str | Path],
    hw: str | Path | Hardware | None = None,
    *,
    requests: str | Path | None = None,
    rate: float | Sequence[float] = (),
    period_ms: float | Sequence[float] = (),
    count: int = 0,
    duration_s: float = 0.0,
    seed: int = 0,
    prompt_tokens: int = 0,
    new_tokens: int = 0,
    priority: int | Sequence[int] = (),
    deadline_ms: float | Sequence[float] = (),
    queue: int | None = None,
    preempt: bool = False,
    batching: str = "",
    max_batch: int = 0,
    chunk: int = 0,
    bucket: int = 0,
    cache_mib: float = 0.0,
    page: int = 0,
    sleep_mw: float | None = None,
    battery_wh: float = 0.0,
    options: Options = FAST,
    watch: Watch | None = None,
) -> Serving:
    """Serve requests on one machine, and return their times, deadline misses and energy.

    models:   one or several models, files or names, whose requests are single inferences; or one language model
              (config.json, GGUF file or published name), whose requests are a prompt and the tokens after it.
    hw:       a preset, a file, or a Hardware; edge-128 if None.
    requests: a CSV file of arrivals (`npusim.serving.arrivals.read`); or one of the next two, with a number per model.
    rate:     requests per second, at random (Poisson, from `seed`); period_ms: a fixed time between two requests.
    count, duration_s: how many requests of all models, or until when they arrive; 1000 if neither is given.
    prompt_tokens, new_tokens: of each request to a language model that comes from a rate or period.
    sleep_mw: power of the machine while no program runs, by default that of the powered machine with its clocks; going
              to sleep and waking take no time. battery_wh: energy of a battery, to say how long it lasts.
    watch:    called with the name of each program before it is compiled.

    Of single inferences (`npusim.serving.inferences.Rules`):
    priority: of each model, the larger first; deadline_ms: from arrival, of each model; queue: most that wait;
    preempt:  a request of higher priority stops another at the end of a layer.

    Of language models (`npusim.serving.batching.Batching`):
    batching: "one", "static", "continuous" or "chunked"; max_batch: most sequences at once; chunk: tokens of a chunk;
    bucket:   lengths of programs are multiples of it, by default powers of two, from 128 for prompts and 256 for keys;
    cache_mib: memory for keys and values, by default what the weights leave; page: tokens of a page, 16 by default.

    Each program is compiled and simulated once, from an idle machine, and each of its runs takes these cycles.
    Raises NpusimError for all that does not fit together, before anything is compiled.
    """
    paths = [models] if isinstance(models, str | Path | TransformerConfig) else list(models)
    load = Load(
        Path(requests) if requests else None,
        _many(rate),
        _many(period_ms),
        count,
        duration_s,
        seed,
        prompt_tokens,
        new_tokens,
    )
    rules = Rules(_many(priority), _many(deadline_ms), queue, preempt)
    batches = Batching(batching, max_batch, chunk, bucket, cache_mib, page)
    configs = [path if isinstance(path, TransformerConfig) else configuration(path) for path in paths]
    for option, value in (("--sleep-mw", sleep_mw or 0.0), ("--battery-wh", battery_wh)):
        if not 0 <= value <= MOST_GIVEN:
            raise NpusimError(f"{option} {value:g}: must be a number from 0 to {MOST_GIVEN:g}")
    names = [
        config.name if config else Path(str(path)).stem if Path(str(path)).is_file() else str(path)
        for path, config in zip(paths, configs, strict=True)
    ]
    for number, name in enumerate(names):
        if name in names[:number]:
            other, this = str(paths[names.index(name)]), str(paths[number])
            if this != other:
                raise NpusimError(
                    f"{name}: is the name of {other} and {this}; give one a file name of its own"
                )
            raise NpusimError(f"{name}: is given twice; give it once, with the rate of both")
    language = next((config for config in configs if config is not None and config.causal), None)
    if language is None:
        _refuse(batches, Batching(), f"is for a language model; {', '.join(names)} has none")
        result = _serve_inferences([str(path) for path in paths], names, hw, load, rules, options, watch)
        return result.with_power(sleep_mw, battery_wh)
    if len(names) > 1:
        raise NpusimError(f"{language.name}: a language model is served alone; these are {', '.join(names)}")
    _refuse(rules, Rules(), f"is for single inferences; {language.name} is a language model")
    return _serve_language(language, hw, load, batches, options, watch).with_power(sleep_mw, battery_wh)


def _many(given: Any) -> tuple[Any, ...]:
    """Return one or several numbers as a tuple."""
    return tuple(given) if isinstance(given, Sequence) else (given,)


def _refuse(given: object, default: object, reason: str) -> None:
    """Raise NpusimError for an option that is not its default."""
    for field in fields(given):  # type: ignore[arg-type]
        if getattr(given, field.name) != getattr(default, field.name):
            raise NpusimError(f"--{field.name.replace('_', '-')}: {reason}")


def _machine(hw: str | Path | Hardware | None) -> Hardware:
    return hw if isinstance(hw, Hardware) else api.hardware(api.DEFAULT_HARDWARE if hw is None else hw)


def _serve_inferences(
    paths: Sequence[str],
    names: Sequence[str],
    hw: str | Path | Hardware | None,
    load: Load,
    rules: Rules,
    options: Options,
    watch: Watch | None,
) -> Serving:
    """Serve single inferences of one or several models."""
    load.check(names, tokens=False)
    rules.check(names)
    opened = [open_model(path) for path in paths]
    programs = [model.hardware for model in opened if isinstance(model, Program)]
    machine = programs[0] if programs and hw is None else _machine(hw)
    requests = load.requests(names, machine.clock_mhz, tokens=False)
    results = []
    for path, name, model in zip(paths, names, opened, strict=True):
        if watch:
            watch(name)
        program, _ = api.prepare_any(path, machine, options, model=model)
        if not isinstance(program, Program):
            decided = ", ".join(program.decisions)
            raise NpusimError(
                f"{path}: decides ({decided}), so its inferences differ in time; npusim run times one"
            )
        results.append(api.simulate(program, timing_only=True))
    log = Log(len(requests))
    steps = [step_of(result, name, INFERENCE) for result, name in zip(results, names, strict=True)]
    moves: Moves = {}
    stops = [stops_of(result, moves) for result in results] if rules.preempt else []
    inferences.simulate(requests, steps, stops, rules, machine.clock_mhz, log)
    policy = rules.to_dict() | load.to_dict(requests) | {"effort": options.effort}
    return Serving(
        models=tuple(names),
        hardware=machine,
        policy=policy,
        requests=requests,
        log=log,
        idle_mw=floor_mw(machine),
        uncertainty=weakest(result.uncertainty for result in results),
    )


def _serve_language(
    config: TransformerConfig,
    hw: str | Path | Hardware | None,
    load: Load,
    batches: Batching,
    options: Options,
    watch: Watch | None,
) -> Serving:
    """Serve prompts of one language model, and the tokens after them."""
    if config.encoder is not None:
        raise NpusimError(f"{config.name}: has an encoder; language models that are served have none")
    load.check([config.name], tokens=True)
    machine = _machine(hw)
    plan = batches.plan(config, machine)
    requests = load.requests([config.name], machine.clock_mhz, tokens=True)
    _check_lengths(requests, plan, config)
    log = Log(len(requests))
    steps = LanguageSteps(config, machine, options, watch)
    _compile_longest(requests, plan, steps)
    cache = simulate(requests, steps, plan, log)
    assert steps.uncertainty is not None  # there is a request, which took a step
    return Serving(
        models=(config.name,),
        hardware=machine,
        policy=plan.to_dict() | load.to_dict(requests) | {"effort": options.effort},
        requests=requests,
        log=log,
        idle_mw=floor_mw(machine),
        uncertainty=steps.uncertainty,
        cache=cache,
        weights=config.weights.words,
        parameters=config.parameters,
    )


def _compile_longest(requests: Requests, plan: Plan, steps: LanguageSteps) -> None:
    """Compile the largest programs that are sure to run, so that one that does not fit is refused before the others.

    How large batches become, and when pieces of prompts are read, is known only when the queue is simulated.
    """
    if plan.policy in ("one", "continuous"):
        steps(plan.length(int(requests.prompt.max())), 0, 1)
    generating = requests.new > 1
    if plan.policy == "one" and generating.any():
        # The first token follows the prompt, and the last one is not read.
        steps(1, plan.past(int((requests.prompt + requests.new)[generating].max()) - 2, 1), 1)


def _check_lengths(requests: Requests, plan: Plan, config: TransformerConfig) -> None:
    """Raise NpusimError for the first request that the cache or the model's positions cannot hold."""
    tokens = requests.prompt + requests.new - 1
    for most, what in (
        (
            plan.pages * plan.page,
            f"the cache has {plan.pages} page{'s' * (plan.pages > 1)} of {plan.page}; give more with --cache-mib",
        ),
        (config.positions, f"{config.name} has {config.positions} positions"),
    ):
        too_long: list[int] = np.flatnonzero(tokens > most).tolist() if most else []
        for number in too_long[:1]:
            raise NpusimError(
                f"{requests.where(number)}: {requests.prompt[number]} tokens and {requests.new[number]} new ones: "
                f"{tokens[number]} have keys and values, {what}"
            )
