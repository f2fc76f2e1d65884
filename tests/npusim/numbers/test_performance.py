"""PerformanceInfo and the capability table."""

from __future__ import annotations

import json

import pytest

from npusim.frontends.nn_hal.enumerations import OperandType
from npusim.isa.base.elements import Workload
from npusim.isa.base.errors import NpusimError
from npusim.isa.hardware.cpu import cpu_busy_energy_uj, cpu_core, cpu_energy_uj, cpu_time_us
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.numbers.energy import dram_background_mw
from npusim.numbers.performance import (
    CONTROL_FLOW,
    HAL_VERSIONS,
    OPERAND_TYPES,
    RELAXED,
    Capabilities,
    HalVersion,
    PerformanceInfo,
    Reference,
    ReferenceRun,
    capabilities,
    geometric_mean,
    performance_info,
)

PHONE = hardware("mobile-1024")
NETWORK = [
    Workload(
        "gemm", macs=500_000_000, inner_k=512, weight_bytes=4_000_000, input_bytes=50_000, output_bytes=50_000
    ),
    Workload(
        "depthwise",
        macs=10_000_000,
        inner_k=9,
        weight_bytes=10_000,
        input_bytes=500_000,
        output_bytes=500_000,
    ),
    Workload("free", input_bytes=1000, output_bytes=1000),
    Workload("elementwise", elements=1000, input_bytes=1000, output_bytes=1000),
]


TIMES_US = {"mobilenet_v1": 800.0, "mobilenet_v2": 200.0}
SLOWER = {"int8": 1.0, "float32": 4.0, "float16": 2.0}
LOOK = Workload("elementwise", elements=1, input_bytes=1)


def reference_run(reference: Reference) -> ReferenceRun:
    """Stand-ins for the simulated workloads: v1 takes four times as long as v2, reals longer than codes."""
    time_us = TIMES_US.get(reference.name, 50.0) * SLOWER.get(reference.dtype, 1.0)
    return ReferenceRun(time_us, 1000.0, NETWORK)


def table(chip: Hardware = PHONE) -> Capabilities:
    return capabilities(reference_run, ReferenceRun(26.0, 30.0, [LOOK]), chip)


def test_ratios_by_hand() -> None:
    host, standby_mw = PHONE.host, dram_background_mw(PHONE)
    cpu_us = sum(cpu_time_us(work, host) for work in NETWORK)
    cpu_uj = sum(cpu_energy_uj(work, host) for work in NETWORK) + standby_mw * cpu_us * 1e-3
    call_uj = cpu_busy_energy_uj(200, host) + standby_mw * 200e-3
    assert performance_info(1000.0, 900.0, NETWORK, PHONE) == PerformanceInfo(
        pytest.approx((1000 + 200) / cpu_us), pytest.approx((900 + call_uj) / cpu_uj)
    )


def test_the_call_makes_small_networks_a_loss() -> None:
    """Pixel 3 through NNAPI: MobileNetV1 0.25 128 takes 2.5 times as long as on the CPU."""
    small = [Workload("gemm", macs=1_000_000, inner_k=64, weight_bytes=10_000)]
    assert performance_info(1.0, 1.0, small, PHONE).execTime > 1
    free_call = change(PHONE, {"host.call_overhead_us": 0.0})
    assert performance_info(1.0, 1.0, small, free_call).execTime < 1


@pytest.mark.parametrize("workloads", [[], [Workload("free")]])
def test_a_network_without_work_is_measured_against_one_operator(workloads: list[Workload]) -> None:
    ratio = performance_info(0.0, 0.0, workloads, PHONE)
    assert ratio.execTime == pytest.approx(200 / cpu_core("cortex-a76").operator_us)
    assert ratio.powerUsage > 1


def test_geometric_mean() -> None:
    ratios = [PerformanceInfo(0.5, 0.01), PerformanceInfo(2.0, 0.04)]
    assert geometric_mean(ratios) == PerformanceInfo(pytest.approx(1.0), pytest.approx(0.02))
    with pytest.raises(NpusimError, match="at least one workload"):
        geometric_mean([])


def test_a_network_without_room_is_left_out_and_a_type_without_any_is_not_offered() -> None:
    def run(reference: Reference) -> ReferenceRun | None:
        fits = (reference.dtype == "int8" and reference.name != "mobilenet_v1") or reference.name == "ds_cnn"
        return reference_run(reference) if fits and reference.dtype != "float16" else None

    made = capabilities(run, ReferenceRun(26.0, 30.0, [LOOK]), PHONE)
    quantized8, float32, float16 = (made.cells[name] for name in ("quantized8", "float32", "float16"))
    assert quantized8.provenance.startswith("execTime/powerUsage mobilenet_v2 ")
    assert quantized8.provenance.endswith("call 200 us; no room for mobilenet_v1")
    assert float32.provenance.startswith("execTime/powerUsage ds_cnn of float32 ")
    assert float16.performance is None
    assert (
        float16.provenance == "not offered; no room for mobilenet_v1 of float16 and mobilenet_v2 of float16"
    )
    listed = {row["name"] for row in made.hal("1.3")["operandPerformance"]}
    assert "TENSOR_FLOAT32" in listed
    assert "TENSOR_FLOAT16" not in listed


