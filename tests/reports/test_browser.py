"""The report in a real browser: Debian's Chromium, headless. It is used as people use it: mouse, keys, phone, paper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import npusim
from npusim.isa.hardware.units import Unit
from npusim.numbers.measure import measure
from npusim.numbers.run import RunResult
from npusim.reports.run import html, series
from npusim.reports.run.series import Charts

from ..devices import measured
from ..npusim.numbers.fake_run import LAYERS, execution, program
from .conftest import emptied

pytestmark = pytest.mark.slow

MOST_BYTES = 3_000_000
MOST_SECONDS = 1.0
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
EVIL = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=2>"

Page = Any
"""A page of playwright, which has no types where it is not installed."""


@pytest.fixture(scope="module")
def result() -> RunResult:
    return npusim.run("mobilenet_v2", timing_only=True)


@pytest.fixture(scope="module")
def report(result: RunResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html.render(result), "utf-8")
    return path


class Opened:
    """A page with everything that it complained about or asked for."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.context = browser.new_context(**({"viewport": WIDE} | options))
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(120_000)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.address = path.as_uri()
        self.page.goto(self.address)

    def again(self) -> None:
        """Open the same file as if it were the first time."""
        emptied(self.page)
        self.complaints.clear()
        self.requests.clear()
        self.page.goto(self.address)


@pytest.fixture(scope="module")
def tab(browser: Any, report: Path) -> Iterator[Opened]:
    found = Opened(browser, report)
    yield found
    found.context.close()


@pytest.fixture
def opened(tab: Opened) -> Iterator[Opened]:
    tab.again()
    yield tab
    assert tab.complaints == []
    assert tab.requests == [tab.address]


@pytest.fixture
def page(opened: Opened) -> Page:
    return opened.page


def _column(page: Page, title: str) -> list[str]:
    """What stands in a column of the layer table, hidden rows left out."""
    found: list[str] = page.evaluate(
        """title => {
          const table = document.getElementById("layer-table");
          const column = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent.trim() === title);
          return [...table.tBodies[0].rows].filter((row) => !row.hidden)
            .map((row) => row.cells[column].dataset.v ?? row.cells[column].textContent.trim());
        }""",
        title,
    )
    return found


def _heads(page: Page) -> list[str]:
    """The heads of the layer table that are there."""
    heads = page.locator("#layer-table thead th")
    return [
        text.strip()
        for text, seen in zip(
            heads.all_inner_texts(), [each.is_visible() for each in heads.all()], strict=True
        )
        if seen
    ]


def _range(page: Page, chart: str = "units") -> tuple[float, float]:
    host = page.locator(f'[data-chart="{chart}"]')
    return float(host.get_attribute("data-from")), float(host.get_attribute("data-to"))


def _settled(page: Page) -> None:
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def _tip(page: Page) -> str:
    return str(page.locator("#tip").inner_text()) if page.locator("#tip").is_visible() else ""


# Tables


def test_a_click_on_a_head_sorts_and_another_turns_around(page: Page, result: RunResult) -> None:
    cycles = [str(layer.cycles) for layer in result.layers]
    assert _column(page, "Cycles") == cycles
    head = page.locator("#layer-table th", has_text="Cycles").first
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert _column(page, "Cycles") == sorted(cycles, key=int, reverse=True)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert _column(page, "Cycles") == sorted(cycles, key=int)
    page.locator("#layer-table th", has_text="#").first.locator("button").click()
    assert _column(page, "Cycles") == cycles
    assert head.get_attribute("aria-sort") == "none"


def test_the_keyboard_sorts_by_words(page: Page) -> None:
    button = page.locator("#layer-table th button", has_text="Operator")
    button.focus()
    page.keyboard.press("Enter")
    operators = _column(page, "Operator")
    assert operators == sorted(operators)
    assert operators[0] == "add"


def test_the_filter_filters(page: Page, result: RunResult) -> None:
    count = page.locator('form[data-filter="layer-table"] output')
    page.locator("input[name=text]").fill("stage_3 depthwise")
    wanted = [each.name for each in result.layers if "stage_3" in each.name and "depthwise" in each.name]
    assert _column(page, "Layer") == wanted
    assert count.inner_text() == f"{len(wanted)} of {len(result.layers)} layers"
    page.locator("input[name=text]").fill("")
    page.locator("select[name=unit]").select_option("vector")
    assert set(_column(page, "Unit")) == {"vector"}
    page.locator("select[name=bound]").select_option("mac")
    assert _column(page, "Unit") == []
    page.locator("select[name=unit]").select_option("")
    assert set(_column(page, "Bound by")) == {"MAC"}


