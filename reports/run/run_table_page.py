"""Runs of several models on several machines as one page with bars: `table.html` of `npusim run --report`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from npusim.reports.page.page import page
from npusim.reports.run.run_table import QUANTITIES, Quantity, claims

if TYPE_CHECKING:
    from npusim.numbers.runs import Run, RunTable


class Bar(NamedTuple):
    """A run in a group of bars: its machine or model, its number as text, its part of the largest of the group."""

    name: str
    text: str
    part: float
    best: bool


class Group(NamedTuple):
    """The runs of a model for one quantity; of all models, where there is one machine."""

    title: str
    bars: tuple[Bar, ...]


def render(table: RunTable) -> str:
    """The page as text."""
    sections = [(each.title, _groups(table, each)) for each in QUANTITIES if each.title != "area"]
    area = next(each for each in QUANTITIES if each.title == "area")
    one_each = {run.hardware: run for run in table.runs if run.values is not None}
    return page(
        "run_table.html",
        ("page.js",),
        {},
        title=f"{_few(table.models, 'model')} on {_few(table.machines, 'machine')}",
        table=table,
        sections=sections,
        claims=claims(table),
        areas=_bars(list(one_each.values()), area, list(one_each)),
    )


def _groups(table: RunTable, quantity: Quantity) -> list[Group]:
    if len(table.machines) == 1:
        return [Group("", _bars(table.runs, quantity, table.models))]
    return [Group(model, _bars(table.of(model), quantity, table.machines)) for model in table.models]


def _bars(runs: Sequence[Run], quantity: Quantity, names: Sequence[str]) -> tuple[Bar, ...]:
    numbers = [None if run.values is None else quantity.get(run.values) for run in runs]
    known = [number for number in numbers if number is not None]
    best = (max if quantity.title == "MAC use" else min)(known, default=None)
    # A part of the array is drawn as such.
    most = 1 if quantity.title == "MAC use" else max(known, default=0) or 1
    return tuple(
        Bar(name, "-", 0.0, False)
        if number is None
        else Bar(name, quantity.shown(number), number / most, number == best and len(known) > 1)
        for name, number in zip(names, numbers, strict=True)
    )


def _few(names: Sequence[str], what: str) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} {what}s"
