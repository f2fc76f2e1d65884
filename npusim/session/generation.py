"""Time a language model that reads a prompt and generates tokens, from its configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from npusim import models
from npusim.frontends.transformer.config import TransformerConfig, is_config, read_config
from npusim.frontends.transformer.network import transformer
from npusim.frontends.transformer.published import BY_NAME, PUBLISHED
from npusim.isa.base.errors import NpusimError, nearest
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.graph.check import check
from npusim.numbers.generation import Generation, Stretch
from npusim.numbers.run import RunResult
from npusim.session import api
from npusim.session.options import FAST, Options

BUCKET = 128
"""By default a program reads the keys and values of a multiple of so many tokens."""


def generate(
    model: str | Path | TransformerConfig,
    prompt: int,
    new: int = 1,
    hw: str | Path | Hardware = api.DEFAULT_HARDWARE,
    *,
    batch: int = 1,
    bucket: int = BUCKET,
    options: Options = FAST,
    progress: Callable[[int, int], None] | None = None,
) -> Generation:
    """Time a prompt and the tokens that a language model generates after it.

    model:  a `config.json`, the name of a published model (`npusim models`), or the sizes as
            `npusim.frontends.transformer.config.read_config` gives them.
    prompt: tokens of the prompt; new: generated tokens, the first of which the prompt gives.
    batch:  sequences at once.
    bucket: devices run programs of fixed shapes. One program generates the tokens for which the keys and values of so
            many tokens, or of a multiple, suffice, and reads all of these. 1 gives every token a program of its own.
    progress: called with (programs simulated, all programs).

    Times are exact for the programs that run; they take a simulation for each. Raises NpusimError for a model that
    generates nothing, sizes that do not fit the model, and a machine that is too small.
    """
    config = model if isinstance(model, TransformerConfig) else _read(model)
    for name, value in (("prompt", prompt), ("new", new), ("batch", batch), ("bucket", bucket)):
        if value < 1:
            raise NpusimError(f"{name} is {value}, must be 1 or more")
    if not config.causal:
        raise NpusimError(f"{config.name}: {config.family} generates no tokens; run it without a prompt")
    if 0 < config.positions < prompt + new:
        raise NpusimError(
            f"{config.name}: {prompt} + {new} tokens are more than max_position_embeddings, {config.positions}"
        )
    machine = hw if isinstance(hw, Hardware) else api.hardware(hw)
    steps = list(_steps(config, prompt, new, bucket))
    done = 0

    def timed(tokens: int, past: int) -> RunResult:
        nonlocal done
        graph = check(transformer(config, tokens=tokens, past=past, batch=batch))
        program = api.compile_program(graph, machine, options)
        result = api.simulate(program, timing_only=True)
        done += 1
        if progress:
            progress(done, 1 + len(steps))
        return result

    return Generation(
        config.name,
        config.parameters,
        2 * config.layers * config.kv_heads * config.head_size,
        prompt,
        new,
        batch,
        bucket,
        timed(prompt, 0),
        tuple(Stretch(tokens, past, timed(1, past)) for tokens, past in steps),
    )


def _read(path: str | Path) -> TransformerConfig:
    file, name = Path(path), str(path)
    if file.exists():
        if file.is_dir() or not is_config(file):
            raise NpusimError(
                f"{path}: is no configuration of a language model; a prompt is for its config.json"
            )
        try:
            return read_config(path)
        except NpusimError as fault:
            raise type(fault)(f"{path}: {fault}") from None
    if found := BY_NAME.get(name):
        return found.config
    known = [row.name for row in PUBLISHED if row.config.causal]
    if name in models.names():
        raise NpusimError(f"{path}: generates no tokens; models that do are {', '.join(known)}")
    near = nearest(name, known)
    hint = (
        f", did you mean {near}?" if near else "; a prompt is for the config.json of a language model, or for"
    )
    raise NpusimError(f"{path}: no such file{hint} {'Known are ' if near else ''}{', '.join(known)}")


def _steps(config: TransformerConfig, prompt: int, new: int, bucket: int) -> Iterator[tuple[int, int]]:
    """Yield (tokens, past) for each program after the prompt: the n-th new token meets prompt + n - 2 tokens."""
    past, left = prompt, new - 1
    while left:
        room = -(-past // bucket) * bucket
        tokens = min(left, room - past + 1)
        if config.positions:
            room = min(room, config.positions - 1)
        yield tokens, room
        past, left = past + tokens, left - tokens