def test_lost_cycles_by_cause_are_columns_on_request(page: Page, result: RunResult) -> None:
    head = page.locator("#layer-table thead th", has_text="edge tiles")
    assert not head.is_visible()
    page.get_by_label("All columns").check()
    assert head.is_visible()
    assert _column(page, "edge tiles") == [
        str(layer.lost_cycles.get("edge_tiles", 0)) for layer in result.layers
    ]


def test_what_layers_are_stands_before_what_they_cost_in_detail(page: Page, result: RunResult) -> None:
    wanted = [
        "#",
        "Layer",
        "Operator",
        "Cycles",
        "Time",
        "Bound and losses",
        "Input",
        "Output",
        "Kernel",
        "Stride",
        "Tile",
        "Dataflow",
    ]
    assert _heads(page)[: len(wanted)] == wanted
    at = next(at for at, layer in enumerate(result.layers) if layer.op == "depthwise_conv_2d")
    assert [_column(page, title)[at] for title in ("Input", "Kernel", "Stride", "Dataflow")] == [
        "112\u00d7112\u00d732", "3\u00d73", "1\u00d71", "DW",
    ]  # fmt: skip
    assert _column(page, "Time")[at] == str(result.layers[at].time_us)


@pytest.mark.parametrize("width", [1280, 1440])
def test_a_table_that_goes_on_fades_at_the_edge(width: int, browser: Any, report: Path) -> None:
    opened = Opened(browser, report, viewport={"width": width, "height": 900})
    box = opened.page.locator(".scroll", has=opened.page.locator("#layer-table"))
    faded = "box => getComputedStyle(box).maskImage.includes('gradient')"
    assert box.evaluate("box => box.scrollWidth > box.clientWidth")
    assert box.evaluate(faded)
    box.evaluate("box => box.scrollTo(box.scrollWidth, 0)")
    _settled(opened.page)
    assert not box.evaluate(faded)
    opened.context.close()


def test_the_head_stays_in_sight(page: Page) -> None:
    box = page.locator(".scroll", has=page.locator("#layer-table"))
    box.evaluate("box => box.scrollTo(0, 600)")
    head, frame = page.locator("#layer-table thead th").first.bounding_box(), box.bounding_box()
    assert head["y"] == pytest.approx(frame["y"], abs=2)


def test_buffers_are_listed_when_opened(page: Page, result: RunResult) -> None:
    page.locator("#buffers summary").click()
    rows = page.locator("#buffer-table tbody tr")
    rows.first.wait_for()  # the browser says that the part is open after the click has returned
    assert rows.count() == len(result.program.buffers)


# Charts over time


def test_buttons_zoom_and_all_charts_follow(page: Page, result: RunResult) -> None:
    total = float(result.cycles)
    assert _range(page) == (0, total)
    page.locator("#timeline").get_by_label("Zoom in").click()
    _settled(page)
    assert _range(page) == pytest.approx((total / 4, total * 3 / 4), abs=0.01)
    page.locator("#timeline").get_by_label("Later").click()
    _settled(page)
    assert _range(page) == pytest.approx((total * 0.45, total * 0.95), abs=0.01)
    assert _range(page, "power") == _range(page, "occupancy") == _range(page, "buffers") == _range(page)
    assert "of the run" in page.locator("#timeline [data-range]").inner_text()
    page.locator("#power").get_by_role("button", name="All").click()
    _settled(page)
    assert _range(page) == (0, total)


def test_the_wheel_zooms_with_ctrl_and_scrolls_without(page: Page, result: RunResult) -> None:
    chart = page.locator('[data-chart="units"]')
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    page.mouse.wheel(0, 120)
    _settled(page)
    assert _range(page) == (0, float(result.cycles))
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -120)
    page.keyboard.up("Control")
    _settled(page)
    begin, end = _range(page)
    assert end - begin == pytest.approx(float(result.cycles) * 2.718281828 ** (-120 * 0.004), rel=1e-3)


def test_dragging_moves(page: Page, result: RunResult) -> None:
    page.locator("#timeline").get_by_label("Zoom in").click()
    chart = page.locator('[data-chart="units"]')
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 600, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 50, steps=4)
    page.mouse.up()
    _settled(page)
    begin, end = _range(page)
    assert begin > float(result.cycles) / 4
    assert end - begin == pytest.approx(float(result.cycles) / 2, abs=0.1)


