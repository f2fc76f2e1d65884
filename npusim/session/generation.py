"""Times a language model that reads a prompt and generates tokens, from its configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from npusim import models
from npusim.frontends.transformer.network import (
    MOST_SCORES,
    check_length,
    check_positions,
    in_window,
    transformer,
)
from npusim.frontends.transformer.published import BLOCK_BY_NAME, PUBLISHED, configuration, configured
from npusim.frontends.transformer.sizes import ACTIVATIONS, TransformerConfig
from npusim.frontends.transformer.weights import FORMATS
from npusim.isa.base.errors import NpusimError, nearest
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.graph.check import check
from npusim.numbers.generation import Generation, TokenGroup
from npusim.numbers.run import RunResult
from npusim.session import api
from npusim.session.options import BUCKET, FAST, Options


def generate(
    model: str | Path | Mapping[str, Any] | TransformerConfig,
    prompt: int,
    new: int = 1,
    hw: str | Path | Hardware = api.DEFAULT_HARDWARE,
    *,
    batch: int = 1,
    bucket: int = BUCKET,
    options: Options = FAST,
    weights: str | None = None,
    activations: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    every_layer: bool = False,
) -> Generation:
    """Time a prompt and the tokens that a language model generates after it.

    model:  the path of a `config.json` or of a GGUF file, the values of a `config.json`, or the name of a published
            model (`npusim models`).
    prompt: number of tokens in the prompt; new: of generated tokens. The run of the prompt gives the first of them.
            The encoder of a T5 reads the prompt, and its decoder begins with one token. The decoder of a Whisper reads
            the prompt, after the encoder has read sound. The encoder runs once, in the run of the prompt.
    batch:  number of sequences that are computed together.
    bucket: the shapes of a program are fixed, so a program reads the keys and values of a multiple of `bucket` tokens.
            It generates all tokens for which these suffice. 1 gives every token a program of its own.
    weights: how the weights of products are stored, such as "int4-32"; by default as the model says, else int8.
    activations: the element type of activations, keys and values, "int8" or "float16"; by default what weights need.
    progress: called with (number of simulated programs, number of all programs).
    every_layer: as for `npusim.simulate`.

    Each program is compiled and simulated once. Raises NpusimError for a model that generates no tokens, numbers that
    do not fit the model, and hardware that is too small.
    """
    config = configured(
        model if isinstance(model, TransformerConfig | Mapping) else _read(model), weights, activations
    )
    for name, value in (("prompt", prompt), ("new", new), ("batch", batch), ("bucket", bucket)):
        if value < 1:
            raise NpusimError(f"{name} is {value}, must be 1 or more")
    if not config.causal:
        raise NpusimError(f"{config.name}: {config.family} generates no tokens; run it without a prompt")
    # The encoder reads the prompt unless what it reads has a length of its own.
    source, started = config.read, prompt
    if config.encoder is not None and not source:
        source, started = prompt, 1
    machine = hw if isinstance(hw, Hardware) else api.hardware(hw)
    # All checks that need no compilation come before the first one, which takes seconds to minutes.
    try:
        check_positions(config, new, started)
        check_length(config, started, 0)
        check_length(config, 1, started + new - 2)
    except NpusimError as fault:
        raise type(fault)(f"{config.name}: {fault}") from None
    _check_memory(config, machine, batch, started + new - 2, source)
    steps = list(_steps(config, started, new, bucket))
    done = 0

    def timed(tokens: int, past: int) -> RunResult:
        nonlocal done
        graph = check(transformer(config, tokens=tokens, past=past, batch=batch, source=source))
        program = api.compile_program(graph, machine, options)
        result = api.simulate(program, timing_only=True, every_layer=every_layer)
        done += 1
        if progress:
            progress(done, 1 + len(steps))
        return result

    return Generation(
        config.name,
        config.parameters,
        config.weights.words,
        config.layers * config.layer_cache_bytes,
        prompt,
        new,
        batch,
        bucket,
        source,
        started,
        timed(started, 0),
        tuple(TokenGroup(tokens, past, timed(1, past)) for tokens, past in steps),
    )


def _read(path: str | Path) -> TransformerConfig:
    """Return the sizes of a language model by name or file. Raises NpusimError that lists the known names."""
    config = configuration(path)
    if config is not None:
        return config
    if Path(path).exists():
        raise NpusimError(
            f"{path}: is no configuration of a language model; a prompt is for its config.json or GGUF file"
        )
    name, known = str(path), [row.name for row in PUBLISHED if row.config.causal]
    if name in (*models.names(), *BLOCK_BY_NAME):
        raise NpusimError(f"{path}: generates no tokens; models that do are {', '.join(known)}")
    near = nearest(name, known)
    hint = (
        f", did you mean {near}?"
        if near
        else "; a prompt is for the config.json or GGUF file of a language model, or for"
    )
    raise NpusimError(f"{path}: no such file{hint} {'Known are ' if near else ''}{', '.join(known)}")


def _check_memory(config: TransformerConfig, machine: Hardware, batch: int, past: int, source: int) -> None:
    """Raise NpusimError if the memories cannot even hold the weights, keys and values."""
    windows = config.windows or config.layers * (0,)
    held = batch * sum(in_window(past, window) + source for window in windows)
    cache = config.layer_cache_bytes * held
    has = sum(machine.memory_bytes(space) for space in machine.outer_spaces)
    excess = config.stored_bytes + cache - has
    if excess <= 0:
        return
    # Activations stay what the user chose; those that weights in floats need go with these.
    activations = None if config.weights.real else ACTIVATIONS[config.floats]
    others = [config.stored_as(other, activations) for other in FORMATS]
    fitting = next(
        (
            candidate
            for candidate in others
            if candidate.stored_bytes + candidate.layer_cache_bytes * held <= has
        ),
        None,
    )
    instead = (
        f"--weights {fitting.weights.name} would fit, {fitting.stored_bytes} bytes, or "
        if fitting
        else "take a smaller model, or "
    )
    raise NpusimError(
        f"{config.name}: weights of {config.stored_bytes} bytes ({config.weights.words}), and {cache} of keys and "
        f"values, are {excess} bytes more than the memories have, {has}; {instead}give more with dram.size_mib"
    )


def _steps(config: TransformerConfig, prompt: int, new: int, bucket: int) -> Iterator[tuple[int, int]]:
    """Yield the tokens that each program after the prompt generates, and the past tokens whose keys it reads.

    The n-th new token attends to prompt + n - 2 past tokens.
    """
    past, left = prompt, new - 1
    unlimited = config.windows and all(0 < window <= MOST_SCORES for window in config.windows)
    most = config.positions if unlimited else min(config.positions or MOST_SCORES, MOST_SCORES)
    while left:
        room = -(-past // bucket) * bucket
        tokens = min(left, room - past + 1)
        room = min(room, most - 1)
        yield tokens, room
        past, left = past + tokens, left - tokens
