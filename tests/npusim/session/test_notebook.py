"""In a notebook: results show themselves, figures are drawn, and the example runs and is what it was."""

from __future__ import annotations

import importlib.util
import pickle
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import npusim
from npusim.numbers.measure import measure
from npusim.numbers.run import RunResult, WallTimes
from npusim.reports.notebook import notebook

from ..numbers.fake_run import LAYERS, execution, program

DOCS = Path(__file__).resolve().parents[3] / "docs"
EVIL = "<script>alert('x')</script>\x1b[31m"
FIGURES = ("roofline", "timeline", "energy", "power", "occupancy")


@pytest.fixture(scope="module")
def result() -> RunResult:
    return measure(program(), execution(), WallTimes(0.1, 0.2, 0.3))


class Tags(HTMLParser):
    """The tags of a text, which must close in the order in which they open, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"


def test_a_result_shows_itself(result: RunResult) -> None:
    shown = Tags(notebook.result(result))
    assert shown.seen <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    for words in (
        "tiny on bench",
        "Latency",
        "400 ns",
        "MAC utilization",
        "Layers, the longest first",
        "conv_2d",
    ):
        assert words in shown.text
    assert repr(result).startswith("<RunResult: tiny on bench, 0.0004 ms, ")


def test_long_results_show_the_longest_layers(result: RunResult, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "MOST_LAYERS", 2)
    text = Tags(notebook.result(result)).text
    assert "The 2 longest of 5 layers:" in text
    assert "arg_max" in text
    assert "concatenation" not in text


def test_names_of_files_are_escaped() -> None:
    layers = (replace(LAYERS[0], name=EVIL, op=EVIL), *LAYERS[1:])
    evil = measure(replace(program(layers), name=EVIL), execution(), WallTimes())
    html = notebook.result(evil)
    assert "<script" not in html
    assert "\x1b" not in html
    assert "&lt;script&gt;" in html
    Tags(html)


@pytest.mark.slow
def test_comparisons_and_variants_show_themselves(result: RunResult) -> None:
    other = npusim.run("digits_cnn", timing_only=True)
    comparison = npusim.compare(other, npusim.run("digits_cnn", "edge-64", timing_only=True))
    shown = Tags(comparison._repr_html_())
    assert "edge-64" in shown.text
    assert "mac_array.rows" in shown.text
    assert repr(comparison) == "<Comparison: edge-128, edge-64>"
    tried = npusim.what_if(other.program, jobs=1)
    assert "as it is on each variant" in Tags(tried._repr_html_()).text
    assert repr(tried).startswith("<WhatIf: digits_cnn on edge-128, ")


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_figures(name: str) -> None:
    import matplotlib.figure as matplotlib

    figure = getattr(npusim.run("digits_cnn", timing_only=True), f"plot_{name}")()
    assert isinstance(figure, matplotlib.Figure)
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert pickle.loads(pickle.dumps(figure)).axes


# The example


def _maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_make_notebook", DOCS / "make_notebook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    for needed in ("nbclient", "ipykernel"):
        pytest.importorskip(needed)
    return _maker()


@pytest.mark.slow
def test_the_example_runs_and_shows_what_it_showed(maker: ModuleType, tmp_path: Path) -> None:
    import nbformat

    stored = nbformat.read(maker.NOTEBOOK, 4)
    assert [cell.source for cell in stored.cells] == [text for _, text in maker.CELLS]
    now = maker.executed(tmp_path)  # raises if a cell fails
    for before, after in zip(stored.cells, now.cells, strict=True):
        assert _ours(before) == _ours(after), f"{before.source}\nrun: python docs/make_notebook.py"
    assert (tmp_path / "comparison.html").exists()


def _ours(cell: Any) -> list[Any]:
    """What a cell shows that npusim wrote: not the looks of pandas, nor the pixels of matplotlib."""
    found = []
    for output in cell.get("outputs", ()):
        if output.output_type == "stream":
            found.append(output.text)
        elif output.data.get("text/plain", "").startswith("<"):
            found.append(output.data["text/html"])
        else:
            found.append(sorted(output.data))
    return found


def test_the_example_is_small_and_says_nothing_of_who_made_it(maker: ModuleType) -> None:
    text = maker.NOTEBOOK.read_text("utf-8")
    assert len(text) < 500_000
    for volatile in ("iopub", '"version"', " at 0x", "site-packages"):
        assert volatile not in text, volatile