def test_keys_walk_zoom_and_speak(page: Page, result: RunResult) -> None:
    page.locator('[data-chart="units"]').focus()
    page.keyboard.press("ArrowRight")
    assert _tip(page).splitlines()[:2] == ["conv", "conv_2d"]
    page.keyboard.press("ArrowRight")
    assert _tip(page).splitlines()[0] == result.layers[1].name
    page.keyboard.press("ArrowDown")
    assert "MAC array: mac." in _tip(page)
    assert page.locator("#spoken").inner_text().startswith(_tip(page).splitlines()[0])
    page.keyboard.press("Enter")
    _settled(page)
    begin, end = _range(page)
    assert end - begin < float(result.cycles) / 10
    page.keyboard.press("Shift+ArrowRight")
    _settled(page)
    assert _range(page)[0] > begin
    page.keyboard.press("0")
    _settled(page)
    assert _range(page) == (0, float(result.cycles))
    page.keyboard.press("+")
    _settled(page)
    begin, end = _range(page)
    assert end - begin == pytest.approx(float(result.cycles) / 2, abs=0.1)
    page.keyboard.press("Escape")
    assert _tip(page) == ""


@pytest.mark.parametrize(
    ("chart", "said"),
    [("power", "mW"), ("occupancy", "in use"), ("buffers", "at 0x"), ("roofline", "MACs per byte")],
)
def test_every_chart_answers_to_the_keyboard(chart: str, said: str, page: Page) -> None:
    page.locator(f'[data-chart="{chart}"]').focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert said in _tip(page)


def test_the_mouse_asks_a_point_of_the_roofline(page: Page) -> None:
    point = page.locator('[data-chart="roofline"] circle').first
    point.scroll_into_view_if_needed()
    point.hover()
    assert "MACs per cycle" in _tip(page)


def test_the_name_of_a_layer_leads_to_it(page: Page, result: RunResult) -> None:
    turns = Charts(result).turns
    page.emulate_media(reduced_motion="reduce")  # the page jumps; while it glides it shows no tooltip
    page.locator("#layer-table a", has_text=result.layers[-2].name).click()
    _settled(page)
    begin, end = _range(page)
    mine = turns.layer == len(result.layers) - 2
    assert begin <= turns.begin[mine].min()
    assert end >= turns.end[mine].max()
    assert end - begin < 1.4 * (turns.end[mine].max() - turns.begin[mine].min())
    page.keyboard.press("ArrowRight")  # the timeline has the keyboard now
    assert _tip(page)


COLOURS = """chart => {
  const canvas = document.querySelector(`[data-chart="${chart}"] canvas`);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] === 255) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  }
  return [...seen];
}"""


@pytest.mark.parametrize("chart", ["units", "power", "occupancy", "buffers"])
def test_charts_are_painted_in_the_colours_of_their_legends(chart: str, page: Page) -> None:
    page.locator(f'[data-chart="{chart}"]').scroll_into_view_if_needed()
    _settled(page)
    seen = set(page.evaluate(COLOURS, chart))
    wanted = {
        "units": [0x1F6FB2, 0xE0731D],
        "power": [0xC2561A, 0x1F6FB2],
        "occupancy": [0xD9A514],
        "buffers": [],
    }
    assert set(wanted[chart]) <= seen
    assert len(seen) > 3


TRACK = """([place, of]) => {
  const canvas = document.querySelector('[data-chart="units"] canvas');
  const ratio = canvas.width / canvas.clientWidth, left = Math.round(116 * ratio);
  const width = canvas.width - left - Math.round(2 * ratio);
  const high = Math.round(24 * ratio), top = Math.round((place * 31 + 4) * ratio);
  const { data } = canvas.getContext("2d").getImageData(left, top, width, high);
  const painted = Object.fromEntries(of.map((name) => [name, 0]));
  const style = getComputedStyle(document.documentElement);
  const wanted = of.map((name) => [name, style.getPropertyValue("--" + name).trim()]);
  const codes = new Map(wanted.map(([name, code]) => [parseInt(code.slice(1), 16), name]));
  for (let i = 0; i < data.length; i += 4) {
    const name = codes.get((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
    if (name) painted[name] += 4 / data.length;
  }
  return painted;
}"""


@pytest.fixture(scope="module")
def many_waits(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunResult, Path]:
    """A run with thousands of waits far below a pixel, and its page."""
    result = npusim.run("resnet50", timing_only=True)
    path = tmp_path_factory.mktemp("waits") / "report.html"
    path.write_text(html.render(result), "utf-8")
    return result, path


