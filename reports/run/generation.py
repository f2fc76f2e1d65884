"""The terminal summary of a timed language model: first token, further tokens, and what limits each."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text

from npusim.numbers.generation import Generation
from npusim.numbers.run import RunResult
from npusim.reports.run.run_data import run_data
from npusim.reports.run.terminal import facts, heading
from npusim.reports.words import quantities as show
from npusim.reports.words.reason import ending

MOST_GROUPS = 8


def summary(result: Generation, width: int) -> RenderableType:
    """Return the summary for a terminal of `width` columns."""
    estimate = f"ESTIMATE without weights: {result.weights}, {show.count(result.parameters)} parameters\n"
    return Group(heading(run_data(result.first)), Text(estimate), facts(_rows(result), width))


def _rows(result: Generation) -> Iterable[tuple[str, str, str]]:
    first, several = result.first, f" of each of {result.batch} sequences" if result.batch > 1 else ""
    prompt = f"a prompt of {show.plural(result.prompt, 'token')}{several}"
    if result.source in (0, result.prompt):
        rate = result.prompt * result.batch / first.latency_ms * 1e3
        after = f"after {prompt}: {show.digits(rate)} tokens/s"
    else:  # most of the time is the encoder's, so it says nothing about the rate of tokens
        after = f"after {show.plural(result.source, 'vector')} of the encoder and {prompt}"
    yield (
        "First token",
        show.time(first.latency_ms),
        f"{after}\n{first.uncertainty.words('latency')}",
    )
    yield from _limit(first)
    if result.groups:
        yield (
            "Token",
            show.time(result.token_ms),
            f"on average over {show.plural(result.further, 'further token')}{several}: "
            f"{show.digits(result.tokens_per_s)} tokens/s",
        )
        last = result.groups[-1]
        yield from _limit(last.result)
        yield "Energy", show.energy(result.token_uj), "per further token, with DRAM and host"
    yield (
        "Cache",
        show.size(result.kept_bytes),
        f"at the end: keys and values, {show.size(result.cache_bytes)} per token",
    )
    yield (
        "All",
        show.time(result.latency_ms),
        f"from the prompt to the last of {show.plural(result.new, 'token')}, {show.energy(result.energy_uj)}",
    )
    if len(result.groups) > 1:
        shown = result.groups[:MOST_GROUPS]
        for step in shown:
            yield (
                "" if step is not shown[0] else "By position",
                show.time(step.result.latency_ms),
                f"with the keys and values of {show.plural(step.past, 'token')}: {show.plural(step.tokens, 'token')}",
            )
        if len(result.groups) > len(shown):
            yield "", "...", f"{len(result.groups) - len(shown)} more in --json"


def _limit(result: RunResult) -> Iterable[tuple[str, str, str]]:
    """Yield the row that says what limits a run."""
    for line in ending(result)[:1]:
        yield "  limited by", line.value, line.words
