"""The numbers of a run, from a timeline small enough to do them by hand."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

from npusim.isa.hardware.cpu import host_energy_uj
from npusim.isa.hardware.file import change
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import Unit
from npusim.numbers import timeline
from npusim.numbers.bounds import LowerBound
from npusim.numbers.energy import dynamic_pj, floor_mw
from npusim.numbers.measure import measure
from npusim.numbers.run import RunResult, WallTimes

from ...yardstick import cost
from .fake_run import BENCH, LAYERS, STEPS, execution, program

KEYS = {
    "schema_version": None,
    "npusim_version": None,
    "model": None,
    "hardware": None,
    "cycles": {"total", "dma", "mac", "vector", "host", "stall"},
    "latency_ms": None,
    "energy_uj": {"total", "dynamic", "static", "dram", "host", "by_component"},
    "power_mw": {"average", "peak", "peak_10us", "peak_1ms"},
    "macs": None,
    "mac_utilization": None,
    "lower_bound_cycles": None,
    "bound_by": None,
    "lost_cycles": {"start_up", "edge_tiles", "tail"},
    "dram_bytes": {"read", "write", "instructions"},
    "scratchpad_peak_bytes": None,
    "instructions": None,
    "performance_info": {"execTime", "powerUsage"},
    "layers": None,
    "provenance": {
        "npusim",
        "python",
        "numpy",
        "simpy",
        "command",
        "effort",
        "seed",
        "inputs",
        "model_sha256",
        "hardware_sha256",
    },
    "wall_s": {"load", "compile", "simulate"},
}
LAYER_KEYS = {
    "name", "op", "unit", "cycles", "macs", "utilization", "bytes", "energy_uj", "lower_bound_cycles", "bound_by",
    "lost_cycles",
}  # fmt: skip


@pytest.fixture(scope="module")
def result() -> RunResult:
    """The run of `fake_run.STEPS`: 200 cycles at 500 MHz on 128 multipliers."""
    return measure(program(), execution(), WallTimes(0.1, 0.2, 0.3))


@pytest.mark.parametrize(("key", "parts"), KEYS.items())
def test_json_has_every_key(result: RunResult, key: str, parts: set[str] | None) -> None:
    plain = result.to_dict()
    assert key in plain
    if parts:
        assert parts <= set(plain[key])


def test_json_of_layers_and_hardware(result: RunResult) -> None:
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert [layer["name"] for layer in plain["layers"]] == [layer.name for layer in LAYERS]
    assert all(set(layer) >= LAYER_KEYS for layer in plain["layers"])
    assert Hardware.model_validate(plain["hardware"]) == result.hardware


def test_equal_runs_have_equal_json_but_for_wall_times(result: RunResult) -> None:
    first, second = result.to_dict(), measure(program(), execution(), WallTimes(9, 9, 9)).to_dict()
    assert first.pop("wall_s") != second.pop("wall_s")
    assert json.dumps(first) == json.dumps(second)


def test_totals(result: RunResult) -> None:
    assert result.cycles == 200
    assert result.cycles.mac == 60
    assert result.latency_ms == pytest.approx(200 / 500e6 * 1e3)
    assert result.macs == 6400
    assert result.mac_utilization == 6400 / (200 * 128)
    assert result.scratchpad_peak_bytes == 3072  # weights until cycle 100, features from 40 to 140
    assert result.inferences_per_s == pytest.approx(2.5e6)


def test_layers_add_up_to_the_run(result: RunResult) -> None:
    assert sum(layer.cycles for layer in result.layers) == result.cycles
    assert sum(layer.energy_uj for layer in result.layers) == pytest.approx(result.energy_uj)
    assert sum(result.energy_uj.by_component.values()) == pytest.approx(result.energy_uj)
    energy = result.energy_uj
    assert energy.dynamic + energy.static + energy.dram + energy.host == pytest.approx(energy.total)


def test_a_layer_by_hand(result: RunResult) -> None:
    layer, hardware = result.layers[0], result.hardware
    actions = execution().layer_actions
    dynamic_uj = (dynamic_pj(actions[0], hardware) + dynamic_pj(actions[-1], hardware) * 2 / 8) * 1e-6
    assert (layer.cycles, layer.start_cycle, layer.end_cycle) == (100, 0, 100)
    assert layer.utilization == 6400 / (100 * 128)
    assert layer.bytes == 320
    assert layer.energy_uj == pytest.approx(dynamic_uj + floor_mw(hardware) * 0.2e-3)  # 100 cycles: 0.2 us


def test_host_layers_say_why_and_what_they_cost(result: RunResult) -> None:
    layer = result.layers[-1]
    assert layer.reason == "axis is not the last"
    assert result.energy_uj.host == host_energy_uj(LAYERS[-1].workload, result.hardware)
    assert all(other.reason == "" for other in result.layers[:-1])


def test_a_free_layer_costs_nothing(result: RunResult) -> None:
    layer = result.layers[3]
    assert (layer.unit, layer.cycles, layer.energy_uj) == ("none", 0, 0)
    assert (layer.start_cycle, layer.end_cycle) == (None, None)


def test_lower_bound_and_losses(result: RunResult) -> None:
    assert result.lower_bound == LowerBound({"mac": 5, "vector": 12, "dram": 19, "host": 40})
    assert (result.lower_bound.cycles, result.lower_bound.bound_by) == (40, "host")
    plain = result.to_dict()
    assert (plain["lower_bound_cycles"], plain["lower_bound_limit"]) == (40, "host")
    assert plain["bound_by"] == "mac"  # an ideal machine waits for the host, this one for its MAC array
    for whole in (plain | {"cycles": plain["cycles"]["total"]}, *plain["layers"]):
        assert whole["lower_bound_cycles"] + sum(whole["lost_cycles"].values()) == whole["cycles"]


def test_average_power_is_energy_over_time(result: RunResult) -> None:
    assert result.power_mw.average == pytest.approx(result.energy_uj / result.latency_ms)


def test_peak_power_by_hand() -> None:
    """At 10 MHz 10 us are 100 cycles of the 200. The best are the last 50 and the next run's first 50."""
    hardware, actions = change(BENCH, {"clock_mhz": 10.0}), execution().layer_actions
    numbers = measure(program(hardware=hardware), execution())
    host_pj = host_energy_uj(LAYERS[-1].workload, hardware) * 1e6
    store_pj = dynamic_pj({"dram_write_byte": 32, "instruction_issue": 3}, hardware)
    fetch_pj = dynamic_pj(actions[-1], hardware) / 2
    load_pj = dynamic_pj({"dram_read_byte": 320}, hardware)
    convolve_pj = dynamic_pj({"mac_int8": 6400}, hardware) * 10 / 60
    issue_pj = dynamic_pj({"instruction_issue": 2}, hardware) * 50 / 100
    peak_pj = host_pj + store_pj + fetch_pj + load_pj + convolve_pj + issue_pj
    assert numbers.power_mw.peak == pytest.approx(peak_pj / 10e-6 * 1e-9 + floor_mw(hardware), rel=1e-6)
    assert numbers.power_mw.peak == numbers.power_mw.peak_10us
    assert numbers.power_mw.peak_1ms == numbers.power_mw.average


