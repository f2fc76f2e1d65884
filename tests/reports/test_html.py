"""The page of a run: what it says, that names cannot become markup, that it needs nothing from outside."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from npusim.isa.base.version import npusim_version
from npusim.isa.hardware import parameters
from npusim.isa.hardware.file import hardware
from npusim.numbers.causes import CAUSES
from npusim.numbers.measure import measure
from npusim.numbers.run import RunResult
from npusim.reports.page import page
from npusim.reports.run import html, html_data
from npusim.reports.run.run_data import run_data
from npusim.reports.run.series import Charts
from npusim.reports.words import names

from ..npusim.numbers.fake_run import BENCH, BUFFERS, LAYERS, execution, program

ROOT = Path(__file__).resolve().parents[2]
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{ 7*7 }}\u2028\u202e"


def hostile() -> RunResult:
    """A run in which every name that comes from a file is an attack."""
    plain = program()
    named = replace(
        plain,
        name=EVIL,
        layers=tuple(replace(layer, name=EVIL, op=EVIL) for layer in LAYERS),
        hardware=BENCH.model_copy(update={"name": EVIL[:64], "description": EVIL}),
        inputs=tuple(replace(place, name=EVIL) for place in plain.inputs),
        outputs=tuple(replace(place, name=EVIL) for place in plain.outputs),
        buffers=tuple(replace(buffer, name=EVIL) for buffer in BUFFERS),
        host_calls=tuple(replace(call, name=EVIL, op=EVIL, reason=EVIL) for call in plain.host_calls),
    )
    return measure(named, execution())


@pytest.fixture(scope="module")
def result() -> RunResult:
    return measure(program(), execution())


class Outline(HTMLParser):
    """What a browser would see: elements with attributes, and the text outside scripts and styles."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.text += " ".join(data.split()) + " "

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def outline(result: RunResult) -> Outline:
    return Outline(html.render(result, [("layers.csv", "a row per layer")]))


SECTIONS = [
    "answer", "cycles", "layers", "timeline", "roofline", "energy", "power", "scratchpad", "partition", "memory",
    "hardware", "methods",
]  # fmt: skip


def test_sections_in_their_order_and_in_the_contents(outline: Outline) -> None:
    assert [section["id"] for section in outline.of("section")] == SECTIONS
    links = [link["href"] for link in outline.of("a")]
    assert [f"#{name}" for name in SECTIONS] == [link for link in links if link != "#main"][: len(SECTIONS)]


SAID = [
    f"npusim {npusim_version()} Dark",
    "tiny on bench",
    "One inference takes 400 ns and",
    "2 500 000 in a second",
    "An ideal machine of this size needs at least 40 cycles, set by the operators on the host: 20.0 % of the run.",
    "Together 200 cycles: bound and losses add up to the run, to the cycle.",
    "1 of 5 layers run on the host, cortex-m7.",
    "axis is not the last",
    "At most 3 KiB of 2 MiB are in use at the same time; the program sets aside 3 KiB.",
    "The program uses 4 KiB of 1 GiB DRAM.",
    "bandwidth_gb_per_s 8 peak bandwidth",
    "Where the cycles go , docs/losses.md",
    "layers.csv a row per layer",
]


@pytest.mark.parametrize("words", SAID)
def test_the_page_says(words: str, outline: Outline) -> None:
    said = outline.text.replace("\u00a0", " ").replace("\u202f", " ")
    assert words in re.sub(r"\s+", " ", said)


def test_losses_and_bound_are_rows_that_add_up(result: RunResult) -> None:
    rows = run_data(result).cycle_rows
    assert sum(row.amount for row in rows) == int(result.cycles)
    assert {row.name for row in rows[1:]} == {names.CAUSE_NAMES[cause] for cause in result.lost_cycles}


def test_the_pieces_of_a_layer_are_its_cycles(result: RunResult) -> None:
    for layer in result.layers:
        pieces, _ = html._parts(layer)
        assert sum(piece.amount for piece in pieces) == layer.cycles


def test_parts_of_host_and_npu_are_the_run(result: RunResult) -> None:
    parts = html._partition(result)
    assert sum(part.layers for part in parts) == len(result.layers)
    assert sum(part.cycles for part in parts) == int(result.cycles)
    assert sum(part.energy_uj for part in parts) == pytest.approx(float(result.energy_uj))


def test_regions_cover_the_dram_of_the_program(result: RunResult) -> None:
    regions = html_data.regions(result)
    assert [(region.kind, region.address, region.size_bytes) for region in regions] == [
        ("constants", 0, 300), ("maps", 300, 212), ("input", 512, 16), ("maps", 528, 240), ("output", 768, 10),
        ("maps", 778, 246), ("code", 1024, 576), ("maps", 1600, 2496),
    ]  # fmt: skip


def test_every_parameter_of_the_hardware_is_shown(result: RunResult) -> None:
    for chip in (result.hardware, hardware("ethos-u55-128")):
        shown = [name for _, rows in html._parameters(chip) for name, _, _ in rows]
        unread = {path.rpartition(".")[2] for path in parameters.unread(chip)}
        read = [key for key in leaves({**chip.model_dump(), "memory": {}}) if key not in unread]
        assert sorted(shown) == sorted(read)


