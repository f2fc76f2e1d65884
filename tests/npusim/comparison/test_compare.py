"""Comparisons: what is matched, what is said, which conditions hold, and one line for every mistake."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from copy import deepcopy
from io import StringIO
from math import inf
from pathlib import Path
from typing import Any

import pytest

import npusim
from npusim.comparison import conditions, result_file
from npusim.comparison.comparison import Comparison, compare
from npusim.comparison.rows import Change
from npusim.isa.base.errors import NpusimError
from npusim.numbers.measure import measure
from npusim.numbers.run import WallTimes
from npusim.reports.comparison import cells, page, terminal
from npusim.reports.comparison import cells as comparison_csv
from npusim.reports.comparison.cells import delta, percent, value
from npusim.reports.notebook import notebook

from ...command_line import command
from ...devices import measured
from ..numbers.fake_run import execution, program

Values = dict[str, Any]
EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def base() -> Values:
    """The JSON of the run of `fake_run.STEPS`."""
    plain = measure(program(), execution(), WallTimes(0.1, 0.2, 0.3)).to_dict()
    return json.loads(json.dumps(plain))  # type: ignore[no-any-return]


def changed(base: Values, *edits: Callable[[Values], object]) -> Values:
    values = deepcopy(base)
    for edit in edits:
        edit(values)
    return values


def slower(values: Values) -> None:
    """The convolution takes 20 cycles more, lost to waits for weights; the run 10 % longer."""
    values["cycles"]["total"] += 20
    values["latency_ms"] *= 1.1
    values["layers"][0]["cycles"] += 20
    for lost in (values["lost_cycles"], values["layers"][0]["lost_cycles"]):
        lost["stall_weights"] = lost.get("stall_weights", 0) + 20


def test_area_and_tops_are_compared(base: Values) -> None:
    other = changed(base, another_machine, lambda values: values["tops"].update(peak=0.256))
    other["area_mm2"]["total"] *= 2
    rows = {row.quantity.key: row for row in compare(base, other).headline}
    assert rows["area_mm2.total"].change(1).percent == pytest.approx(100)
    assert value("area_mm2", 5.4) == "5.4 mm2"
    assert rows["tops.peak"].values == (0.128, 0.256)


def test_peaks_of_the_first_version_are_not_compared(base: Values) -> None:
    """0.1.0 wrote one peak, over 1 % of the run: a number of another kind."""
    old = changed(base, lambda values: values["power_mw"].pop("peak_10us"), lambda values: values.pop("tops"))
    rows = {row.quantity.key: row for row in compare(old, base).headline}
    assert rows["power_mw.peak_10us"].values[0] is None
    assert rows["power_mw.peak_10us"].change(1) is None
    assert rows["tops.peak"].values == (None, 0.128)
    assert "Peak power, 10 us" in terminal.render(compare(old, base))


def another_machine(values: Values) -> None:
    values["hardware"]["name"] = "wide"
    values["hardware"]["mac_array"]["columns"] = 16


def twice_the_clock(values: Values) -> None:
    values["hardware"]["clock_mhz"] *= 2


def another_layer(values: Values) -> None:
    values["layers"][1]["op"] = "relu6"


def evil_names(values: Values) -> None:
    values["model"] = EVIL
    values["hardware"]["name"] = f"{EVIL}\x1b[31m"
    values["layers"][0]["name"] = EVIL
    values["layers"][0]["op"] = f"{EVIL}\n"
    values["lost_cycles"][EVIL] = 7
    values["energy_uj"]["by_component"][EVIL] = 1.0
    values["hardware"][EVIL] = EVIL


# What is compared


def test_the_headline_says_what_changed(base: Values) -> None:
    latency = compare(base, changed(base, slower)).value("latency_ms")
    assert latency.values == (base["latency_ms"], base["latency_ms"] * 1.1)
    change = latency.change(1)
    assert change is not None
    assert change.percent == pytest.approx(10)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (10, 11, Change(1, 10.0)), (10, 10, Change(0, 0.0)), (-10, -5, Change(5, 50.0)), (0, 0, Change(0, 0.0)),
        (0, 2, Change(2, inf)), (0, -2, Change(-2, -inf)),
    ],
)  # fmt: skip
def test_changes(before: float, after: float, expected: Change) -> None:
    assert Change.between(before, after) == expected


def test_hardware_that_differs_by_path(base: Values) -> None:
    (row,) = compare(base, changed(base, another_machine), base).hardware
    assert (row.path, row.values) == ("mac_array.columns", (8, 16, 8))
    assert compare(base, base).hardware == ()


def test_layers_with_the_largest_change_first_and_why(base: Values) -> None:
    rows = compare(base, changed(base, slower)).layers
    assert [row.name for row in rows[:1]] == ["conv"]
    assert rows[0].cost.values == (100, 120)
    cause = rows[0].main_cause(1)
    assert cause is not None
    assert cause.quantity.key == "stall_weights"
    assert all(row.main_cause(1) is None for row in rows[1:])


def test_layers_of_one_side_only(base: Values) -> None:
    comparison = compare(base, changed(base, another_layer))
    alone = {(row.name, row.op): row.cost.values for row in comparison.layers if not row.everywhere}
    assert alone == {("relu", "relu"): (20, None), ("relu", "relu6"): (None, 20)}
    assert "2 of 6 layers are not in every run." in comparison.notes
    assert terminal.render(comparison, width=100).count("only in") == 2


def test_layers_with_one_name_are_matched_in_order(base: Values) -> None:
    twins = changed(base, lambda values: values["layers"].append(dict(values["layers"][0], cycles=7)))
    costs = [row.cost.values for row in compare(twins, twins).layers if row.name == "conv"]
    assert costs == [(100, 100), (7, 7)]


def test_losses_add_up_to_the_run(base: Values) -> None:
    comparison = compare(base, changed(base, slower))
    for run, total in enumerate(comparison.value("cycles.total").values):
        assert sum(row.values[run] or 0 for row in comparison.losses) == total


def test_other_clocks_are_compared_in_time(base: Values) -> None:
    comparison = compare(base, changed(base, twice_the_clock))
    assert comparison.cost_kind == "time_us"
    assert comparison.layers[0].cost.values == (pytest.approx(0.2), pytest.approx(0.1))
    assert "Clocks differ" in comparison.notes[-1]
    for key in ("cycles.total", "cycles.stall", "lower_bound_cycles"):
        (row,) = [row for row in comparison.headline if row.quantity.key == key]
        assert None not in row.values
        assert row.change(1) is None
    assert "Cycles" in terminal.render(comparison)


def test_traffic_is_told_of_each_memory_by_name() -> None:
    """GAP9 has no DRAM: nothing is read from it, and that is no gain over a machine that has one."""
    runs = [npusim.run("digits_cnn", name, timing_only=True) for name in ("edge-128", "gap9", "stm32n6")]
    comparison = compare(*runs)
    rows = {row.quantity.label: row for row in comparison.headline}
    assert [each is None for each in rows["DRAM read"].values] == [False, True, False]
    assert [each is None for each in rows["l2 read"].values] == [True, False, True]
    assert [each is None for each in rows["flash read"].values] == [True, True, False]
    assert rows["DRAM read"].change(1) is None
    for run in runs:
        for name, moved in run.memory_bytes.items():
            counted = sum(each.get(f"{name}_read_byte", 0) for each in run.execution.layer_actions)
            assert run.to_dict()["memory_bytes"][name] == moved
            assert moved["read"] == counted
    dram, whole = runs[0].dram_bytes, runs[0].memory_bytes["dram"]
    assert (whole["read"], whole["write"]) == (dram.read + dram.instructions, dram.write)


def test_a_cpu_alone_has_no_array_to_compare() -> None:
    runs = [npusim.run("digits_cnn", name, timing_only=True) for name in ("edge-128", "cortex-m7")]
    rows = {row.quantity.key: row for row in compare(*runs).headline}
    for key in (
        "area_mm2.total",
        "mac_utilization",
        "tops.reached",
        "dram_bytes.read",
        "scratchpad_peak_bytes",
    ):
        assert rows[key].values[1] is None, key
        assert rows[key].change(1) is None, key
    assert rows["latency_ms"].change(1) is not None


def test_utilization_changes_in_points(base: Values) -> None:
    half = changed(base, lambda values: values.update(mac_utilization=values["mac_utilization"] / 2))
    comparison = compare(base, half)
    (row,) = [row for row in comparison.headline if row.quantity.key == "mac_utilization"]
    assert cells.change(row, 1) == f"{-50 * base['mac_utilization']:+.1f} points"
    for text in (terminal.render(comparison), page.render(comparison)):
        assert cells.change(row, 1) in text.replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("edits", "labels"),
    [
        ((), ("run A", "run B")),
        ((another_machine,), ("bench", "wide")),
        ((lambda values: values.update(model="other"),), ("tiny", "other")),
    ],
)
def test_labels_tell_runs_apart(base: Values, edits: Any, labels: tuple[str, str]) -> None:
    assert compare(base, changed(base, *edits)).labels == labels


def test_labels_of_files(base: Values, tmp_path: Path) -> None:
    files = [tmp_path / "old.json", tmp_path / "new.json"]
    for file in files:
        file.write_text(json.dumps(base))
    assert compare(*files).labels == ("old", "new")
    (tmp_path / "more").mkdir()
    other = tmp_path / "more" / "old.json"
    other.write_text(json.dumps(base))
    assert compare(files[0], other).labels == (str(files[0]), str(other))


def test_results_compare_without_files() -> None:
    results = [npusim.run("digits_cnn", hw, timing_only=True) for hw in ("edge-128", "edge-64")]
    comparison = npusim.compare(*results)
    assert isinstance(comparison, npusim.Comparison)
    assert comparison.labels == ("edge-128", "edge-64")
    assert {row.path for row in comparison.hardware} >= {"mac_array.rows"}


@pytest.mark.parametrize("count", [0, 1, 27])
def test_how_many_runs_there_may_be(base: Values, count: int) -> None:
    with pytest.raises(NpusimError, match=f"compare: {count} runs given; it takes 2 to 26"):
        compare(*[base] * count)


# Conditions


@pytest.mark.parametrize(
    ("expression", "fails"),
    [
        ("latency_ms>+5%", True), ("latency_ms>+10.5%", False), ("latency_ms<-1%", False), ("latency_ms < -1 %", False),
        ("cycles.total>+19", True), ("cycles.total>+20", False), ("cycles.total>=+20", True),
        ("cycles.total>219", True),
        ("cycles.total>220", False), ("cycles.total>2.19e2", True), ("cycles.total<=220", True),
        ("cycles.total<-1", False), ("lost_cycles.stall_weights>+0%", True), ("lost_cycles.prefetched>+0%", False),
        ("layers.conv.cycles>+15%", True), ("layers.0.cycles>119", True), ("energy_uj.total>+0%", False),
    ],
)  # fmt: skip
def test_conditions(base: Values, expression: str, fails: bool) -> None:
    (verdict,) = compare(base, changed(base, slower)).judge([conditions.parse(expression)])
    assert verdict.fails is fails


def test_a_condition_holds_for_every_run_but_the_baseline(base: Values) -> None:
    verdicts = compare(base, base, changed(base, slower)).judge([conditions.parse("cycles.total>100")])
    assert [(each.letter, each.fails) for each in verdicts] == [("B", True), ("C", True)]


FAULTY = {
    "latency_ms": "cannot be read; write KEY>+5% (change against the first file), KEY>+0.1 (difference) or",
    "latency_ms>": "cannot be read",
    "latency_ms=5": "cannot be read",
    ">5": "cannot be read",
    "latency_ms>5%": "a percentage needs a sign: 5% may be +5% or -5%",
    "latency_ms>+1e999": "is too large",
    "latency>+5%": "there is no latency; did you mean latency_ms?",
    "energy_uj>+5%": "there is no energy_uj itself; it may be energy_uj.total, energy_uj.dynamic, ",
    "layers.con.cycles>5": "there is no layers.con.cycles; did you mean layers.conv.cycles?",
    "model>5": "model is not a number: 'tiny'",
    "hardware.host.clock_mhz>+5%": "hardware.host.clock_mhz is not a number: unset",
    "hardware.mac_array.shadow_weights>0": "is not a number: true",
}


@pytest.mark.parametrize("expression", FAULTY)
def test_faulty_conditions(base: Values, tmp_path: Path, expression: str) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for file in files:
        file.write_text(json.dumps(base))
    done = command("compare", *files, "--fail-if", expression)
    assert done.status == 2
    assert FAULTY[expression] in done.err
    assert done.err.count("\n") == 1
    assert done.out == ""


# The command


def test_the_command_and_its_files(base: Values, tmp_path: Path) -> None:
    files = [tmp_path / "old.json", tmp_path / "new.json"]
    files[0].write_text(json.dumps(base))
    files[1].write_text(json.dumps(changed(base, slower, another_machine)))
    numbers, layers, page = (tmp_path / name for name in ("c.json", "c.csv", "c.html"))
    done = command(
        "compare", *files, "--json", numbers, "--csv", layers, "--html", page, "--report", tmp_path / "r"
    )
    assert (done.status, done.err) == (0, "")
    for words in (
        "A  old: tiny on bench (baseline)",
        "B  new: tiny on wide",
        "Hardware, 1 difference",
        "stall: weights",
    ):
        assert words in done.out
    plain = json.loads(numbers.read_text())
    assert [run["label"] for run in plain["runs"]] == ["old", "new"]
    latency = next(row for row in plain["headline"] if row["key"] == "latency_ms")
    assert latency["change_percent"] == [pytest.approx(10)]
    assert plain["layers"][0]["cost"]["change"] == [20]
    rows = list(csv.DictReader(StringIO(layers.read_text())))
    assert (rows[0]["name"], rows[0]["cycles_a"], rows[0]["cycles_b"], rows[0]["due_to_b"]) == (
        "conv", "100", "120", "stall_weights",
    )  # fmt: skip
    assert page.read_text() == (tmp_path / "r" / "comparison.html").read_text()
    assert sorted(file.name for file in (tmp_path / "r").iterdir()) == [
        "comparison.html", "comparison.json", "layers.csv",
    ]  # fmt: skip


def test_the_exit_status_for_continuous_integration(base: Values, tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(base))
    new.write_text(json.dumps(changed(base, slower)))
    passed = command("compare", old, new, "--fail-if", "latency_ms>+20%")
    assert (passed.status, passed.err) == (0, "")
    assert "passes  B  latency_ms>+20%" in passed.out
    numbers = tmp_path / "c.json"
    failed = command(
        "compare",
        old,
        new,
        "--fail-if",
        "latency_ms>+5%",
        "--fail-if",
        "cycles.total>1000",
        "--json",
        numbers,
    )
    assert failed.status == 3
    assert "FAILS   B  latency_ms>+5%: 0.0004 -> 0.00044, +10%, beyond" in failed.out
    assert failed.err.startswith("npusim: --fail-if holds for B: latency_ms>+5%")
    assert [each["fails"] for each in json.loads(numbers.read_text())["conditions"]] == [True, False]


NOT_RESULTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not a result file: not valid JSON"),
    "text": (b"hello", "not a result file: not valid JSON at line 1"),
    "binary": (
        b"\xff\xfe\x00",
        "not a result file: byte 2 is 0, which no text has; npusim run MODEL --json F writes one",
    ),
    "list": (b"[1, 2]", "it has no schema_version"),
    "other": (b'{"a": 1}', "it has no schema_version"),
    "newer": (b'{"schema_version": 2}', "schema_version 2, this npusim reads 1"),
    "truth": (b'{"schema_version": true}', "schema_version true, this npusim reads 1"),
    "bare": (b'{"schema_version": 1}', "npusim_version is missing (and 17 more)"),
    "not a number": (b'{"schema_version": NaN}', "not valid JSON"),
    "deep": (b"[" * 100_000, "not valid JSON"),
}


@pytest.mark.parametrize("name", NOT_RESULTS)
def test_files_that_are_no_results(base: Values, tmp_path: Path, name: str) -> None:
    content, words = NOT_RESULTS[name]
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(base))
    bad.write_bytes(content)
    done = command("compare", good, bad)
    assert done.status == 2
    assert done.err.startswith(f"npusim: {bad}: ")
    assert words in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda values: values["cycles"].pop("total"), "cycles.total is missing"),
        (lambda values: values.update(latency_ms="1"), 'latency_ms: "1": input should be a valid number'),
        (
            lambda values: values["layers"][2].update(cycles=-1),
            "layers.2.cycles: -1: input should be greater",
        ),
        (lambda values: values["layers"][2].update(cycles=1 << 70), "layers.2.cycles"),
        (lambda values: values.update(layers={}), "layers: a table: input should be a valid list"),
        (lambda values: values["hardware"].update(clock_mhz=0), "hardware.clock_mhz: 0"),
        (lambda values: values.update(lost_cycles=[1]), "lost_cycles: a list of 1"),
        (lambda values: values.update(latency_ms=float("inf")), "latency_ms"),
    ],
)
def test_results_with_faults(base: Values, edit: Callable[[Values], object], words: str) -> None:
    with pytest.raises(NpusimError) as fault:
        result_file.check(changed(base, edit), "x.json")
    assert str(fault.value).startswith("x.json: not a result file: ")
    assert words in str(fault.value)


def test_mistakes_of_the_command(base: Values, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps(base))
    for words, message in (
        ((file,), "compare: 1 runs given; it takes 2 to 26"),
        ((file, tmp_path / "none.json"), "none.json: no such file"),
        ((file, tmp_path), "is a folder, not a result file; it must be a regular file"),
        ((file, file, "--json", file), "give each a file of its own"),
        ((file, file, "--report", file), "is a file; give the name of a folder"),
        ((file, file, "--csv", tmp_path / "no" / "c.csv"), "there is no folder"),
    ):
        done = command("compare", *words)
        assert (done.status, message in done.err) == (2, True), done.err


# What it looks like


@pytest.fixture(scope="module")
def three(base: Values) -> Comparison:
    return compare(
        base, changed(base, slower, another_machine), changed(base, twice_the_clock, another_layer)
    )


@pytest.mark.parametrize("width", [40, 60, 80, 110, 200])
def test_the_terminal_is_not_too_narrow(base: Values, three: Comparison, width: int) -> None:
    pair = compare(base, changed(base, slower, another_machine))
    for comparison in (pair, three):
        verdicts = comparison.judge([conditions.parse("latency_ms>+5%")])
        text = terminal.render(comparison, verdicts, width)
        assert max(map(len, text.splitlines())) <= width
        assert "\N{HORIZONTAL ELLIPSIS}" not in text  # nothing is cut off
        assert any("Latency" in line and "440 ns" in line and "+10.0 %" in line for line in text.splitlines())


def test_names_cannot_spoil_terminal_or_page(base: Values) -> None:
    comparison = compare(base, changed(base, evil_names))
    assert "\x1b" not in terminal.render(comparison)
    shown = notebook.comparison(comparison)
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
    assert comparison_csv.render(comparison)
    from npusim.reports.comparison import page as comparison_page

    page = comparison_page.render(comparison, comparison.judge([conditions.parse("macs>1")]))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "http" not in page.replace("http-equiv", "")  # nothing is fetched


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (value("time_ms", 1.5), "1.5 ms"), (value("cycles", 12345), "12 345"), (value("bytes", None), "-"),
        (delta("cycles", 12345), "+12 345"), (delta("cycles", -5), "-5"), (delta("cycles", 0), "0"),
        (percent(Change(1, 10.0)), "+10.0 %"), (percent(Change(0, 0.0)), "="), (percent(Change(1, inf)), "from 0"),
        (percent(Change(1, 0.01)), "+0.0 %"), (percent(Change(9, 2400.0)), "x 25"), (percent(None), "-"),
    ],
)  # fmt: skip
def test_cells(shown: str, expected: str) -> None:
    assert shown == expected


# Runs on devices.


def on_devices(core_of: tuple[int, ...], clocks: tuple[float, ...] = (500.0, 400.0)) -> Values:
    result = measured("digits_cnn", ("edge-128", "edge-64"), core_of, clocks)
    return json.loads(json.dumps(result.to_dict()))  # type: ignore[no-any-return]


def test_runs_on_devices_are_named_by_those_at_work() -> None:
    alone = npusim.run("digits_cnn", "edge-128", timing_only=True).to_dict()
    found = compare(alone, on_devices((0, 0, 0, 1)), on_devices((1,)))
    assert [run.hardware for run in found.runs] == ["edge-128", "npu_a, npu_b", "npu_b"]
    devices = {row.path: row.values for row in found.hardware}
    # What all share is the same; no run but the first is of one machine alone, so only the devices are compared.
    assert devices == {"devices": ("edge-128", "npu_a, npu_b", "npu_a, npu_b")}


def test_devices_are_compared_one_by_one() -> None:
    found = compare(on_devices((0, 0, 0, 1)), on_devices((0, 1), (500.0, 250.0)))
    assert {row.path: row.values for row in found.hardware} == {"npu_b.clock_mhz": (400.0, 250.0)}
    moved = [row.name for row in found.layers if row.moved]
    assert moved == ["depthwise", "pointwise"] or moved == ["pointwise", "depthwise"]
    assert f"2 of {len(found.layers)} layers run on other devices." in found.notes
    assert found.same_clock  # that of the system


def test_a_device_without_a_part_of_what_it_must_have_is_named() -> None:
    values = on_devices((0, 0, 0, 1))
    del values["devices"][1]["launches"]
    with pytest.raises(NpusimError, match=r"devices\.1\.launches is missing"):
        result_file.check(values, "here")
