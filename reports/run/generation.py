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


def summary(made: Generation, width: int) -> RenderableType:
    """Return the summary for a terminal of `width` columns."""
    estimate = f"ESTIMATE without weights: {made.weights}, {show.count(made.parameters)} parameters\n"
    return Group(heading(run_data(made.first)), Text(estimate), facts(_rows(made), width))


def _rows(made: Generation) -> Iterable[tuple[str, str, str]]:
    first, several = made.first, f" of each of {made.batch} sequences" if made.batch > 1 else ""
    read = max(made.prompt, made.source)
    behind = f", behind an encoder that reads {made.source}" if made.source > made.prompt else ""
    yield (
        "First token",
        show.time(first.latency_ms),
        f"after a prompt of {made.prompt} tokens{several}{behind}: "
        f"{show.digits(read * made.batch / first.latency_ms * 1e3)} tokens/s\n"
        + first.uncertainty.words("latency"),
    )
    yield from _limit(first)
    if made.groups:
        yield (
            "Token",
            show.time(made.token_ms),
            f"on average over {made.further} further tokens{several}: {show.digits(made.tokens_per_s)} tokens/s",
        )
        last = made.groups[-1]
        yield from _limit(last.result)
        yield "Energy", show.energy(made.token_uj), "per further token, with DRAM and host"
    yield (
        "Cache",
        show.size(made.kept_bytes),
        f"at the end: keys and values, {show.size(made.cache_bytes)} per token",
    )
    yield (
        "All",
        show.time(made.latency_ms),
        f"from the prompt to the last of {made.new} tokens, {show.energy(made.energy_uj)}",
    )
    if len(made.groups) > 1:
        shown = made.groups[:MOST_GROUPS]
        for each in shown:
            yield (
                "" if each is not shown[0] else "By position",
                show.time(each.result.latency_ms),
                f"with the keys and values of {each.past} tokens: {each.tokens} token"
                + "s" * (each.tokens > 1),
            )
        if len(made.groups) > len(shown):
            yield "", "...", f"{len(made.groups) - len(shown)} more in --json"


def _limit(result: RunResult) -> Iterable[tuple[str, str, str]]:
    """Yield the row that says what limits a run."""
    for line in ending(result)[:1]:
        yield "  limited by", line.value, line.words