@pytest.mark.parametrize("scale", [1, 1.5])
def test_the_painted_share_of_every_cause_is_its_share_of_the_track(
    scale: float, browser: Any, many_waits: tuple[RunResult, Path]
) -> None:
    """When each wait was painted a pixel wide, 35 % showed a cause of 0.16 %."""
    result, path = many_waits
    opened = Opened(browser, path, device_scale_factor=scale)
    opened.page.locator('[data-chart="units"]').scroll_into_view_if_needed()
    _settled(opened.page)
    stalls = Charts(result).stalls
    true = dict.fromkeys(stalls.cause, 0.0)
    for cause, cycles in zip(stalls.cause, (stalls.end - stalls.begin).tolist(), strict=True):
        true[cause] += cycles / int(result.cycles)
    tracks = 1 + len(set(series.work(result).unit.tolist()) - {int(Unit.FRONT_END)})
    painted = opened.page.evaluate(TRACK, [tracks, [f"c-{cause}" for cause in true]])
    assert painted == pytest.approx({f"c-{cause}": share for cause, share in true.items()}, abs=0.01)
    assert max(painted.values()) > 0.1
    opened.context.close()


# Themes, phones, paper


def test_dark_where_the_reader_prefers_it_and_on_request(browser: Any, report: Path) -> None:
    opened = Opened(browser, report, color_scheme="dark")
    page, ground = opened.page, "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    assert dark == "rgb(18, 22, 26)"
    page.get_by_role("button", name="Light").click()
    assert page.evaluate(ground) == "rgb(246, 247, 248)"
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate(ground) == dark
    assert opened.complaints == []
    opened.context.close()


