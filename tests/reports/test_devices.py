"""Reports of a run on several devices: who does what is said everywhere, and pictures say what the numbers do."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO, StringIO
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.numbers.devices import DeviceRun
from npusim.numbers.run import RunResult
from npusim.reports import folder, report
from npusim.reports.run import html, html_data, series, tables, terminal
from npusim.reports.run import run_data as machines
from npusim.reports.run.chrome_trace import PROCESS, SYSTEM
from npusim.reports.run.series import Charts

from ..devices import measured
from .test_html import EVIL, Outline

NAMES = ("npu_a", "npu_b", "npu_c")
PIECES = ("npu_a", "npu_b", "npu_a", "npu_c", "npu_b")


@pytest.fixture(scope="module")
def result() -> RunResult:
    found = measured(
        "digits_cnn",
        ("edge-128", "edge-64", "edge-32"),
        (0, 1, 1, 0, 2, 2, 1),
        (500.0, 750.0, 125.5),
        data=True,
    )
    assert isinstance(found, DeviceRun)
    return found


@pytest.fixture(scope="module")
def alone() -> RunResult:
    return npusim.run("digits_cnn", "edge-128", timing_only=True)


# In the terminal.


def said(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_the_terminal_names_the_devices(result: RunResult) -> None:
    text = said(terminal.render(result, 110))
    for words in (
        "digits_cnn on npu_a, npu_b, npu_c",
        "npu_b: 64 MACs/cycle at 750 MHz, scratchpad 2 MiB, 22 nm",
        "sharing DRAM 0.5 GB/s; cycles are those of npu_a, 500 MHz",
        "of the multipliers of the NPU at work",
        "Partition, 5 pieces on 3 devices",
        "of 2 MiB on npu_c",
        " of handover",
        "4 boundaries",
    ):
        assert words in text
    # What hands over from device to device is no operator that runs on the host.
    assert "On the host" not in text
    assert "operators on the host" not in text


def test_pieces_and_boundaries_in_the_terminal_are_the_run(result: RunResult) -> None:
    lines = terminal.render(result, 160).partition("Partition, 5 pieces")[2].splitlines()[1:]
    rows = [re.match(r" *[\d-]* *(npu_.|between) +([\d ]+?)  ", line) for line in lines[: len(PIECES) + 1]]
    found = [(row[1], int(row[2].replace(" ", ""))) for row in rows if row]
    assert [name for name, _ in found] == [*PIECES, "between"]
    assert sum(cycles for _, cycles in found) == result.cycles


def test_one_machine_is_said_as_ever(alone: RunResult) -> None:
    assert machines.lines(alone) == ["128 MACs/cycle at 500 MHz, scratchpad 2 MiB, DRAM 0.5 GB/s, 22 nm"]
    assert "device" not in terminal.render(alone, 160)
    assert "device" not in tables.of_layers(alone)


def test_a_device_alone_whose_clock_is_not_the_systems_says_so() -> None:
    result = measured("digits_cnn", ("edge-128", "edge-64"), (1,), (500.0, 250.0))
    assert machines.lines(result) == [
        "64 MACs/cycle at 250 MHz, scratchpad 2 MiB, DRAM 0.5 GB/s, 22 nm at 0.592 V",
        "cycles are those of npu_a, 500 MHz",
    ]
    text = said(terminal.render(result, 110))
    assert "digits_cnn on npu_b" in text
    assert "of 64 MACs/cycle" in text
    assert "Partition" not in text


def test_a_cpu_is_no_npu() -> None:
    with_cpu = measured("digits_cnn", ("edge-128", "edge-128"), (0, 0, 0, 1))
    first, second = with_cpu.devices
    result = replace(with_cpu, devices=(first, replace(second, is_cpu=True)))
    assert machines.lines(result)[1] == "npu_b: cortex-m7 at 280 MHz, the host"
    assert [name for name, *_ in machines.scratchpads(result)] == ["npu_a"]
    assert [roof.name for roof in Charts(result).roofline.roofs] == ["npu_a"]
    alone = replace(with_cpu, devices=(replace(first, is_cpu=True),))
    assert machines.lines(alone) == [
        "cortex-m7 at 280 MHz; its machine stands by:",
        "128 MACs/cycle at 500 MHz, scratchpad 2 MiB, DRAM 0.5 GB/s, 22 nm",
    ]


# Tables.


def rows_of(result: RunResult, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(tables.to_csv(tables.TABLES[name](Charts(result))))))


def test_every_table_can_be_written(result: RunResult) -> None:
    for name in tables.TABLES:
        assert rows_of(result, name)


def test_layers_and_instructions_have_their_device(result: RunResult) -> None:
    layers = rows_of(result, "layers")
    assert {row["device"] for row in layers} == set(NAMES)
    assert sum(int(row["cycles"]) for row in layers) == result.cycles
    for row in rows_of(result, "instructions"):
        assert row["device"] == layers[int(row["layer"])]["device"]
    assert {row["device"] for row in rows_of(result, "buffers")} == set(NAMES)


def test_pieces_with_their_boundaries_are_the_run(result: RunResult) -> None:
    rows = rows_of(result, "pieces")
    assert [row["device"] for row in rows] == list(PIECES)
    cycles = sum(int(row["cycles"]) + int(row["boundary_cycles"] or 0) for row in rows)
    assert cycles == result.cycles
    assert rows[0]["boundary_cycles"] == ""


def test_power_is_the_energy(result: RunResult) -> None:
    rows = rows_of(result, "power")
    spent = sum(
        (int(row["end"]) - int(row["begin"])) * float(value) * result.hardware.us_of_cycles(1) * 1e-3
        for row in rows
        for name, value in row.items()
        if name.endswith("_mw")
    )
    assert spent == pytest.approx(float(result.energy_uj))


# Series, and what is drawn of them.


def test_turns_cover_the_run_without_gaps(result: RunResult) -> None:
    turns = Charts(result).turns
    assert turns.begin[0] == 0
    assert turns.end[-1] == result.cycles
    np.testing.assert_array_equal(turns.end[:-1], turns.begin[1:])
    # A turn of a layer is inside a launch of its device. What is rounded of each turn is less than a cycle.
    own = np.bincount(turns.layer, turns.end - turns.begin, len(result.layers))
    number = np.bincount(turns.layer, minlength=len(result.layers))
    cycles = np.array([layer.cycles for layer in result.layers])
    assert (np.abs(own - cycles) <= number + 1).all()


def test_stalls_are_the_cycles_in_which_nothing_computes(result: RunResult) -> None:
    stalls = Charts(result).stalls
    assert (stalls.end > stalls.begin).all()
    assert (stalls.begin[1:] >= stalls.end[:-1]).all()
    copies = sum(layer.cycles for layer in result.layers if layer.op == "transfer")
    lasted = int((stalls.end - stalls.begin).sum())
    # Copies between devices are no stall; nothing else computes while they are under way.
    assert result.cycles.stall - copies <= lasted <= result.cycles.stall


def test_tracks_are_those_of_each_device(result: RunResult) -> None:
    work = series.work(result)
    tracks = series.tracks(work)
    assert [track.device for track in tracks] == sorted(track.device for track in tracks)
    assert {track.device for track in tracks} == {0, 1, 2}
    assert sum(len(track.items) for track in tracks) == int((work.end > work.begin).sum())
    spans = {
        device: [(stage.start_cycle, stage.end_cycle) for stage in result.stages if stage.device == device]
        for device in range(3)
    }
    for device, _, items in tracks:
        for begin, end in zip(work.begin[items].tolist(), work.end[items].tolist(), strict=True):
            assert any(first <= begin < end <= last for first, last in spans[device])


def test_merged_neighbours_are_of_one_device(result: RunResult) -> None:
    whole, merged = series.work(result), series.work(result, 10)
    assert len(merged.unit) < len(whole.unit)
    assert merged.number.sum() == len(whole.unit)
    assert merged.busy.sum() == (whole.end - whole.begin).sum()
    for device in range(3):
        assert merged.number[merged.device == device].sum() == (whole.device == device).sum()


def test_roofs_are_those_of_the_devices_in_cycles_of_the_run(result: RunResult) -> None:
    roof = Charts(result).roofline
    assert [(each.name, each.peak_macs_per_cycle) for each in roof.roofs] == [
        ("npu_a", 128.0), ("npu_b", 64 * 750 / 500), ("npu_c", 32 * 125.5 / 500),
    ]  # fmt: skip
    peaks = {each.name: each.peak_macs_per_cycle for each in roof.roofs}
    for point in roof.points:
        assert point.macs_per_cycle <= peaks[point.layer.device] * (1 + 1e-9)
        # A cycle more or less by rounding.
        assert point.macs_per_cycle / peaks[point.layer.device] == pytest.approx(
            point.layer.utilization, rel=2 / point.layer.cycles
        )


def test_devices_of_one_peak_share_a_roof() -> None:
    result = measured("digits_cnn", ("edge-128", "edge-128"), (0, 0, 0, 1))
    assert [roof.name for roof in Charts(result).roofline.roofs] == ["npu_a, npu_b"]


def test_the_memory_map_covers_what_the_programs_use(result: RunResult) -> None:
    regions = html_data.regions(result)
    assert regions[0].address == 0
    for one, other in pairwise(regions):
        assert one.address + one.size_bytes <= other.address
    assert regions[-1].address + regions[-1].size_bytes == html_data.used_bytes(result)
    instructions = sum(region.size_bytes for region in regions if region.kind == "code")
    assert instructions == sum(stage.program.code_size_bytes for stage in result.stages)


# The page.


@pytest.fixture(scope="module")
def outline(result: RunResult) -> Outline:
    return Outline(html.render(result))


def test_the_page_names_the_devices(outline: Outline, result: RunResult) -> None:
    text = said(outline.text.replace("\u00a0", " ").replace("\u202f", " "))
    for words in (
        "digits_cnn on npu_a, npu_b, npu_c",
        "npu_c: 32 MACs/cycle at 125.5 MHz",
        "5 pieces on 3 devices.",
        "npu_b: MAC array",
        "No layer runs on the host.",
        "What every unit of every device does.",
        "pieces and boundaries",
        "The programs use ",
    ):
        assert words in text
    sections = [section["id"] for section in outline.of("section")]
    assert "partition" in sections
    rows = [each for each in outline.of("tr") if "data-device" in each]
    assert [row["data-device"] for row in rows] == [layer.device for layer in result.layers]


def test_names_of_devices_are_no_markup(result: RunResult) -> None:
    assert isinstance(result, DeviceRun)
    devices = tuple(replace(device, name=EVIL + str(device.core)) for device in result.devices)
    launches = tuple(replace(stage, program=replace(stage.program, name=EVIL)) for stage in result.launches)
    hostile = replace(result, devices=devices, launches=launches)
    page = html.render(hostile)
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "\u202e" not in terminal.render(hostile)


def test_what_the_page_draws(result: RunResult) -> None:
    drawn = html_data.data(result)
    assert drawn["devices"] == list(NAMES)
    pieces = drawn["pieces"]
    assert pieces["device"] == [0, -1, 1, -1, 0, -1, 2, -1, 1]
    assert np.cumsum(pieces["ends"])[-1] == result.cycles
    assert {track["device"] for track in drawn["tracks"]} == {0, 1, 2}
    assert drawn["roofline"]["roofs"][0] == ["npu_a", 128.0]
    assert drawn["occupancy"]["sizes"] == [[0, 2 * 1024 * 1024]]
    assert max(end for *_, end in drawn["buffers"]) <= result.cycles


def test_one_machine_is_drawn_without_devices(alone: RunResult) -> None:
    drawn = html_data.data(alone)
    assert (drawn["devices"], drawn["pieces"]) == ([], None)
    assert drawn["roofline"]["roofs"] == [["", 128.0]]


def test_scratchpads_of_different_sizes_are_told_apart() -> None:
    result = measured("digits_cnn", ("edge-128", "mobile-4096"), (0, 0, 0, 1))
    small, large = (device.hardware.scratchpad_bytes for device in result.devices)
    assert small != large
    occupancy = html_data.data(result)["occupancy"]
    # The boundary is the first device's; then the second is at work.
    assert occupancy["sizes"] == [[0, small], [result.stages[2].start_cycle, large]]
    assert occupancy["size"] == max(small, large)


# The trace, and all files of the folder.


@pytest.fixture(scope="module")
def events(result: RunResult) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(report("--trace").render(result))["traceEvents"]
    return found


def of(events: list[dict[str, Any]], phase: str, name: str = "") -> Iterator[dict[str, Any]]:
    return (event for event in events if event["ph"] == phase and name in (event["name"], ""))


def test_each_device_is_a_process_of_the_trace(events: list[dict[str, Any]], result: RunResult) -> None:
    processes = {event["pid"]: event["args"]["name"] for event in of(events, "M", "process_name")}
    assert processes == {
        SYSTEM: "digits_cnn: what the devices share",
        **{PROCESS + number: f"digits_cnn on {name}" for number, name in enumerate(NAMES)},
    }
    slices = [event for event in of(events, "X") if event["pid"] != SYSTEM]
    assert len(slices) == result.program.instructions
    for event in slices:
        layer = next(each for each in result.layers if each.name == event["args"]["layer"])
        assert event["pid"] == PROCESS + NAMES.index(layer.device)
    pieces = [event for event in of(events, "X") if event["cat"] in ("piece", "boundary")]
    at_work = [event["name"] for event in pieces if event["cat"] == "piece"]
    assert at_work == list(PIECES)
    ends = [(event["args"]["start_cycle"], event["args"]["end_cycle"]) for event in pieces]
    assert ends[0][0] == 0
    assert ends[-1][1] == result.cycles
    assert all(one[1] == other[0] for one, other in pairwise(ends))


def test_arrows_stay_on_their_device(events: list[dict[str, Any]]) -> None:
    tails = {event["id"]: event for event in of(events, "s")}
    heads = {event["id"]: event for event in of(events, "f")}
    assert tails.keys() == heads.keys()
    assert tails
    for number, tail in tails.items():
        assert tail["pid"] == heads[number]["pid"]
        assert tail["ts"] <= heads[number]["ts"] + 1e-3


@pytest.mark.cases(9)
@pytest.mark.parametrize("entry", folder.files(), ids=lambda entry: entry.name)
def test_every_file_of_the_folder_can_be_written(entry: folder.ReportFile, result: RunResult) -> None:
    file = BytesIO()
    entry.write(Charts(result), file)
    assert file.tell() > 100
