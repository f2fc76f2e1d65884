"""What a change of each hardware parameter would bring, as a table in the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from npusim.reports import quantities as show
from npusim.reports.terminal import WIDEST
from npusim.terminal import console

if TYPE_CHECKING:
    from npusim.variants import Variant, WhatIf

NARROWEST = 40
LEAST_PERCENT = 0.05
"""Smaller changes would round to 0.0 %; the JSON has them."""


def render(found: WhatIf, width: int = 80) -> str:
    """The table as plain text, without colours."""
    file = StringIO()
    console(file, width=width, color_system=None, force_terminal=False).print(table(found, width))
    return file.getvalue()


def table(found: WhatIf, width: int) -> RenderableType:
    """The changes that matter, the largest gain first; then what matters not, and what was not run and why."""
    width = min(max(width, NARROWEST), WIDEST)
    ran = [each for each in found.variants if not each.reason]
    felt = [each for each in ran if matters(each)]
    quiet = [each for each in ran if not matters(each)]
    return Group(
        Text("What if, one parameter at a time", style="bold"),
        _rows(felt, width) if felt else Text("  nothing matters here"),
        *_without_effect(quiet),
        *_not_run(found),
        _remark(how(found)),
    )


def matters(variant: Variant) -> bool:
    """Whether latency or energy change by more than rounding hides; area alone is not what was asked."""
    return any(
        abs(each or 0.0) >= LEAST_PERCENT for each in (variant.latency_percent, variant.energy_percent)
    )


def how(found: WhatIf) -> str:
    """How the variants were made, in a sentence."""
    if found.compiled:
        return "Each variant is compiled for its hardware and simulated, without data."
    return "The program runs as it is on each variant; give the model to compile it for each."


def value(number: float | None) -> str:
    """A parameter as it stands in a hardware file."""
    return "-" if number is None else f"{number:.12g}"


def percent(change: float | None) -> str:
    """A change with its sign; "=" for none."""
    if change is None:
        return "-"
    return f"{change:+.1f} %" if change else "="


def _rows(variants: Iterable[Variant], width: int) -> RenderableType:
    grid = Table.grid(padding=(0, 2 if width >= 72 else 1))
    grid.add_column(overflow="fold", min_width=14)
    for _ in range(5):
        grid.add_column(justify="right", no_wrap=True)
    words = ["  parameter", "now", "then", "latency", "energy", "area"]
    grid.add_row(*(Text(word, style="dim") for word in words))
    for each in variants:
        changes = [each.latency_percent, each.energy_percent, each.area_percent]
        texts = [Text(percent(change), style=_style(change)) for change in changes]
        grid.add_row(f"  {each.parameter}", value(each.before), Text(value(each.after), style="bold"), *texts)
    return grid


def _style(change: float | None) -> str:
    if change is None or abs(change) < LEAST_PERCENT:
        return "dim"
    return "green" if change < 0 else "red"


def _without_effect(variants: Iterable[Variant]) -> Iterable[RenderableType]:
    names = ", ".join(dict.fromkeys(each.parameter for each in variants))
    if names:
        yield _remark(f"below {LEAST_PERCENT:g} %: {names}")


def _not_run(found: WhatIf) -> Iterable[RenderableType]:
    by_reason: dict[str, list[str]] = {}
    for each in found.variants:
        if each.reason:
            by_reason.setdefault(each.reason, []).append(each.parameter)
    for reason, names in by_reason.items():
        yield _remark(f"not run: {', '.join(names)}: {show.printable(reason)}")


def _remark(words: str) -> RenderableType:
    return Padding(Text(words, style="dim"), (0, 0, 0, 2))
