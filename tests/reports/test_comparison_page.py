"""The page of a comparison in a browser: no fault on its console, tables sort, the filter finds, phones can read it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import npusim
from npusim.comparison.comparison import compare

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The page of a comparison of three runs, open in headless Chromium; `page.faults` is what its console said."""
    from npusim.reports.comparison import page as comparison_page

    machines = ("edge-128", "edge-64", "mobile-1024")
    runs = [npusim.run("digits_cnn", machine, timing_only=True) for machine in machines]
    file: Path = tmp_path_factory.mktemp("page") / "comparison.html"
    file.write_text(comparison_page.render(compare(*runs)), "utf-8")
    opened = browser.new_page(viewport={"width": 1300, "height": 900})
    opened.faults = []
    opened.on("console", lambda message: opened.faults.append(message.text))
    opened.on("pageerror", lambda fault: opened.faults.append(str(fault)))
    opened.goto(file.as_uri())
    yield opened
    opened.close()


def column(page: Any, number: int) -> list[float]:
    return [
        float(cell.get_attribute("data-v"))
        for cell in page.query_selector_all(f"#layer-table tbody tr:not([hidden]) > :nth-child({number})")
    ]


def test_nothing_on_the_console(page: Any) -> None:
    assert page.title() == "Comparison of edge-128, edge-64, mobile-1024 - npusim"
    assert page.faults == []


def test_layers_sort(page: Any) -> None:
    button = page.query_selector("#layer-table thead th:nth-child(3) button")
    for order in ("descending", "ascending"):
        button.click()
        assert page.query_selector("#layer-table thead th:nth-child(3)").get_attribute("aria-sort") == order
        values = column(page, 3)
        assert values == sorted(values, reverse=order == "descending")
        assert len(set(values)) > 3


def test_layers_are_found_by_name_and_operator(page: Any) -> None:
    field = page.query_selector("#find input")
    field.fill("conv_2d stem")
    assert page.query_selector("#find output").inner_text() == "1 of 10 layers"
    field.fill("")
    assert page.query_selector("#find output").inner_text() == "10 layers"


@pytest.mark.parametrize("width", [360, 800, 1300])
def test_only_tables_scroll_sideways(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
def test_the_whole_run_is_in_the_bars(page: Any) -> None:
    total = page.query_selector("#losses .compared td.n")
    assert total.inner_text().endswith("s")  # clocks differ: times
    assert all(
        page.evaluate("(bar) => [...bar.children].every((piece) => piece.title)", bar)
        for bar in page.query_selector_all(".compared .stack")
    )
