"""The page of a study: what it says, and in a browser, how its views follow each other."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from npusim.isa.hardware import file as hardware_file
from npusim.reports.notebook import notebook
from npusim.reports.study import columns as study_columns
from npusim.reports.study import data as study_data
from npusim.reports.study.page import PAGE, render, write_page
from npusim.study.evaluate import Record
from npusim.study.executors import executor
from npusim.study.explore import describe, explore
from npusim.study.folder import Folder
from npusim.study.progress import progress
from npusim.study.samplers import random_points
from npusim.study.study import Study

from ..npusim.study.spaces import digits, sampling, space_file
from .conftest import emptied

pytestmark = pytest.mark.slow

EVIL = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=2>"
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
MOST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """24 real points, some of them beyond a limit."""
    file = space_file(limits={"area": "<= 1.15"})
    folder = tmp_path_factory.mktemp("study") / "study"
    made = explore(
        [digits()], file.space, sampling("grid"), folder, make_executor=lambda job: executor(job, 1)
    )
    assert 4 < len(made.front) < len(made.feasible) < len(made.records)
    return made


def made_study(folder: Path, points: int, kind: str = "random", names: tuple[str, ...] = ("one",)) -> Study:
    """A study whose numbers are made up: many points cost nothing."""
    file = space_file(
        {
            "mac_array.rows": [8, 16, 32, 64],
            "mac_array.dataflow": ["weight_stationary", "output_stationary", "both"],
            "scratchpad.size_kib": {"from": 16, "to": 4096, "factor": 2},
            "clock_mhz": {"from": 100, "to": 1000, "step": 10},
        },
        derived={"mac_array.ifm_bytes_per_cycle": "mac_array.rows"},
    )
    space = file.space
    workloads = [replace(digits(), name=name) for name in names]
    disk = Folder(folder)
    disk.describe(describe(workloads, space, sampling(kind)))
    with disk.writing():
        for _, point in zip(range(points), random_points(space, 0), strict=False):
            setting = space.point(point)
            speed = setting["mac_array.rows"] * setting["clock_mhz"]
            numbers = (
                1e4 / speed,
                1e-2 * speed**0.5 + point % 7,
                setting["scratchpad.size_kib"] * 1e-3 + speed * 1e-5,
            )
            values = dict(zip(space.keys, numbers, strict=True))
            record = Record(point, values, dict.fromkeys(names, values) if len(names) > 1 else {})
            disk.append(Record(point, reason=f"{EVIL} does not fit") if point % 11 == 3 else record)
    return Study.open(folder)


def written(study: Study) -> Path:
    """Write the page without its figures, which no browser shows; return its path."""
    path = study.path / PAGE
    path.write_text(render(study), "utf-8")
    return path


# Without a browser


def test_the_answer_is_in_the_text(study: Study) -> None:
    text = re.sub(r"<[^>]*>|\s+", " ", written(study).read_text("utf-8"))
    text = re.sub(r"\s+", " ", text)
    assert f"{len(study.front)} points of 24 are on the front" in text
    assert f"best latency {study.front[0].point} " in text
    assert "breaks area_mm2.total &lt;= 1.15" in text


def test_page_terminal_and_notebook_tell_the_same_shares(study: Study) -> None:
    from npusim.reports.notebook import notebook
    from npusim.reports.page.page import typeset
    from npusim.reports.study.effects import basis, words_of_share
    from npusim.reports.study.terminal import summary

    page, text, cell = written(study).read_text("utf-8"), summary(study), notebook.study(study)
    shares = [words_of_share(each) for each in study.sensitivities]
    assert len(shares) == 12
    for share in (*shares, basis(study)):
        assert typeset(share) in page
        assert share in text
        assert share in cell
    for objective in study.objectives:
        found = [each.share for each in study.sensitivities if each.objective == objective.key]
        assert 0.5 < sum(found) <= 1


def test_too_few_points_draw_no_effect(study: Study) -> None:
    from npusim.reports.study import figures as study_figures
    from npusim.reports.study import page as study_page

    few = replace(study, records=study.records[:4])
    page = study_page.render(few)
    assert "4 points with a result: too few to tell, it takes 10." in page.replace("\u00a0", " ")
    assert "<svg" not in page
    assert "sensitivity.svg" not in study_figures.writers(few)


class Closed(HTMLParser):
    """Complains about tags that are not closed in order."""

    VOID = frozenset(("meta", "input", "img", "br", "wbr"))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("option", "p"):
            while self.open[-1] in ("option", "p"):
                self.open.pop()
            assert self.open.pop() == tag
        elif tag in self.open:
            self.open.reverse()
            self.open.remove(tag)
            self.open.reverse()


@pytest.mark.parametrize("left", [0, 1, 2, 24])
def test_studies_of_any_size_have_a_page(left: int, study: Study) -> None:
    from npusim.reports.study import page as study_page

    Closed(study_page.render(replace(study, records=study.records[:left], base=None)))


def test_the_same_study_gives_the_same_files(tmp_path: Path) -> None:
    files = [
        [(path.name, path.read_bytes()) for path in write_page(made_study(tmp_path / name, 40))]
        for name in ("one", "two")
    ]
    assert files[0] == files[1]
    names = {name for name, _ in files[0]}
    assert names == {"study.html"} | {
        f"{n}.{kind}" for n in ("front", "parallel", "sensitivity") for kind in ("svg", "png", "pdf")
    }


@pytest.mark.parametrize(("extends", "base"), [("edge-128", {}), ("mobile-1024", {"clock_mhz": 700})])
def test_the_hardware_file_of_every_point_is_that_point(extends: str, base: dict[str, Any]) -> None:
    file = space_file(
        {"mac_array.rows": [8, 16], "dma.channels": [1, 2]},
        extends=extends,
        hardware=base,
        derived={"mac_array.ifm_bytes_per_cycle": "mac_array.rows * 2"},
    )
    records = tuple(Record(point, dict.fromkeys(file.space.keys, 1.0)) for point in range(4))
    study = Study(Path("x"), file.space, (), {"kind": "grid"}, "", records)
    plain = study_data.data(study, study_columns.parameters(study), study_columns.values(study))["hardware"]
    assert plain["extends"] == f'"{extends}"'
    for at, record in enumerate(records):
        changes: dict[str, Any] = tomllib.loads("\n".join(f'"{k}" = {v}' for k, v in plain["fixed"].items()))
        for change in plain["changes"]:
            text = change["texts"][change["at"][at] if isinstance(change["at"], list) else change["at"]]
            changes[change["path"]] = tomllib.loads(f"x = {text}")["x"]
        changes["name"] = f"{plain['name']} {record.point}"
        said = [f"{path} = {hardware_file.toml_value(changes[path])}" for path in study.space.changed]
        changes["description"] = plain["description"] + ", ".join(said)
        made = hardware_file.change(hardware_file.hardware(extends), changes)
        assert made == study.hardware(record.point)


@pytest.mark.parametrize(
    ("milliseconds", "unit", "shown"), [(0.0104, "us", 10.4), (3.0, "ms", 3.0), (2e3, "s", 2.0)]
)
def test_columns_take_the_unit_that_leaves_one_or_more(milliseconds: float, unit: str, shown: float) -> None:
    space = space_file(objectives=["latency"]).space
    records = (Record(0, {"latency_ms": milliseconds}), Record(1, {"latency_ms": milliseconds * 5}))
    (value,) = study_columns.values(Study(Path("x"), space, (), {"kind": "grid"}, "", records))
    assert (value.title, value.amount(milliseconds)) == (f"latency, {unit}", pytest.approx(shown))
    assert value.logarithmic


@pytest.mark.parametrize("kind", ["random", "nsga2"])
def test_progress_follows_the_order_of_the_search(kind: str, tmp_path: Path) -> None:
    seen: list[int] = []
    made = explore(
        [digits()], space_file().space, sampling(kind, points=12), tmp_path / "study",
        make_executor=lambda job: executor(job, 1), watch=lambda record, total: seen.append(record.point),
    )  # fmt: skip
    steps = progress(made)
    assert [step.points for step in steps] == sorted(step.points for step in steps)
    assert [step.share for step in steps] == sorted(step.share for step in steps)
    assert (steps[-1].points, steps[-1].share) == (12, 1.0)
    first = {record.point: record for record in made.records}[seen[0]]
    assert steps[0].best == pytest.approx([first.values[each.key] for each in made.objectives])


def test_a_grid_and_a_part_of_a_search_have_no_progress(study: Study, tmp_path: Path) -> None:
    assert progress(study) == ()
    whole = made_study(tmp_path / "study", 30)
    assert progress(whole)
    assert progress(replace(whole, records=whole.records[1:])) == ()


def test_the_base_hardware_is_computed_with_the_study(study: Study) -> None:
    import npusim

    assert study.base is not None
    assert study.base.values["latency_ms"] == npusim.run("digits_cnn", timing_only=True).latency_ms
    assert json.loads((study.path / "base.json").read_bytes())["point"] == -1


def test_a_study_shows_itself_in_a_notebook(study: Study, tmp_path: Path) -> None:
    shown = notebook.study(study)
    assert f"{len(study.front)} on the front" in shown
    assert "mac_array.rows" in shown
    assert "<script" not in notebook.study(made_study(tmp_path / "evil", 40, names=(EVIL, "b")))


# In a browser


@pytest.fixture(scope="module")
def path(study: Study) -> Path:
    return written(study)


@pytest.fixture(scope="module")
def tab(browser: Any, path: Path) -> Iterator[Any]:
    with_faults = opened(browser, path)
    yield with_faults
    with_faults.context.close()


@pytest.fixture
def page(tab: Any, path: Path) -> Iterator[Any]:
    emptied(tab)
    tab.faults.clear()
    tab.goto(path.as_uri())
    settled(tab)
    yield tab
    assert tab.faults == []


def opened(browser: Any, path: Path, **options: Any) -> Any:
    """A page; `faults` is what its console said and what it asked the network for."""
    page = browser.new_context(**({"viewport": WIDE} | options)).new_page()
    page.set_default_timeout(120_000)
    page.faults = []
    page.on("console", lambda message: page.faults.append(message.text))
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("request", lambda request: request.url != path.as_uri() and page.faults.append(request.url))
    page.goto(path.as_uri())
    settled(page)
    return page


def settled(page: Any) -> None:
    """The pause after which many points are drawn, and two frames: by the clock of the page, which may be late."""
    frames = "requestAnimationFrame(() => requestAnimationFrame(done))"
    page.evaluate(f"() => new Promise((done) => setTimeout(() => {frames}, 150))")


def column(page: Any, number: int) -> list[str]:
    found: list[str] = page.locator(f"#point-table tbody tr > :nth-child({number})").all_text_contents()
    return found


def tip(page: Any) -> str:
    return str(page.locator("#tip").inner_text()) if page.locator("#tip").is_visible() else ""


def test_the_table_has_the_front_best_first_and_sorts(page: Any, study: Study) -> None:
    assert column(page, 1) == [str(record.point) for record in study.front]
    head = page.locator("#point-table thead th").nth(2)
    for order in ("ascending", "descending"):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == order
        energies = [float(text) for text in column(page, 3)]
        assert energies == sorted(energies, reverse=order == "descending")


@pytest.mark.parametrize(("shown", "count"), [("feasible", "feasible"), ("all", "records")])
def test_all_points_can_be_shown(shown: str, count: str, page: Any, study: Study) -> None:
    page.locator("#points").get_by_text(shown, exact=True).click()
    settled(page)
    assert len(column(page, 1)) == len(getattr(study, count))
    assert page.locator(f"#parallel [data-show][value='{2 if shown == 'feasible' else 0}']").is_checked()


def test_conditions_filter_everything_and_can_be_removed(page: Any, study: Study) -> None:
    page.locator("#find [name=text]").fill("rows = 16  scratchpad.size_kib<=64")
    settled(page)
    wanted = [
        str(record.point)
        for record in study.front
        if study.space.point(record.point)["mac_array.rows"] == 16
        and study.space.point(record.point)["scratchpad.size_kib"] <= 64
    ]
    assert column(page, 1) == wanted
    assert 0 < len(wanted) < len(study.front)
    assert f"{len(wanted)} of {len(study.front)} on the front" in page.locator("#dock").inner_text()
    page.locator("#dock").get_by_role("button", name="Remove all filters").click()
    settled(page)
    assert len(column(page, 1)) == len(study.front)
    assert not page.locator("#dock").is_visible()


def test_ranges_work_by_keyboard(page: Any, study: Study) -> None:
    page.locator("#ranges summary").click()
    page.get_by_label("mac_array.rows, from").select_option("16")
    settled(page)
    wanted = [r for r in study.front if study.space.point(r.point)["mac_array.rows"] == 16]
    assert len(column(page, 1)) == len(wanted) < len(study.front)
    page.get_by_label("mac_array.rows, from").select_option("8")
    settled(page)
    assert len(column(page, 1)) == len(study.front)


def test_dragging_along_an_axis_filters_and_a_click_takes_it_back(page: Any, study: Study) -> None:
    chart = page.locator("#lines")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    x, top, bottom = box["x"] + 55, box["y"] + 58, box["y"] + 370  # the axis of mac_array.rows
    page.mouse.move(x, top + 2)
    page.mouse.down()
    page.mouse.move(x, (top + bottom) / 2 - 10, steps=4)
    page.mouse.up()
    settled(page)
    wanted = [r for r in study.front if study.space.point(r.point)["mac_array.rows"] == 16]
    assert len(column(page, 1)) == len(wanted) < len(study.front)
    page.mouse.click(x, bottom - 20)
    settled(page)
    assert len(column(page, 1)) == len(study.front)


def test_keys_walk_the_front_and_open_the_hardware_file(page: Any, study: Study) -> None:
    page.locator("#plots .chart").first.focus()
    page.keyboard.press("Home")
    settled(page)
    assert tip(page).startswith(f"Point {study.front[0].point}, on the front")
    assert page.locator("#point-table tr.here th").inner_text() == str(study.front[0].point)
    page.keyboard.press("ArrowRight")
    settled(page)
    assert tip(page).startswith(f"Point {study.front[1].point}")
    assert page.locator("#spoken").inner_text().startswith(f"Point {study.front[1].point}")
    page.keyboard.press("Enter")
    dialog = page.locator("#hardware")
    assert dialog.is_visible()
    text = dialog.locator("[data-toml]").inner_text()
    plain = tomllib.loads(text)
    preset = hardware_file.hardware(plain.pop("extends"))
    changes = {k: v for k, v in plain.items() if not isinstance(v, dict)}
    changes |= {
        f"{table}.{k}": v
        for table, below in plain.items()
        if isinstance(below, dict)
        for k, v in below.items()
    }
    assert hardware_file.change(preset, changes) == study.hardware(study.front[1].point)
    assert f"--hw front/{study.front[1].point}.toml" in dialog.locator("[data-command]").inner_text()
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert f"Point {study.front[1].point}" in page.locator("#dock").inner_text()


@pytest.mark.parametrize("chart", ["#plots .chart >> nth=1", "#plots .chart >> nth=2", "#lines"])
def test_every_chart_answers_to_keys(chart: str, page: Any) -> None:
    page.locator(chart).focus()
    page.keyboard.press("ArrowRight")
    assert "Point" in tip(page)
    page.keyboard.press("Escape")
    assert tip(page) == ""


def test_the_growth_of_a_search_answers_to_keys(browser: Any, tmp_path: Path) -> None:
    page = opened(browser, written(made_study(tmp_path / "study", 60)))
    page.locator("#growth").focus()
    page.keyboard.press("ArrowRight")
    assert "of the final hypervolume" in tip(page)
    page.context.close()


def test_names_without_end_do_not_widen_a_phone(browser: Any, tmp_path: Path) -> None:
    names = ("/home/someone/projects/a_model_with_a_long_name_and_no_spaces_int8_v3.tflite", "b" * 200)
    made = made_study(tmp_path / "study", 40, names=names)
    page = opened(browser, written(made), viewport=PHONE, is_mobile=True, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    page.context.close()


def test_a_phone_shows_it_without_scrolling_sideways(browser: Any, path: Path) -> None:
    page = opened(browser, path, viewport=PHONE, is_mobile=True, has_touch=True, device_scale_factor=2)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert page.locator("#lines canvas").first.bounding_box()["height"] > 300
    assert page.faults == []
    page.context.close()


def test_paper_has_no_controls(page: Any) -> None:
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("#find").is_visible()
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")


def test_nothing_wipes_a_chart_on_paper(page: Any) -> None:
    """Chromium repeats the calls of a canvas on paper, where clearRect leaves nothing of what comes after it."""
    page.emulate_media(media="print")
    assert not page.locator(".chart .layer").first.is_visible()
    calls = page.evaluate(
        """() => {
          let calls = 0;
          const plain = CanvasRenderingContext2D.prototype.clearRect;
          CanvasRenderingContext2D.prototype.clearRect = function (...box) {
            calls += !this.canvas.classList.contains("layer");
            return plain.apply(this, box);
          };
          npusim.repaint();
          return calls;
        }"""
    )
    assert calls == 0


def test_thousands_of_points_stay_small_and_names_stay_text(browser: Any, tmp_path: Path) -> None:
    path = written(made_study(tmp_path / "study", 5000, names=(EVIL, "other")))
    assert path.stat().st_size < MOST_BYTES
    page = opened(browser, path)
    assert page.locator("h1 span").first.inner_text() == EVIL
    page.locator("#points").get_by_text("all", exact=True).click()
    settled(page)
    assert len(column(page, 1)) == 100
    page.locator("#more").click()
    assert len(column(page, 1)) == 300
    page.locator("#find [name=text]").fill("onerror")
    settled(page)
    assert EVIL in page.locator("#point-table tbody tr td:last-child").first.inner_text()
    page.locator("#front [data-model]").select_option("1")
    settled(page)
    assert page.locator("img").count() == 0
    assert page.evaluate("window.pwned") is None
    assert page.faults == []
    page.context.close()