@pytest.mark.parametrize(
    ("name", "dtype"), [("quantized8", "int8"), ("float32", "float32"), ("float16", "float16")]
)
def test_a_cell_of_networks_is_the_geometric_mean_over_them(name: str, dtype: str) -> None:
    slower = SLOWER[dtype]
    each = [performance_info(time_us * slower, 1000.0, NETWORK, PHONE) for time_us in (800.0, 200.0)]
    cell = table().cells[name]
    kind = "" if dtype == "int8" else f" of {dtype}"
    assert cell.performance == geometric_mean(each)
    assert cell.provenance == (
        "geometric mean of execTime/powerUsage "
        f"mobilenet_v1{kind} {each[0].execTime:.4g}/{each[0].powerUsage:.4g}, "
        f"mobilenet_v2{kind} {each[1].execTime:.4g}/{each[1].powerUsage:.4g}; "
        "simulated, against 4 x cortex-a76 at 2525 MHz, call 200 us"
    )


def test_other_types_are_measured_on_an_operator() -> None:
    cell = table().cells["int32"]
    assert cell.performance == performance_info(50.0, 1000.0, NETWORK, PHONE)
    assert cell.provenance.startswith("execTime/powerUsage add of int32 ")


def test_every_operand_type_has_a_cell() -> None:
    """All that the HAL has but references to graphs and types of vendors."""
    listed = {row["name"] for row in table().hal("1.3")["operandPerformance"]}
    others = {"SUBGRAPH", "OEM", "TENSOR_OEM_BYTE"}
    assert listed == {kind.name for kind in OperandType} - others
    assert (
        table().operand(OPERAND_TYPES[OperandType.UINT32]).performance == table().cells["int32"].performance
    )


def test_relaxed_computation_takes_the_faster_type() -> None:
    cells = table().cells
    assert cells[RELAXED].performance == cells["float16"].performance
    assert cells[RELAXED].provenance.startswith("computed in float16, the faster of both: ")


def test_control_flow_is_a_decision_against_a_look() -> None:
    look_us = cpu_time_us(LOOK, PHONE.host)
    cell = table().cells[CONTROL_FLOW]
    assert cell.performance is not None
    assert cell.performance.execTime == pytest.approx(26.0 / look_us)
    assert "the runtime adds the bodies" in cell.provenance


STRUCTS: dict[HalVersion, set[str]] = {
    "1.0": {"float32Performance", "quantized8Performance"},
    "1.1": {"float32Performance", "quantized8Performance", "relaxedFloat32toFloat16Performance"},
    "1.2": {
        "relaxedFloat32toFloat16PerformanceScalar",
        "relaxedFloat32toFloat16PerformanceTensor",
        "operandPerformance",
    },
    "1.3": {
        "relaxedFloat32toFloat16PerformanceScalar",
        "relaxedFloat32toFloat16PerformanceTensor",
        "operandPerformance",
        "ifPerformance",
        "whilePerformance",
    },
}


@pytest.mark.parametrize("version", HAL_VERSIONS)
def test_structs_have_the_fields_of_their_hal_version(version: HalVersion) -> None:
    struct = table().hal(version)
    assert set(struct) == STRUCTS[version]
    for name, value in struct.items():
        for info in [row["info"] for row in value] if name == "operandPerformance" else [value]:
            assert set(info) == {"execTime", "powerUsage"}
            assert info["execTime"] > 0, "the runtime refuses values that are not above 0"
            assert info["powerUsage"] > 0


@pytest.mark.parametrize(
    ("version", "codes"),
    [("1.2", [*range(14)]), ("1.3", [*range(15)])],
)
def test_operand_types_are_sorted_and_of_their_version(version: HalVersion, codes: list[int]) -> None:
    assert [row["type"] for row in table().hal(version)["operandPerformance"]] == codes


def test_type_codes_are_those_of_the_hal() -> None:
    assert [row.code for row in OPERAND_TYPES] == list(range(15)), "SUBGRAPH (15) must not be listed"


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(NpusimError, match=r"^HAL version '2\.0' is not one of 1\.0, 1\.1, 1\.2, 1\.3$"):
        table().hal("2.0")  # type: ignore[arg-type]


def test_the_table_is_plain_values_with_a_provenance_everywhere() -> None:
    plain = table().to_dict()
    assert json.loads(json.dumps(plain)) == plain
    rows = [*plain["cells"].values(), *plain["operandTypes"]]
    assert all(row["provenance"] for row in rows)
    assert set(plain["hal"]) == set(HAL_VERSIONS)
    not_offered = {row["name"] for row in plain["operandTypes"] if row["execTime"] is None}
    assert not_offered == {row.name for row in OPERAND_TYPES if not row.cell}


def test_values_are_the_same_at_every_query() -> None:
    assert table() == table()
