"""The terminal summary of several inferences on a system: throughput first, then latency, cores and energy."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text

from npusim.numbers.throughput import Throughput
from npusim.reports.run.terminal import facts
from npusim.reports.words import quantities as show

MOST_INFERENCES = 8


def summary(result: Throughput, width: int) -> RenderableType:
    """Return the summary for a terminal of `width` columns."""
    heading = Text.assemble(
        (show.printable(result.model), "bold"), " on ", (show.printable(result.system), "bold"), "\n"
    )
    return Group(heading, facts(_rows(result), width))


def _rows(result: Throughput) -> Iterable[tuple[str, str, str]]:
    number, cores, has_dram = len(result.inferences), len(result.cores), result.hardware.has_dram
    steady = result.steady_per_s
    yield (
        "Throughput",
        f"{show.digits(result.per_s)}/s",
        f"{show.plural(number, 'inference')} on {show.plural(cores, 'core')} in {show.time(result.total_ms)}"
        + (
            ""
            if steady is None
            else f"; {show.digits(steady)}/s while every core runs its second or a later one"
        ),
    )
    first = result.inferences[0]
    yield (
        "First",
        show.time(result.first_loading_ms + first.latency_ms),
        f"{show.time(result.first_loading_ms)} to write {show.size(result.first_loading_bytes)} of constants and code "
        f"at the bandwidth of their memories, then {show.time(first.latency_ms)}",
    )
    for position, each in enumerate(result.inferences[:MOST_INFERENCES]):
        yield (
            "" if position else "Latency",
            show.time(each.latency_ms),
            f"from {show.time(each.start_ms)} on, core {each.core}",
        )
    if number > MOST_INFERENCES:
        yield "", "...", f"{number - MOST_INFERENCES} more in --json"
    for position, use in enumerate(result.cores):
        yield (
            f"Core {position}",
            show.percent(use.busy),
            f"of the time busy with {show.plural(use.inferences, 'inference')}: {show.printable(use.hardware)}, "
            f"multiply-adds at {show.percent(use.mac_utilization)} of the peak"
            + (f", DRAM traffic at {show.percent(use.dram_share)} of its bandwidth" if has_dram else ""),
        )
    yield (
        "Energy",
        show.energy(result.energy_uj),
        f"{show.energy(result.energy_uj / number)} per inference, {show.digits(result.mean_mw)} mW on average; "
        f"{show.energy(result.standby_uj)} of it whatever the cores do, the memories' standby once",
    )
