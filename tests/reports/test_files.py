"""Reports that are files: JSON, CSV, Chrome trace."""

from __future__ import annotations

import csv
import json
from io import StringIO
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from npusim.isa.hardware.units import Unit
from npusim.numbers.measure import measure
from npusim.numbers.run import RunResult
from npusim.reports import REPORTS, report
from npusim.reports.run import chrome_trace
from npusim.reports.run.chrome_trace import LAYERS as LAYER_TRACK
from npusim.reports.run.chrome_trace import STALLS, SYSTEM
from npusim.reports.words.names import CAUSE_NAMES

from ..npusim.numbers.fake_run import LAYERS, STEPS, execution, program

Events = list[dict[str, Any]]


@pytest.fixture(scope="module")
def result() -> RunResult:
    return measure(program(), execution())


@pytest.fixture(scope="module")
def events(result: RunResult) -> Events:
    found: Events = json.loads(report("--trace").render(result))["traceEvents"]
    return found


def _of_run(events: Events, track: int) -> Events:
    """The slices of a track of the whole run."""
    return [
        event for event in events if (event["pid"], event.get("tid"), event["ph"]) == (SYSTEM, track, "X")
    ]


def _of(events: Events, phase: str, name: str = "") -> Events:
    """Events of the device, and counters of the run."""
    return [
        event
        for event in events
        if event["ph"] == phase and name in (event["name"], "") and (event["pid"] != SYSTEM or phase == "C")
    ]


@pytest.mark.parametrize("entry", REPORTS, ids=lambda entry: entry.option)
def test_reports_are_text_that_ends_a_line(entry: Any, result: RunResult) -> None:
    assert entry.render(result).endswith("\n")


def test_json_is_the_dictionary(result: RunResult) -> None:
    assert json.loads(report("--json").render(result)) == result.to_dict()


def test_csv_has_a_row_per_layer(result: RunResult) -> None:
    rows = list(csv.DictReader(StringIO(report("--csv").render(result))))
    assert [row["name"] for row in rows] == [layer.name for layer in LAYERS]
    assert (rows[0]["cycles"], rows[0]["macs"], rows[3]["start_cycle"]) == ("100", "6400", "")
    assert sum(float(row["energy_uj"]) for row in rows) == pytest.approx(result.energy_uj)
    for row in rows:
        lost = sum(int(value) for name, value in row.items() if name.startswith("lost_"))
        assert int(row["lower_bound_cycles"]) + lost == int(row["cycles"])


def test_tracks_are_named_and_sorted(events: Events) -> None:
    names = {event["tid"]: event["args"]["name"] for event in _of(events, "M", "thread_name")}
    order = {event["tid"]: event["args"]["sort_index"] for event in _of(events, "M", "thread_sort_index")}
    assert [names[tid] for tid in sorted(order, key=order.__getitem__)] == [
        "front end", "MAC array", "vector unit", "host", "DMA channel 0", "DMA channel 1",
    ]  # fmt: skip
    assert _of(events, "M", "process_name")[0]["args"]["name"] == "tiny on bench"


def test_slices_are_the_instructions(events: Events) -> None:
    slices = _of(events, "X")
    assert len(slices) == len(STEPS)
    convolution = slices[1]
    assert (convolution["tid"], convolution["name"]) == (Unit.MAC, "conv mac.convolve")
    assert (convolution["ts"], convolution["dur"]) == (0.08, 0.12)  # cycles 40..100 at 500 MHz, in us
    assert convolution["args"]["waited_for"] == "dma0"
    assert convolution["args"]["token_wait_cycles"] == 1


def test_layers_fill_the_run_and_have_the_cycles_of_their_table(result: RunResult, events: Events) -> None:
    slices = _of_run(events, LAYER_TRACK)
    spans = [(each["args"]["start_cycle"], each["args"]["end_cycle"]) for each in slices]
    assert spans[0][0] == 0
    assert spans[-1][1] == result.cycles
    assert all(one[1] == other[0] for one, other in pairwise(spans))
    cycles: dict[str, int] = {}
    for each, (begin, end) in zip(slices, spans, strict=True):
        cycles[each["name"]] = cycles.get(each["name"], 0) + end - begin
    assert cycles == {layer.name: layer.cycles for layer in result.layers if layer.cycles}


def test_stalls_have_their_causes(result: RunResult, events: Events) -> None:
    """Nothing computes in them."""
    stalls = _of_run(events, STALLS)
    assert stalls
    works = [each for each in _of(events, "X") if each["tid"] in (Unit.MAC, Unit.VECTOR, Unit.HOST)]
    for stall, work in product((each["args"] for each in stalls), (each["args"] for each in works)):
        assert stall["end_cycle"] <= work["start_cycle"] or work["end_cycle"] <= stall["start_cycle"]
    assert {each["name"] for each in stalls} <= set(CAUSE_NAMES.values())


def test_power_counter_holds_the_energy(result: RunResult, events: Events) -> None:
    points = _of(events, "C", "power mW")
    energy_uj = sum(
        sum(here["args"].values()) * (there["ts"] - here["ts"]) * 1e-3 for here, there in pairwise(points)
    )
    assert energy_uj * 1e-3 == pytest.approx(result.energy_uj * 1e-3, rel=1e-3)


def test_arrows_say_who_waits_for_whom(events: Events) -> None:
    assert _of(events, "s")[0]["name"] == "dma0 to mac"


def test_slices_of_a_track_do_not_overlap(events: Events) -> None:
    by_track: dict[int, float] = {}
    for item in sorted(_of(events, "X"), key=lambda item: item["ts"]):
        assert item["ts"] >= by_track.get(item["tid"], 0.0) - 1e-9
        by_track[item["tid"]] = item["ts"] + item["dur"]


def test_arrows_lead_from_the_producer_to_the_consumer(events: Events) -> None:
    tails, heads = _of(events, "s"), _of(events, "f")
    assert [(tail["id"], tail["tid"]) for tail in tails] == [
        (1, Unit.DMA0), (3, Unit.MAC), (4, Unit.VECTOR), (5, Unit.DMA0), (7, Unit.HOST),
    ]  # fmt: skip
    assert (heads[0]["id"], heads[0]["tid"], heads[0]["bp"]) == (1, Unit.MAC, "e")
    slices = _of(events, "X")
    for tail, head in zip(tails, heads, strict=True):
        consumer = slices[head["id"]]
        assert head["ts"] == consumer["ts"]
        assert any(
            item["tid"] == tail["tid"] and item["ts"] <= tail["ts"] < item["ts"] + item["dur"]
            for item in slices
        )


def test_a_wait_without_a_producer_has_no_arrow() -> None:
    unit = np.array([Unit.MAC], np.int8)
    times = np.array([5], np.int64)
    assert chrome_trace.producer_of(unit, times, times + 1, np.array([Unit.HOST], np.int8)).tolist() == [-1]


def test_dram_counter_holds_all_bytes(events: Events) -> None:
    points = _of(events, "C", "DRAM bytes/s")
    totals = dict.fromkeys(("read", "write", "instructions"), 0.0)
    for here, there in pairwise(points):
        for kind in totals:
            totals[kind] += here["args"][kind] * (there["ts"] - here["ts"]) * 1e-6
    assert totals == pytest.approx({"read": 320, "write": 32, "instructions": 576}, rel=1e-6)


def test_scratchpad_counter(events: Events) -> None:
    points = [(event["ts"], event["args"]["in use"]) for event in _of(events, "C", "scratchpad KiB")]
    assert points == [(0.0, 1.0), (0.08, 3.0), (0.2, 2.0), (0.28, 0.0)]
