"""Results over several devices: everything adds up to the run, whatever is divided, on whatever clocks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npusim
from npusim.isa.base.elements import Workload
from npusim.isa.base.errors import SimulationError
from npusim.isa.hardware.cpu import host_cycles
from npusim.isa.program.executable import Executable, Launch, Transfer
from npusim.machine.job import Run
from npusim.numbers.area import area
from npusim.numbers.devices import DeviceRun, measure_devices
from npusim.numbers.energy import standing_mw
from npusim.numbers.measure import measure
from npusim.numbers.run import RunResult
from npusim.session.options import partition

from ...devices import executable, measured, run, sharing
from ...examples import examples
from ...random_graphs import random_graph

THREE = ("edge-128", "edge-64", "edge-32")
CUTS = {
    "one clock": (("edge-128", "edge-64"), (0, 0, 0, 1), ()),
    "a slow second": (("edge-128", "edge-64"), (0, 0, 0, 1), (500.0, 333.3)),
    "there and back": (THREE, (0, 1, 1, 0, 2, 2, 1), (500.0, 750.0, 125.5)),
}


@pytest.fixture(params=CUTS, scope="module")
def result(request: pytest.FixtureRequest) -> DeviceRun:
    found = measured("digits_cnn", *CUTS[request.param], data=True)
    assert isinstance(found, DeviceRun)
    return found


def check_sums(result: RunResult) -> None:
    """All that must add up to the run, to the cycle where it is cycles."""
    total = int(result.cycles)
    boundaries = [each for piece in result.pieces for each in (piece.entered, piece.left) if each]
    assert sum(piece.cycles for piece in result.pieces) + sum(each.cycles for each in boundaries) == total
    for unit in ("time_us", "energy_uj"):
        parts = [getattr(each, unit) for each in (*result.pieces, *boundaries)]
        whole = result.latency_ms * 1e3 if unit == "time_us" else float(result.energy_uj)
        assert sum(parts) == pytest.approx(whole, rel=1e-12)
    assert sum(layer.cycles for layer in result.layers) == total
    assert sum(layer.energy_uj for layer in result.layers) == pytest.approx(float(result.energy_uj))
    accounts = result.accounts
    assert accounts.network.cycles == total
    assert accounts.network.bound.cycles <= total
    for account in (accounts.network, *accounts.layers):
        assert account.bound.cycles + sum(account.lost.values()) == account.cycles
    assert [account.cycles for account in accounts.layers] == [layer.cycles for layer in result.layers]
    assert sum(result.energy_uj.by_component.values()) == pytest.approx(float(result.energy_uj))
    for name, parts in result.layer_energy_uj().items():
        assert parts.sum() == pytest.approx(result.energy_uj.by_component[name])
    power, moving = result.power_over_time(), result.moving_power()
    for name, spent in result.energy_uj.by_component.items():
        for series in (power, moving):
            shown = series.by_component_mw.get(name, np.zeros(1))
            lengths_us = np.diff(series.edges) * result.hardware.us_of_cycles(1)
            assert (shown * lengths_us * 1e-3).sum() == pytest.approx(spent, abs=1e-12)
    assert moving.highest_mw.max() == pytest.approx(result.power_mw.peak_10us)
    assert result.power_mw.average <= result.power_mw.peak_1ms <= result.power_mw.peak_10us * (1 + 1e-12)


def test_everything_adds_up(result: DeviceRun) -> None:
    check_sums(result)


def test_bytes_are_those_of_one_device(result: DeviceRun) -> None:
    alone = npusim.run("digits_cnn", "edge-128")
    for one, other in zip(alone.outputs, result.outputs, strict=True):
        np.testing.assert_array_equal(one, other)
    assert result.macs == alone.macs


def test_stages_cover_the_run(result: DeviceRun) -> None:
    assert result.stages[0].start_cycle == 0
    assert result.stages[-1].end_cycle == result.cycles
    assert all(one.end_cycle == other.start_cycle for one, other in pairwise(result.stages))
    for stage in result.stages:
        begin, end = stage.of_run(stage.execution.trace.started), stage.of_run(stage.execution.trace.ended)
        assert stage.start_cycle <= begin.min()
        assert end.max() == stage.end_cycle
        mine = slice(stage.first_instruction, stage.first_instruction + stage.program.instructions)
        np.testing.assert_array_equal(result.execution.trace.started[mine], begin)
        np.testing.assert_array_equal(result.execution.trace.ended[mine], end)
        layers = result.program.layers[stage.first_layer :][: len(stage.program.layers)]
        assert [layer.name for layer in layers] == [layer.name for layer in stage.program.layers]


def test_energy_is_that_of_each_launch_on_its_hardware(result: DeviceRun) -> None:
    alone = [measure(stage.program, stage.execution) for stage in result.stages]
    assert float(result.energy_uj) == pytest.approx(sum(float(each.energy_uj) for each in alone))
    assert result.dram_bytes.read == sum(each.dram_bytes.read for each in alone)
    # A device without a piece at work draws nothing: leakage is that of who is at work, for as long as he is.
    leaked = sum(
        standing_mw(stage.program.hardware)["vector"]
        * stage.program.hardware.us_of_cycles(stage.execution.cycles)
        * 1e-3
        for stage in result.stages
    )
    static = result.energy_uj.by_component["vector"] - sum(
        each.energy_uj.by_component["vector"] - standing_mw(each.hardware)["vector"] * each.latency_ms
        for each in alone
    )
    assert static == pytest.approx(leaked)


def test_each_device_has_its_part(result: DeviceRun) -> None:
    boundaries = [piece.entered for piece in result.pieces if piece.entered]
    assert (
        sum(each.cycles for each in result.devices) + sum(each.cycles for each in boundaries) == result.cycles
    )
    assert sum(each.macs for each in result.devices) == result.macs
    for device in result.devices:
        mine = [piece for piece in result.pieces if piece.device == device.name]
        assert device.cycles == sum(piece.cycles for piece in mine)
        assert device.energy_uj == pytest.approx(sum(piece.energy_uj for piece in mine))
        assert device.layers == sum(piece.layers for piece in mine)
        assert device.launches == len(mine)
        named = [layer for layer in result.layers if layer.device == device.name and layer.op != "transfer"]
        # The first device's DMA copies what crosses, and its host hands over.
        assert len([layer for layer in named if layer.op != "handover"]) == device.layers


def test_a_boundary_says_what_crosses_and_what_it_takes() -> None:
    result = measured("digits_cnn", *CUTS["a slow second"])
    first, second = result.pieces
    assert (first.device, second.device) == ("npu_a", "npu_b")
    assert (first.first_layer, first.last_layer) == (0, 2)
    assert [result.layers[at].op for at in (3, 4)] == ["handover", "transfer"]
    assert (second.first_layer, second.last_layer) == (5, 11)
    entered = second.entered
    assert entered is not None
    assert first.entered is None
    # Two feature maps of 12 x 16 x 8: both go to the addition that the second device begins with.
    assert entered.tensors == ("stem", "pointwise")
    sizes = [int(np.prod(result.layers[at].output_shapes[0])) for at in (0, 2)]
    assert entered.bytes == sum(sizes)
    assert entered.copies == 2
    # The handover takes what the host takes for nothing; the copies come behind it, fetch and dispatch in front.
    assert entered.handover_cycles == host_cycles(Workload("handover"), result.hardware)
    assert entered.handover_cycles + entered.copy_cycles < entered.cycles
    transfer = result.stages[1]
    assert isinstance(transfer.step, Transfer)
    assert entered.cycles == transfer.end_cycle - transfer.start_cycle
    assert entered.time_us == result.hardware.us_of_cycles(entered.cycles)


def test_cycles_of_another_clock_in_those_of_the_system() -> None:
    one, other = (measured("digits_cnn", *CUTS[name]) for name in ("one clock", "a slow second"))
    slow = other.stages[-1]
    # A cycle of 333.3 MHz are 1.5 of 500 MHz and a bit.
    assert (slow.time.ratio.numerator, slow.time.ratio.denominator) == (5000, 3333)
    assert slow.end_cycle - slow.start_cycle == slow.time.cycle(slow.execution.cycles)
    assert other.latency_ms == pytest.approx(int(other.cycles) / 500e3)
    # The first piece is the same; the second takes fewer of its own cycles, as the memory is as fast as before.
    assert one.pieces[0] == other.pieces[0]
    assert slow.execution.cycles < one.stages[-1].execution.cycles < one.pieces[1].cycles * 1.5


def test_the_bound_takes_each_device_for_itself() -> None:
    result = measured("digits_cnn", *CUTS["one clock"])
    parts = [measure(stage.program, stage.execution).lower_bound for stage in result.stages]
    assert result.lower_bound.mac == max(parts[0].mac, parts[2].mac)
    assert result.lower_bound.dram == sum(part.dram for part in parts)
    assert result.lower_bound.host == parts[1].host
    assert (
        result.lost_cycles.get("stages", 0) == sum(part.cycles for part in parts) - result.lower_bound.cycles
    )


def test_work_and_area_are_those_of_all_devices() -> None:
    result = measured("digits_cnn", *CUTS["a slow second"])
    first, second = (device.hardware for device in result.devices)
    shared = area(second).by_component["dram_interface"]
    assert result.area.total == pytest.approx(area(first).total + area(second).total - shared)
    assert result.tops.peak == first.tops
    on_array = sum(layer.macs for layer in result.layers if layer.unit == "mac")
    assert result.tops.reached == pytest.approx(2 * on_array / (result.latency_ms * 1e-3) * 1e-12)
    pieces = [stage for stage in result.stages if isinstance(stage.step, Launch)]
    room = sum(stage.execution.cycles * stage.program.hardware.macs_per_cycle for stage in pieces)
    assert result.mac_utilization == pytest.approx(on_array / room)


def test_the_json_names_the_devices() -> None:
    plain = measured("digits_cnn", *CUTS["there and back"]).to_dict()
    assert [device["name"] for device in plain["devices"]] == ["npu_a", "npu_b", "npu_c"]
    assert [device["hardware"]["clock_mhz"] for device in plain["devices"]] == [500.0, 750.0, 125.5]
    assert [piece["device"] for piece in plain["pieces"]] == ["npu_a", "npu_b", "npu_a", "npu_c", "npu_b"]
    assert {piece["side"] for piece in plain["pieces"]} == {"npu"}
    assert {layer["device"] for layer in plain["layers"]} == {"npu_a", "npu_b", "npu_c"}
    crossing = [piece["entered"]["cycles"] for piece in plain["pieces"][1:]]
    taken = sum(piece["cycles"] for piece in plain["pieces"]) + sum(crossing)
    assert taken == plain["cycles"]["total"]


# A device alone, and devices that do nothing.


def test_one_program_on_the_first_device_is_a_run_of_it() -> None:
    alone = npusim.run("digits_cnn", "edge-128", timing_only=True)
    result = measured("digits_cnn", ("edge-128", "edge-64"), (0,))
    apart = ("wall_s", "provenance", "devices", "pieces", "hardware")
    here, there = (
        {key: value for key, value in each.to_dict().items() if key not in apart} for each in (alone, result)
    )
    assert here == there
    assert [piece.device for piece in result.pieces] == ["npu_a"]
    first, second = result.devices
    assert (first.launches, first.cycles, first.energy_uj) == (
        1,
        alone.cycles,
        pytest.approx(alone.energy_uj),
    )
    assert (second.launches, second.cycles, second.energy_uj) == (0, 0, 0.0)


def test_one_program_on_a_device_of_another_clock() -> None:
    result = measured("digits_cnn", ("edge-128", "edge-64"), (1,), (500.0, 250.0))
    check_sums(result)
    (stage,) = result.stages
    assert result.cycles == 2 * stage.execution.cycles
    assert [device.launches for device in result.devices] == [0, 1]


def test_a_run_of_nothing_is_refused() -> None:
    hardware = npusim.hardware("edge-128")
    made = Executable("nothing", hardware, (), (), (), ())
    with pytest.raises(
        SimulationError, match=r"^nothing: nothing was launched, so there is nothing to measure$"
    ):
        measure_devices(made, Run(0, 0, (), (), None, ()), [("npu", hardware)])


def test_layers_on_the_host_of_a_device_are_pieces_of_its_own() -> None:
    first = npusim.hardware("edge-128")
    cores = [
        first,
        sharing(npusim.hardware("edge-64"), first, "second").model_copy(update={"clock_mhz": 400.0}),
    ]
    graph = npusim.load("digits_cnn")
    placed = partition(["max_pool_2d", "softmax"]).of(graph, first)
    core_of = [0, 0, 0, *[1] * (len(graph.nodes) - 3)]
    made = executable(placed, cores, core_of)
    result = measure_devices(made, run(made, cores), [("one", cores[0]), ("two", cores[1])])
    check_sums(result)
    assert [(piece.device, piece.side) for piece in result.pieces] == [
        ("one", "npu"), ("two", "npu"), ("two", "host"), ("two", "npu"), ("two", "host"),
    ]  # fmt: skip
    entered = result.pieces[2].entered
    assert entered is not None
    # Inside a program a boundary is a part of the pieces. Its cycles are the system's, at 500 MHz.
    assert (entered.cycles, entered.handover_cycles) == (0, round(first.host.handover_us * 500))


@pytest.mark.slow
@given(
    st.integers(0, 10_000), st.lists(st.sampled_from([500.0, 100.0, 333.3, 1700.0]), min_size=3, max_size=3)
)
@examples(12)
def test_random_graphs_on_random_devices(seed: int, clocks: list[float]) -> None:
    random = Random(seed)
    graph = random_graph(random.randint)
    first = npusim.hardware(THREE[0])
    cores = [
        sharing(npusim.hardware(name), first, name).model_copy(update={"clock_mhz": clock})
        for name, clock in zip(THREE, clocks, strict=True)
    ]
    made = executable(graph, cores, [random.randint(0, 2) for _ in graph.nodes])
    named = [(core.name, core) for core in cores]
    result = measure_devices(made, run(made, cores, data=True), named)
    check_sums(result)
    alone = npusim.simulate(npusim.compile(graph, first), inputs=None)
    for one, other in zip(alone.outputs, result.outputs, strict=True):
        np.testing.assert_array_equal(one, other)
    timed = measure_devices(made, run(made, cores), named)
    assert replace(result, outputs=[]).to_dict() == timed.to_dict()


def test_a_cpu_is_the_host_of_the_first_machine() -> None:
    first = npusim.hardware("edge-128")
    other = sharing(npusim.hardware("edge-64"), first, "other")
    cores = [first, other, first]
    graph = npusim.load("digits_cnn")
    placed = partition([node.op for node in graph.nodes[3:5]]).of(graph, first)
    made = executable(placed, cores, [0, 0, 0, 2, 2, *[1] * (len(graph.nodes) - 5)])
    named = list(zip(("npu", "other", "cpu"), cores, strict=True))
    result = measure_devices(made, run(made, cores), named, cpus=[2])
    check_sums(result)
    assert [(piece.device, piece.side) for piece in result.pieces] == [
        ("npu", "npu"), ("cpu", "host"), ("other", "npu"),
    ]  # fmt: skip
    assert [device.is_cpu for device in result.devices] == [False, False, True]
    # It adds no silicon and no multipliers, and the machine that it belongs to stands by while it computes.
    pair = measure_devices(made, run(made, cores), named)
    shared = area(other).by_component["dram_interface"]
    assert result.area.total == pytest.approx(area(first).total + area(other).total - shared)
    assert pair.area.total == pytest.approx(result.area.total + area(first).total - shared)
    assert [name for name, _ in result.npus] == ["npu", "other"]
    assert result.mac_utilization > pair.mac_utilization
    assert float(result.energy_uj) == float(pair.energy_uj)