def leaves(table: dict[str, object]) -> Iterator[str]:
    """The keys of a table and of those in it that are no tables."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from leaves(value)
        elif key not in ("name", "description"):
            yield key


def test_methods_name_documents_by_their_titles(result: RunResult) -> None:
    named = re.findall(r"<cite>([^<]+)</cite>, docs/(\w+\.md)", html.render(result))
    assert len(named) == 10
    for title, document in named:
        assert (ROOT / "docs" / document).read_text("utf-8").startswith(f"# {title}\n")


def test_every_cause_component_and_unit_has_a_name_and_a_colour() -> None:
    assert list(names.CAUSE_NAMES) == list(CAUSES) == list(names.CAUSE_COLOURS)
    assert list(names.COMPONENT_NAMES) == list(names.COMPONENT_COLOURS)
    assert {*names.UNIT_NAMES, *names.BOUND_NAMES} <= set(names.RESOURCE_COLOURS)


def test_the_bound_and_its_losses_have_different_colours() -> None:
    inside = {"mac": ("edge_tiles", "fill_drain", "port", "output_stage"), "vector": ("vector_overhead",)}
    inside |= {"dram": ("dram_traffic", "dram_overhead", "instruction_fetch")}
    for bound, causes in inside.items():
        colours = [names.RESOURCE_COLOURS[bound], *(names.CAUSE_COLOURS[cause] for cause in causes)]
        assert len(set(colours)) == len(colours)
    assert len(set(names.CAUSE_COLOURS.values())) == len(names.CAUSE_COLOURS)


def test_names_from_files_are_text() -> None:
    source = html.render(hostile())
    outline = Outline(source)
    assert outline.of("img") == []
    assert len(outline.of("script")) == 1 + len(html.SCRIPTS)
    assert all(not name.startswith("on") for _, attributes in outline.elements for name in attributes)
    assert "<script>alert(1)</script><img src=x onerror=alert(2)>" in outline.text
    assert "{{ 7*7 }}" in outline.text
    assert "\u2028" not in source
    assert "\u202e" not in source  # it would turn the text around it


def test_data_for_scripts_is_the_same_data() -> None:
    result = hostile()
    source = html.render(result)
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', source, re.S)
    assert found
    assert not set("<>&") & set(found[1])
    assert found[1].isascii()
    assert json.loads(found[1]) == json.loads(json.dumps(html_data.data(result)))


def test_an_island_cannot_end_its_element() -> None:
    assert page.island({"</script>": "<!--&\u2028"}) == (
        '{"\\u003c/script\\u003e":"\\u003c!--\\u0026\\u2028"}'
    )


def test_the_page_needs_nothing_from_outside(result: RunResult, outline: Outline) -> None:
    source = html.render(result)
    policy = next(each["content"] for each in outline.of("meta") if "http-equiv" in each)
    assert policy
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert len(re.findall("'sha256-", policy)) == len(html.SCRIPTS)
    assert outline.of("link") == []
    assert not [attributes for _, attributes in outline.elements if "src" in attributes]
    assert not re.search(r"url\(|@import|https?:(?!//www\.w3\.org/2000/svg)", source)


def test_equal_runs_give_equal_pages(result: RunResult) -> None:
    assert html.render(result) == html.render(measure(program(), execution()))


def test_a_run_without_work_has_a_page() -> None:
    empty = execution(steps=(), layer_actions=({},))
    bare = replace(program((), ()), buffers=())
    nothing = measure(bare, replace(empty, trace=replace(empty.trace, transfers=())))
    assert "0 cycles" in Outline(html.render(nothing)).text.replace("\u00a0", " ")


def test_differences_give_the_times_back(result: RunResult) -> None:
    found = html_data.data(result)
    begins = [sum(found["tracks"][0]["begin"][: i + 1]) for i in range(len(found["tracks"][0]["begin"]))]
    assert found["tracks"][0]["title"] == "MAC array"
    assert begins == [40]
    assert found["tracks"][0]["length"] == [60]
    assert sum(found["turns"]["ends"]) == int(result.cycles)


def test_turns_leave_no_cycle_out(result: RunResult) -> None:
    turns = Charts(result).turns
    assert (int(turns.begin[0]), int(turns.end[-1])) == (0, int(result.cycles))
    assert (turns.begin[1:] == turns.end[:-1]).all()
    owned = {i: int((turns.end - turns.begin)[turns.layer == i].sum()) for i in range(len(result.layers))}
    assert owned == {i: layer.cycles for i, layer in enumerate(result.layers)}


TYPESET = {
    "3 771 931": "3\u202f771\u202f931",
    "7.544 ms": "7.544\u00a0ms",
    "12 us": "12\u00a0\u00b5s",
    "1.5 uJ": "1.5\u00a0\u00b5J",
    "62.3 %": "62.3\u00a0%",
    "at 280 MHz": "at 280\u00a0MHz",
}


@pytest.mark.parametrize("text", TYPESET)
def test_quantities_are_typeset(text: str) -> None:
    assert page.typeset(text) == TYPESET[text]
