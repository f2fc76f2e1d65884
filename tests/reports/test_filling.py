"""Tracks of short items: what is painted of a kind is its share of the time, in every file that shows it."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npusim
from npusim.numbers.run import RunResult
from npusim.reports.run import figures
from npusim.reports.run.series import Charts, Items, cells, covered, patches
from npusim.reports.words.names import CAUSE_COLOURS


def _items(spans: list[tuple[int, int, int]]) -> Items:
    kind, begin, end = np.array(spans, np.int64).reshape(-1, 3).T
    return Items(kind, begin, end, end - begin)


def _painted(items: Items, total: int, columns: int, rows: int) -> list[float]:
    """The share of all cells of each kind."""
    found = [0] * (int(items.kind.max(initial=-1)) + 1)
    for patch in patches(items, total, columns, rows):
        found[patch.kind] += patch.cells
    return [number / (columns * rows) for number in found]


def test_an_item_of_a_cycle_does_not_hide_what_is_beside_it() -> None:
    """A thousand waits of 63 cycles, each followed by one of another kind for a cycle, in 100 columns."""
    spans = [
        each for at in range(1000) for each in ((0, at * 64, at * 64 + 63), (1, at * 64 + 63, at * 64 + 64))
    ]
    assert _painted(_items(spans), 64_000, 100, 24) == pytest.approx([63 / 64, 1 / 64], abs=1 / 2400)


def test_items_wider_than_a_column_are_whole_columns() -> None:
    items = _items([(0, 0, 400), (1, 400, 700)])
    assert [*patches(items, 1000, 10, 4)] == [(0, 0, 4, 0, 4), (1, 4, 7, 0, 4)]


def test_merged_items_fill_what_they_work() -> None:
    items = Items(np.array([0]), np.array([0]), np.array([1000]), np.array([250]))
    assert _painted(items, 1000, 50, 24) == [0.25]


def test_a_track_without_items_is_empty() -> None:
    assert [*patches(_items([]), 1000, 50, 24)] == []


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 30), st.integers(0, 30)), max_size=80),
    st.integers(1, 60),
)
def test_painted_shares_are_the_shares_of_time(steps: list[tuple[int, int, int]], columns: int) -> None:
    at, spans = 0, []
    for kind, length, gap in steps:
        spans.append((kind, at, at + length))
        at += length + gap
    items, total, rows = _items(spans), max(at, 1), 12
    number = [sum(column) for column in zip(*cells(covered(items, total, columns), rows), strict=True)]
    true = np.bincount(items.kind, items.busy, len(number)) / total
    for mine, share in zip(number, true, strict=True):
        assert mine / (columns * rows) == pytest.approx(share, abs=3 / (columns * rows))
    for column in cells(covered(items, total, columns), rows):
        assert 0 <= sum(column) <= rows


@pytest.fixture(scope="module")
def resnet50() -> RunResult:
    return npusim.run("resnet50", timing_only=True)


@pytest.mark.slow
def test_the_figure_shows_every_cause_as_large_as_it_is(resnet50: RunResult) -> None:
    """Pixels of the PNG: of 35 % painted for a cause of 0.16 % the last one drawn was the reason."""
    image = pytest.importorskip("matplotlib.image", reason="figures need npusim[report]")
    file = BytesIO()
    with figures.styled():
        figure = figures.timeline(resnet50)
        figure.savefig(file, format="png")
    pixels = (image.imread(BytesIO(file.getvalue()))[..., :3] * 255).round().astype(int)
    (axes,) = figure.axes
    row = len(axes.get_yticks()) - 1
    box = axes.transData.transform([(0, row + figures.TRACK_HEIGHT / 2), (resnet50.latency_ms, row - 0.38)])
    (left, low), (right, high) = (box * 150.0 / figure.dpi).round().astype(int).tolist()
    track = pixels[len(pixels) - high : len(pixels) - low, left:right]
    found = Charts(resnet50).stalls
    for cause in set(found.cause):
        mine = np.array([each == cause for each in found.cause])
        true = float((found.end - found.begin)[mine].sum()) / int(resnet50.cycles)
        code = CAUSE_COLOURS[cause]
        colour = [int(code[at : at + 2], 16) for at in (1, 3, 5)]
        painted = float((np.abs(track - colour).sum(-1) <= 6).mean())
        assert painted == pytest.approx(true, abs=0.01), cause