def _luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(scheme: str, browser: Any, report: Path) -> None:
    opened = Opened(browser, report, color_scheme=scheme)
    colour = "name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()"
    paper = _luminance(opened.page.evaluate(colour, "paper"))
    for name in ("ink", "soft", "accent"):
        light, dark = sorted((paper, _luminance(opened.page.evaluate(colour, name))), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, name
    opened.context.close()


def test_a_phone_shows_it_without_scrolling_sideways(browser: Any, report: Path) -> None:
    opened = Opened(browser, report, viewport=PHONE, is_mobile=True, has_touch=True, device_scale_factor=2)
    page = opened.page
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    box = page.locator(".scroll", has=page.locator("#layer-table"))
    assert box.bounding_box()["width"] <= PHONE["width"]
    assert _heads(page) == ["#", "Layer", "Cycles", "Bound and losses"]
    assert box.evaluate("box => box.scrollWidth <= box.clientWidth")
    page.get_by_label("All columns").check()
    assert {"Operator", "Tile", "Energy"} <= set(_heads(page))
    assert box.evaluate("box => box.scrollWidth > box.clientWidth")
    chart = page.locator('[data-chart="units"]')
    chart.scroll_into_view_if_needed()
    chart.tap(position={"x": 60, "y": 30})
    assert _tip(page)
    assert opened.complaints == []
    opened.context.close()


def test_paper_has_no_controls_and_all_rows(page: Page, result: RunResult) -> None:
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator(".contents").is_visible()
    assert not page.locator("#timeline .tools").is_visible()
    box = page.locator(".scroll", has=page.locator("#layer-table"))
    assert box.evaluate("box => box.scrollHeight <= box.clientHeight + 1")
    assert page.locator("#layer-table tbody tr").count() == len(result.layers)
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")


def test_keys_alone_reach_the_content(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


def test_the_names_of_layers_are_one_stop_of_the_tab_key(page: Page) -> None:
    stops = page.locator("a[data-layer]").evaluate_all(
        "links => links.filter((each) => each.tabIndex === 0).length"
    )
    assert stops == 1
    links = page.locator("a[data-layer]")
    links.first.focus()
    here = "Number(document.activeElement.dataset.layer)"
    order = links.evaluate_all("links => links.map((each) => Number(each.dataset.layer))")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(here) == order[1]
    page.keyboard.press("End")
    assert page.evaluate(here) == order[-1]
    page.keyboard.press("ArrowUp")
    assert page.evaluate(here) == order[-2]
    page.keyboard.press("Home")
    assert page.evaluate(here) == order[0]
    assert links.first.evaluate("link => link.tabIndex") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_on_colours_have_contrast(scheme: str, browser: Any, report: Path) -> None:
    """Items of the timeline at both shades, and buffers."""
    opened = Opened(browser, report, color_scheme=scheme)
    colours = opened.page.evaluate("""() => {
      const style = getComputedStyle(document.documentElement);
      const of = (name) => style.getPropertyValue("--" + name).trim();
      const names = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]).flatMap(
        (rule) => [...(rule.style || [])].filter((name) => /^--[rck]-/.test(name)));
      return [of("paper"), [...new Set(names)].map((name) => of(name.slice(2)))];
    }""")
    paper, fills = colours
    assert len(fills) > 10
    for fill, alpha in product(fills, (1, 0.8, 0.62)):
        ink = opened.page.evaluate(
            "([fill, alpha, paper]) => overTime.inkOn(fill, alpha, paper)", [fill, alpha, paper]
        )
        mixed = "#" + "".join(
            f"{round(int(fill[at : at + 2], 16) * alpha + int(paper[at : at + 2], 16) * (1 - alpha)):02x}"
            for at in (1, 3, 5)
        )
        light, dark = sorted((_luminance(ink), _luminance(mixed)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (fill, alpha)
    opened.context.close()


def test_motion_is_reduced_where_asked(browser: Any, report: Path) -> None:
    opened = Opened(browser, report, reduced_motion="reduce")
    assert opened.page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    opened.context.close()


# Size, speed, safety


def test_it_is_small_and_opens_at_once(browser: Any, report: Path) -> None:
    assert report.stat().st_size < MOST_BYTES
    seconds = []
    for _ in range(
        3
    ):  # processor time of all threads of the page: other work on this computer does not count
        context = browser.new_context(viewport=WIDE)
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Performance.enable")
        page.goto(report.as_uri())
        _settled(page)
        metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
        seconds.append(metrics["ProcessTime"])
        context.close()
    assert min(seconds) < MOST_SECONDS


def test_a_script_in_a_name_is_shown_as_text(browser: Any, tmp_path: Path) -> None:
    layers = [replace(layer, name=f"{EVIL}{i}") for i, layer in enumerate(LAYERS)]
    named = replace(program(), name=EVIL, layers=tuple(layers))
    path = tmp_path / "evil.html"
    path.write_text(html.render(measure(named, execution())), "utf-8")
    opened = Opened(browser, path)
    page = opened.page
    assert page.locator("h1 span").inner_text() == EVIL
    assert page.locator("#layer-table tbody th").first.get_attribute("title") == f"{EVIL}0"
    page.locator('[data-chart="units"]').focus()
    page.keyboard.press("ArrowRight")
    assert _tip(page).startswith(EVIL)
    assert page.locator("img").count() == 0
    assert page.evaluate("window.pwned") is None
    assert opened.complaints == []
    opened.context.close()


def test_scripts_that_are_not_ours_would_not_run(browser: Any, report: Path) -> None:
    opened = Opened(browser, report)
    opened.page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.pwned = 1";
          document.body.append(script);
        }"""
    )
    assert opened.page.evaluate("window.pwned") is None
    assert "Content Security Policy" in opened.complaints[0]
    opened.context.close()


# Several devices.


@pytest.fixture(scope="module")
def of_devices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run on two devices."""
    path = tmp_path_factory.mktemp("devices") / "devices.html"
    result = measured("digits_cnn", ("edge-128", "edge-64"), (0, 0, 0, 1), (500.0, 333.3))
    path.write_text(html.render(result), "utf-8")
    return path


@pytest.fixture(params=["light", "dark"])
def on_devices(browser: Any, of_devices: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    opened = Opened(browser, of_devices, color_scheme=request.param)
    yield opened.page
    opened.context.close()
    assert opened.complaints == []


def test_charts_of_several_devices_tell_who_does_what(on_devices: Page) -> None:
    chart = on_devices.locator('[data-chart="units"]')
    chart.scroll_into_view_if_needed()
    chart.focus()
    chart.press("ArrowRight")
    tip = on_devices.locator("#tip")
    assert tip.inner_text().splitlines()[:2] == ["npu_a", "digits_cnn/0"]
    chart.press("ArrowRight")
    assert tip.inner_text().splitlines()[:2] == ["between", "copies, and the host hands over"]
    chart.press("ArrowRight")
    assert tip.inner_text().splitlines()[:2] == ["npu_b", "digits_cnn/1"]
    for _ in range(20):  # down to the last track but one
        chart.press("ArrowDown")
    chart.press("ArrowUp")
    assert "npu_b, " in tip.inner_text()


def test_layers_can_be_filtered_by_device(on_devices: Page) -> None:
    on_devices.locator('select[name="device"]').select_option("npu_b")
    assert set(_column(on_devices, "Device")) == {"npu_b"}
    on_devices.locator('select[name="device"]').select_option("")
    assert set(_column(on_devices, "Device")) == {"npu_a", "npu_b"}
