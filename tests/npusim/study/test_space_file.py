"""Space files: what a space is, and what a wrong file is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from npusim.isa.base.errors import NpusimError
from npusim.study.space import InfeasibleError, Space
from npusim.study.space_file import SpaceError, SpaceFile, from_values, read_space

from .spaces import space_file

WHOLE = """
extends = "edge-64"
objectives = ["latency", { key = "inferences_per_s", goal = "min" }, "mac_utilization", "area"]
constraints = ["mac_array.rows >= mac_array.columns"]
keep = ["cycles.stall"]

[hardware]
name = "my-chip"
mac_array.columns = 16

[parameters]
mac_array.rows = [8, 16, 32]
"scratchpad.size_kib" = { from = 64, to = 256, factor = 2 }
clock_mhz = { from = 0.1, to = 0.5, step = 0.1 }
dram.bandwidth_gb_per_s = { from = 1, to = 8, count = 4, log = true }

[derived]
mac_array.ifm_bytes_per_cycle = "mac_array.rows"
mac_array.weight_bytes_per_cycle = "mac_array.ifm_bytes_per_cycle / 2"

[limits]
area = ["<= 4", "> 0.5"]
power_mw.peak = "<= 100"

[models]
ds_cnn = 0.7
"dir/model.tflite" = 2
"""


@pytest.fixture
def whole(tmp_path: Path) -> Space:
    file = tmp_path / "space.toml"
    file.write_text(WHOLE)
    return read_space(file).space


def test_a_whole_file(whole: Space) -> None:
    assert whole.base.name == "my-chip"
    assert [(axis.path, axis.values) for axis in whole.axes] == [
        ("mac_array.rows", (8, 16, 32)),
        ("scratchpad.size_kib", (64, 128, 256)),
        ("clock_mhz", (0.1, 0.2, 0.3, 0.4, 0.5)),
        ("dram.bandwidth_gb_per_s", (1.0, 2.0, 4.0, 8.0)),
    ]
    assert [(each.key, each.goal) for each in whole.objectives] == [
        ("latency_ms", "min"),
        ("inferences_per_s", "min"),
        ("mac_utilization", "max"),
        ("area_mm2.total", "min"),
    ]
    assert [str(limit) for limit in whole.limits] == [
        "area_mm2.total <= 4",
        "area_mm2.total > 0.5",
        "power_mw.peak <= 100",
    ]
    assert whole.size == 180
    assert whole.keys == (
        "latency_ms", "inferences_per_s", "mac_utilization", "area_mm2.total", "power_mw.peak", "cycles.stall"
    )  # fmt: skip


def test_numbers_count_the_last_parameter_fastest(whole: Space) -> None:
    assert whole.point(0)["dram.bandwidth_gb_per_s"] == 1.0
    assert whole.point(1) == whole.point(0) | {"dram.bandwidth_gb_per_s": 2.0}
    assert whole.point(179)["mac_array.rows"] == 32
    assert all(whole.number(indices(whole, number)) == number for number in range(whole.size))


def indices(space: Space, number: int) -> list[int]:
    point = space.point(number)
    return [axis.values.index(point[axis.path]) for axis in space.axes]


def test_constraints_exclude_and_derived_parameters_follow(whole: Space) -> None:
    assert {whole.point(number)["mac_array.rows"] for number in whole.numbers()} == {16, 32}
    hardware = whole.hardware(whole.setting(179))
    assert (hardware.mac_array.ifm_bytes_per_cycle, hardware.mac_array.weight_bytes_per_cycle) == (32, 16)


def test_plain_values_give_the_space_back(whole: Space) -> None:
    again = Space.from_plain(whole.to_plain())
    assert again.to_plain() == whole.to_plain()
    assert again.setting(77) == whole.setting(77)


def test_a_point_that_no_hardware_can_be_says_why() -> None:
    space = space_file(
        {"mac_array.rows": [16, 512]}, derived={"dram.burst_bytes": "mac_array.rows * 3"}
    ).space
    with pytest.raises(
        InfeasibleError, match=r"dram.burst_bytes: 48 is not a power of two, such as 32 or 64"
    ):
        space.hardware(space.setting(0))
    space = space_file({"mac_array.rows": [16]}, derived={"vector.lanes": "mac_array.rows / 3"}).space
    with pytest.raises(InfeasibleError, match=r"derived vector.lanes: 5.33\d+ is not a whole number from 1"):
        space.setting(0)


def test_overrides_replace_keys(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text(WHOLE + '[sampler]\nkind = "tpe"\nseed = 7\n')
    read = read_space(file, {"sampler": {"points": 9}, "objectives": ["energy"]})
    assert (read.sampling.kind, read.sampling.seed, read.sampling.points) == ("tpe", 7, 9)
    assert [each.key for each in read.space.objectives] == ["energy_uj.total"]
    assert read.models == {"ds_cnn": 0.7, "dir/model.tflite": 2.0}


VARIES = {"parameters": {"clock_mhz": [1, 2]}}
CLOCK = "clock_mhz"


@pytest.mark.parametrize(
    ("tables", "faults"),
    [
        ({}, ["parameters: is missing"]),
        ({"parameters": {}}, ["parameters: is empty: nothing varies"]),
        (VARIES | {"extend": "edge-32"}, ["extend: unknown key, did you mean extends?"]),
        (VARIES | {"extends": 3}, ["extends: 3: must be a valid string"]),
        (
            VARIES | {"extends": "edge-1"},
            ['space.toml: extends: no hardware is named "edge-1", did you mean edge-128?'],
        ),
        (VARIES | {"hardware": {"clock": 3}}, ["clock: unknown key, did you mean clock_mhz?"]),
        (
            {"parameters": {"mac_array": {"row": [1]}}},
            ["parameters.mac_array.row: unknown key, did you mean rows?"],
        ),
        ({"parameters": {"rows": [1]}}, ["parameters.rows: unknown key, did you mean mac_array.rows?"]),
        ({"parameters": {"mac_array": [1]}}, ["parameters.mac_array: unknown key"]),
        ({"parameters": {"name": ["a", "b"]}}, ["parameters.name: changes nothing that is simulated"]),
        (
            {"parameters": {"lacks_operators": [["softmax"]]}},
            ["parameters.lacks_operators: a study does not vary it; give a space for each machine"],
        ),
        ({"parameters": {CLOCK: 3}}, ["parameters.clock_mhz: 3 is neither a list of values nor a range"]),
        ({"parameters": {CLOCK: []}}, ["parameters.clock_mhz: has no values"]),
        ({"parameters": {CLOCK: [1, -1]}}, ["parameters.clock_mhz: -1 is not a number from 0.001 to 10000"]),
        ({"parameters": {CLOCK: [1, "fast"]}}, ['parameters.clock_mhz: "fast" is not a number']),
        ({"parameters": {CLOCK: [1, 1.0]}}, ["parameters.clock_mhz: lists 1.0 twice"]),
        ({"parameters": {"vector.lanes": [1.5]}}, ["parameters.vector.lanes: 1.5 is not a whole number"]),
        (
            {"parameters": {CLOCK: {"from": 1, "too": 4, "step": 1}}},
            ["parameters.clock_mhz: to is missing from the range"],
        ),
        ({"parameters": {CLOCK: {"from": 1, "to": 4, "stp": 1}}}, ["stp: unknown key, did you mean step?"]),
        (
            {"parameters": {CLOCK: {"from": 1, "to": 4}}},
            ["needs exactly one of step, factor and count, has none"],
        ),
        (
            {"parameters": {CLOCK: {"from": 1, "to": 4, "step": 1, "count": 3}}},
            ["needs exactly one of step, factor and count, has step and count"],
        ),
        ({"parameters": {CLOCK: {"from": 4, "to": 1, "step": 1}}}, ["to (1) is below from (4)"]),
        ({"parameters": {CLOCK: {"from": 0, "to": 1, "factor": 2}}}, ["ratios need a from above 0, not 0"]),
        ({"parameters": {CLOCK: {"from": 1, "to": 1e9, "step": 1e-3}}}, ["more than 10000 values"]),
        (
            {"parameters": {CLOCK: {"from": 1, "to": 2, "step": 0}}},
            ["step: 0: input should be greater than 0"],
        ),
        (VARIES | {"constraints": ["clock > 2"]}, ["constraints[0]: clock: no parameter has this name"]),
        (VARIES | {"constraints": "1"}, ['constraints: "1": must be a valid list']),
        (
            VARIES | {"derived": {"dma": {"chanels": "1"}}},
            ["derived.dma.chanels: unknown parameter, did you mean"],
        ),
        (VARIES | {"derived": {CLOCK: "3"}}, ["derived.clock_mhz: is also in [parameters]"]),
        (VARIES | {"derived": {"vector.lanes": 3}}, ["derived.vector.lanes: 3 is not an expression"]),
        (VARIES | {"derived": {"vector.lanes": "clock * 2"}}, ["derived.vector.lanes: clock: no parameter"]),
        (VARIES | {"objectives": []}, ["objectives: []: list should have at least 1 item"]),
        (
            VARIES | {"objectives": ["latncy"]},
            ['objectives[0]: "latncy": no such key, did you mean latency?'],
        ),
        (
            VARIES | {"objectives": ["energy_uj.totl"]},
            ["energy_uj has no totl, did you mean energy_uj.total?"],
        ),
        (VARIES | {"objectives": ["latency_ms.x"]}, ["below latency_ms there is nothing"]),
        (
            VARIES | {"objectives": ["cycles", "cycles.total"]},
            ['objectives[1]: "cycles.total" is listed twice'],
        ),
        (
            VARIES | {"objectives": ["latncy", "enrgy"]},
            ['objectives[0]: "latncy": no such key', 'objectives[1]: "enrgy": no such key'],
        ),
        (
            VARIES | {"objectives": [{"key": "area", "goal": "low"}]},
            ["objectives[0]: ", "is neither a key nor"],
        ),
        (VARIES | {"limits": {"area": "4"}}, ['limits.area: "4" is not a limit, such as "<= 4"']),
        (VARIES | {"limits": {"arae": "<= 4"}}, ["limits.arae: ", "did you mean area?"]),
        (VARIES | {"sampler": {"kind": "nsga3"}}, ["sampler.kind: \"nsga3\": must be 'grid', 'random'"]),
        (VARIES | {"sampler": {"point": 3}}, ["sampler.point: unknown key, did you mean points?"]),
        (VARIES | {"sampler": {"points": 0}}, ["sampler.points: 0: must be greater than or equal to 1"]),
        (VARIES | {"programs": "same"}, ["programs: \"same\": must be 'own' or 'shared'"]),
        (VARIES | {"effort": "hgh"}, ["effort: 'hgh': may be fast, high"]),
        (
            VARIES | {"models": {"ds_cnn": 0}},
            ["models.ds_cnn: 0: must be greater than or equal to 0.000000001"],
        ),
    ],
)
def test_faults(tables: dict[str, Any], faults: list[str]) -> None:
    values = {"parameters": None, **tables} if "parameters" in tables else tables
    with pytest.raises(NpusimError) as caught:
        read_values(values)
    message = str(caught.value)
    assert "\n" not in message
    for fault in faults:
        assert fault in message


def read_values(values: dict[str, Any]) -> SpaceFile:
    return from_values(values, Path("space.toml"))


def test_all_faults_at_once() -> None:
    with pytest.raises(SpaceError) as caught:
        space_file({"vector.lanes": [0], "clock": [1]}, limits={"area": 3}, keep=["x"])
    assert str(caught.value).startswith("space.toml: 4 faults: keep[0]: ")


def test_a_grid_that_nobody_waits_for_is_refused() -> None:
    wide = {
        path: {"from": 1, "to": 1000, "step": 1}
        for path in ("clock_mhz", "host.clock_mhz", "dram.latency_ns")
    }
    with pytest.raises(
        SpaceError, match="the grid has 1000000000 points, more than 1000000; choose another sampler"
    ):
        space_file(wide)
    assert space_file(wide, sampler={"kind": "random"}).space.size == 10**9


def test_a_file_that_is_not_toml(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text("parameters = [")
    with pytest.raises(SpaceError, match=r"space.toml: .*not valid TOML"):
        read_space(file)
    with pytest.raises(SpaceError, match=r"none.toml: no such file"):
        read_space(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("tables", "fault"),
    [
        ({"constraints": ["round(mac_array.rows, -10**9) == 0"]}, "constraints[0]: round(mac_array.rows, -10**9) == 0"),
        ({"constraints": ["1 < 2", "1 / (mac_array.rows - mac_array.rows) > 0"]}, "constraints[1]: 1 / (mac_arr"),
        ({"models": {"digits_cnn": 1e308}}, "models.digits_cnn: 1e+308: must be less than or equal to 1000000000"),
        ({"limits": {"area": "<= nan"}}, 'limits.area: "<= nan" is not a limit'),
        ({"limits": {"area": "<= inf"}}, 'limits.area: "<= inf" is not a limit'),
        ({"parameters": {"mac_array.rows": {"from": 1, "to": 10**400, "step": 1}}}, "parameters.mac_array.rows: to:"),
        ({"parameters": {"clock_mhz": {"from": 1e-300, "to": 1e300, "count": 5, "log": True}}}, "clock_mhz: to:"),
    ],
)  # fmt: skip
def test_numbers_without_end_are_refused(tables: dict[str, Any], fault: str) -> None:
    with pytest.raises(SpaceError) as caught:
        read_values(VARIES | tables)
    assert fault in str(caught.value)


def test_a_constraint_may_have_no_value_at_one_end() -> None:
    tables = {"parameters": {"mac_array.rows": [8, 16]}, "constraints": ["1 / (mac_array.rows - 8) > 0"]}
    space = read_values(tables).space
    assert list(space.numbers()) == [0, 1]  # the point without a value is computed to say why it has none
    with pytest.raises(
        InfeasibleError, match=r"^constraint 1 / \(mac_array.rows - 8\) > 0: division by zero$"
    ):
        space.satisfied(space.setting(0))


def test_a_parameter_that_no_machine_of_the_space_reads_is_refused() -> None:
    with pytest.raises(SpaceError) as caught:
        space_file({"mac_array.rows": [16, 32]}, extends="ethos-u55-128")
    assert str(caught.value) == (
        "space.toml: 1 fault: parameters.mac_array.rows: a block engine does not read it; its size is "
        "mac_array.block.micro_height, micro_width and micro_channels"
    )
    # One that some machines of the space read is fine, be it by their engine type or by another parameter.
    parameters = {
        "mac_array.kind": ["systolic", "block"],
        "mac_array.rows": [16, 32],
        "mac_array.block.micro_height": [1, 2],
        "vector.float32_lanes": [0, 4],
        "vector.float_cycles": [1, 2],
    }
    assert space_file(parameters).space.size == 32
    with pytest.raises(
        SpaceError, match=r"1 fault: parameters\.mac_array\.stream\.units: a systolic engine does not"
    ):
        space_file({**parameters, "mac_array.stream.units": [1, 2]})
    with pytest.raises(
        SpaceError, match=r"1 fault: derived\.vector\.float_cycles: nothing reads it without "
    ):
        space_file({"mac_array.rows": [16, 32]}, derived={"vector.float_cycles": "mac_array.rows"})
