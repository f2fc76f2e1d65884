"""The page of served requests: what its charts draw, and how it stands in a browser on a phone and a wide screen."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.reports.serving import serving_page
from npusim.serving.served import Serving

from ..npusim.serving.servings import batched, plan, queued, requests


@pytest.fixture(scope="module")
def served() -> Serving:
    """A thousand requests to a language model, of two tenants, more than it can serve at once."""
    draw = np.random.default_rng(5)
    arrival = np.cumsum(draw.integers(0, 6000, 1000)).tolist()
    tokens = list(zip(draw.integers(1, 60, 1000).tolist(), draw.integers(1, 12, 1000).tolist(), strict=True))
    asked = requests(arrival, draw.integers(0, 2, 1000).tolist(), tokens)
    return batched(asked, plan("continuous", 4, pages=40))


def test_requests_of_a_row_follow_one_another(served: Serving) -> None:
    drawn = serving_page.data(served)["requests"]
    rows: dict[int, list[tuple[int, int]]] = {}
    for row, begin, end in zip(drawn["row"], drawn["arrival"], drawn["end"], strict=True):
        rows.setdefault(row, []).append((begin, end))
    assert all(end <= begin for bars in rows.values() for (_, end), (begin, _) in pairwise(bars))
    # The fewest rows: as many as there are requests at the same time.
    moments = sorted([(at, 1) for at in drawn["arrival"]] + [(at, -1) for at in drawn["end"]])
    assert len(rows) == max(np.cumsum([change for _, change in moments]))


def test_lanes_are_the_means_of_the_result(served: Serving) -> None:
    lanes = {lane["title"]: lane for lane in serving_page.data(served)["lanes"]}
    means = {title: np.mean(lane["shares"]) / 1000 * lane["top"] for title, lane in lanes.items()}
    assert served.cache is not None
    assert means["MAC"] == pytest.approx(served.busy["mac"], abs=1e-3)
    assert means["cache"] == pytest.approx(served.cache.mean / served.cache.pages, abs=1e-3)
    for phase in served.phases:
        assert means[phase.name] == pytest.approx(phase.cycles / served.cycles, abs=1e-3)


def test_the_roofline_is_that_of_the_steps(served: Serving) -> None:
    for point, phase in zip(serving_page.roofline(served), served.phases, strict=True):
        assert (point.name, point.macs_per_byte, point.macs_per_cycle) == (phase.name, 1.0, 1.0)
        assert point.roof == served.hardware.dram_bytes_per_cycle


def test_no_name_is_markup() -> None:
    result = queued(requests([0, 5]), [10])
    evil = "</script><script>x</script>"
    named = serving_page.render(Serving(**{**vars(result), "models": (evil,)}))
    assert "<script>x" not in named


@pytest.mark.slow
def test_a_thousand_requests_fit_a_phone_and_a_wide_screen(
    browser: Any, served: Serving, tmp_path: Path
) -> None:
    path = tmp_path / "serving.html"
    path.write_text(serving_page.render(served), "utf-8")
    complaints: list[Any] = []
    page = browser.new_context().new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda fault: complaints.append(str(fault)))
    for width, height in ((390, 844), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == width
        chart = page.locator('[data-chart="requests"]')
        chart.scroll_into_view_if_needed()
        chart.focus()
        page.keyboard.press("ArrowRight")
        assert page.locator("#tip").inner_text().startswith("request 0")
        for _ in range(3):
            page.keyboard.press("ArrowDown")
        assert page.locator("#tip").inner_text().startswith("MAC")
        page.locator('[data-zoom="in"]').click()
        page.wait_for_function("document.querySelector('[data-range]').textContent.includes('50.0')")
        assert page.locator('[data-chart="phases"] circle').count() == 2
    page.context.close()
    assert complaints == []