def test_a_peak_over_a_window_longer_than_the_run_is_its_average(result: RunResult) -> None:
    assert result.latency_ms < 0.01
    assert result.power_mw.peak_10us == result.power_mw.peak_1ms == result.power_mw.average


def test_energy_of_a_layer_without_instructions_is_not_lost() -> None:
    run = execution(steps=STEPS[:2])
    numbers = measure(program(steps=STEPS[:2]), run)
    assert numbers.power_mw.peak >= numbers.power_mw.average


def test_a_run_of_nothing() -> None:
    numbers = measure(program(steps=()), execution(steps=()))
    assert (numbers.cycles, numbers.mac_utilization, numbers.inferences_per_s) == (0, 0.0, 0.0)
    assert (numbers.lower_bound.cycles, numbers.lower_bound.bound_by) == (0, "none")
    json.dumps(numbers.to_dict(), allow_nan=False)


def test_outputs_are_a_list_and_empty_without_data(result: RunResult) -> None:
    assert [array.tolist() for array in result.outputs] == [[list(range(10))]]
    assert measure(program(), execution(None)).outputs == []


def test_numbers_keep_their_parts_when_copied(result: RunResult) -> None:
    cycles = pickle.loads(pickle.dumps(result.cycles))
    assert (cycles, cycles.stall) == (200, 80)
    assert copy.deepcopy(result.energy_uj).host == result.energy_uj.host


def test_pandas_table(result: RunResult) -> None:
    table = result.to_pandas()
    assert table["cycles"].tolist() == [100, 20, 20, 0, 60]
    assert str(table["start_cycle"].dtype) == "Int64"
    assert table["lost_moves"].tolist() == [0, 0, 15, 0, 0]


def test_a_result_with_layers_can_be_sent_to_another_process(result: RunResult) -> None:
    assert result.layers
    assert pickle.loads(pickle.dumps(result)).layers == result.layers


def test_measuring_two_thousand_instructions_is_cheap() -> None:
    count = 2000
    rng = np.random.default_rng(0)
    steps = [
        STEPS[0]._replace(unit=unit, layer=int(layer), started=10 * i, ended=10 * i + 8)
        for i, (unit, layer) in enumerate(
            zip(rng.choice([Unit.DMA0, Unit.MAC, Unit.VECTOR], count), rng.integers(0, 3, count), strict=True)
        )
    ]
    steps = [step._replace(unit=Unit(step.unit)) for step in steps]
    machine, run = program(steps=steps), execution(steps=steps)
    measure(machine, run)
    limit = 4  # 0.5 measured
    assert cost(lambda: measure(machine, run), limit) < limit


def test_busy_cycles_are_those_of_the_timeline(result: RunResult) -> None:
    assert vars(result.cycles)["dma"] == timeline.busy_cycles(execution().trace, 200).units["dma"]
