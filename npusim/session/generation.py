"""Times a language model that reads a prompt and generates tokens, from its configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from npusim import models
from npusim.frontends.transformer.config import TransformerConfig, is_config, read_config
from npusim.frontends.transformer.network import MOST_SCORES, check_length, in_window, transformer
from npusim.frontends.transformer.published import BY_NAME, PUBLISHED
from npusim.isa.base.errors import NpusimError, nearest
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.graph.check import check
from npusim.numbers.generation import Generation, TokenGroup
from npusim.numbers.run import RunResult
from npusim.session import api
from npusim.session.options import BUCKET, FAST, Options


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

    model:  the path of a `config.json`, the name of a published model (`npusim models`), or the sizes that
            `npusim.frontends.transformer.config.read_config` returns.
    prompt: number of tokens in the prompt; new: of generated tokens. The run of the prompt gives the first of them.
    batch:  number of sequences that are computed together.
    bucket: the shapes of a program are fixed, so a program reads the keys and values of a multiple of `bucket` tokens.
            It generates all tokens for which these suffice. 1 gives every token a program of its own.
    progress: called with (number of simulated programs, number of all programs).

    Each program is compiled and simulated once. Raises NpusimError for a model that generates no tokens, numbers that
    do not fit the model, and hardware that is too small.
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
    # All checks that need no compilation come before the first one, which takes seconds to minutes.
    try:
        check_length(config, prompt, 0)
        check_length(config, 1, prompt + new - 2)
    except NpusimError as fault:
        raise type(fault)(f"{config.name}: {fault}") from None
    _check_memory(config, machine, batch, prompt + new - 2)
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
        tuple(TokenGroup(tokens, past, timed(1, past)) for tokens, past in steps),
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


def _check_memory(config: TransformerConfig, machine: Hardware, batch: int, past: int) -> None:
    """Raise NpusimError if the memories cannot even hold the weights, keys and values, which are int8."""
    kept = sum(in_window(past, window) for window in config.windows or config.layers * (0,))
    cache = 2 * config.kv_heads * config.head_size * kept * batch
    has = sum(machine.memory_bytes(space) for space in machine.outer_spaces)
    if config.parameters + cache > has:
        raise NpusimError(
            f"{config.name}: weights of {config.parameters} bytes (int8), and {cache} of keys and values, are more "
            f"than the memories have, {has} bytes; give more with dram.size_mib, or take a smaller model"
        )


def _steps(config: TransformerConfig, prompt: int, new: int, bucket: int) -> Iterator[tuple[int, int]]:
    """Yield the tokens that each program after the prompt generates, and the past tokens whose keys it reads.

    The n-th new token attends to prompt + n - 2 past tokens.
    """
    past, left = prompt, new - 1
    unlimited = config.windows and all(0 < window <= MOST_SCORES for window in config.windows)
    most = config.positions if unlimited else min(config.positions, MOST_SCORES)
    while left:
        room = -(-past // bucket) * bucket
        tokens = min(left, room - past + 1)
        room = min(room, most - 1)
        yield tokens, room
        past, left = past + tokens, left - tokens
