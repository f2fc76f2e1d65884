"""PerformanceInfo and the capability table of the NN HAL: the driver against the CPU, every cell computed.

Both ratios are for the same workload and data type, weights resident, one inference, smaller is better:

    execTime   = (NPU time + driver call) / CPU time
    powerUsage = (NPU energy + CPU energy of the call) / CPU energy

DRAM standby and refresh are paid for as long as either side runs, by either side. The driver guide of
Android names MobileNet v1 and v2 as reference workloads; cells are geometric means over them. The NPU
has no float32: such a network runs on the CPU behind a driver call, a ratio above 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import exp, fsum, log
from typing import Any, Literal, get_args

from npusim.isa.base.errors import NpusimError
from npusim.isa.base.workload import Workload
from npusim.isa.hardware.cpu import cpu_busy_energy_uj, cpu_core, cpu_energy_uj, cpu_time_us
from npusim.isa.hardware.hardware import Hardware
from npusim.numbers.energy import dram_background_mw

REFERENCE_MODELS = ("mobilenet_v1", "mobilenet_v2")

HalVersion = Literal["1.0", "1.1", "1.2", "1.3"]
HAL_VERSIONS: tuple[HalVersion, ...] = get_args(HalVersion)


@dataclass(frozen=True, slots=True)
class PerformanceInfo:
    """The struct of that name in the NN HAL, with its field names: driver / CPU, smaller is better."""

    execTime: float
    powerUsage: float


@dataclass(frozen=True, slots=True)
class ReferenceRun:
    """One simulated inference without its driver call, and the work of its operators."""

    npu_time_us: float
    npu_energy_uj: float
    workloads: Sequence[Workload]


@dataclass(frozen=True, slots=True)
class OperandType:
    """One tensor or scalar type of the HAL, how npusim computes it, and the version that brought it."""

    code: int
    name: str
    since: HalVersion
    computed: Literal["quantized8", "float32", "not"]


OPERAND_TYPES: tuple[OperandType, ...] = (
    OperandType(0, "FLOAT32", "1.0", "float32"),
    OperandType(1, "INT32", "1.0", "not"),
    OperandType(2, "UINT32", "1.0", "not"),
    OperandType(3, "TENSOR_FLOAT32", "1.0", "float32"),
    OperandType(4, "TENSOR_INT32", "1.0", "not"),
    OperandType(5, "TENSOR_QUANT8_ASYMM", "1.0", "quantized8"),
    OperandType(6, "BOOL", "1.2", "not"),
    OperandType(7, "TENSOR_QUANT16_SYMM", "1.2", "not"),
    OperandType(8, "TENSOR_FLOAT16", "1.2", "not"),
    OperandType(9, "TENSOR_BOOL8", "1.2", "not"),
    OperandType(10, "FLOAT16", "1.2", "not"),
    OperandType(11, "TENSOR_QUANT8_SYMM_PER_CHANNEL", "1.2", "not"),
    OperandType(12, "TENSOR_QUANT16_ASYMM", "1.2", "not"),
    OperandType(13, "TENSOR_QUANT8_SYMM", "1.2", "not"),
    OperandType(14, "TENSOR_QUANT8_ASYMM_SIGNED", "1.3", "quantized8"),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One entry of the table: the value, or None for a type that is not offered, and where it came from."""

    performance: PerformanceInfo | None
    provenance: str


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The table of one driver.

    A type that is not offered is left out of `operandPerformance`; the runtime counts it as FLT_MAX.
    """

    hardware: str
    quantized8: Cell
    float32: Cell
    relaxed: Cell
    control_flow: Cell

    def operand(self, operand_type: OperandType) -> Cell:
        """The cell of a type as the first input of an operation, which is how the runtime looks it up."""
        if operand_type.computed == "quantized8":
            return self.quantized8
        if operand_type.computed == "float32":
            return self.float32
        return Cell(None, "not offered: the runtime counts a type that is not listed as FLT_MAX")

    def hal(self, version: HalVersion) -> dict[str, Any]:
        """The Capabilities struct of a HAL version as plain values."""
        if version not in HAL_VERSIONS:
            raise NpusimError(f"HAL version {version!r} is not one of {', '.join(HAL_VERSIONS)}")
        float32, quantized8 = _plain(self.float32), _plain(self.quantized8)
        relaxed, control_flow = _plain(self.relaxed), _plain(self.control_flow)
        if version in ("1.0", "1.1"):
            struct = {"float32Performance": float32, "quantized8Performance": quantized8}
            return struct if version == "1.0" else struct | {"relaxedFloat32toFloat16Performance": relaxed}
        listed = [
            {"type": row.code, "name": row.name, "info": _plain(self.operand(row))}
            for row in OPERAND_TYPES  # in order of the code, as the HAL demands
            if row.since <= version and row.computed != "not"
        ]
        by_type: dict[str, Any] = {
            "relaxedFloat32toFloat16PerformanceScalar": relaxed,
            "relaxedFloat32toFloat16PerformanceTensor": relaxed,
            "operandPerformance": listed,
        }
        if version == "1.2":
            return by_type
        return by_type | {"ifPerformance": control_flow, "whilePerformance": control_flow}

    def to_dict(self) -> dict[str, Any]:
        """Every cell with its provenance, and the struct of every HAL version."""
        cells = {
            "quantized8": self.quantized8,
            "float32": self.float32,
            "relaxedFloat32toFloat16": self.relaxed,
            "controlFlow": self.control_flow,
        }
        return {
            "hardware": self.hardware,
            "cells": {name: {**_plain(cell), "provenance": cell.provenance} for name, cell in cells.items()},
            "operandTypes": [
                {"type": row.code, "name": row.name, "since": row.since}
                | _plain(self.operand(row))
                | {"provenance": self.operand(row).provenance}
                for row in OPERAND_TYPES
            ],
            "hal": {version: self.hal(version) for version in HAL_VERSIONS},
        }


def performance_info(
    npu_time_us: float, npu_energy_uj: float, workloads: Iterable[Workload], hardware: Hardware
) -> PerformanceInfo:
    """Ratios of one inference to the hardware's host CPU, the driver call included on the NPU's side.

    `npu_energy_uj` is the run's total, DRAM standby and host operators included. A network that asks
    nothing of the CPU is charged the overhead of one operator there.
    """
    cpu_us, cpu_uj = _on_cpu(workloads, hardware)
    call_us, call_uj = _driver_call(hardware)
    return PerformanceInfo((npu_time_us + call_us) / cpu_us, (npu_energy_uj + call_uj) / cpu_uj)


def geometric_mean(ratios: Sequence[PerformanceInfo]) -> PerformanceInfo:
    """Geometric mean of each ratio: halving one workload's time counts the same for fast and slow ones."""
    if not ratios:
        raise NpusimError("a geometric mean needs at least one workload")
    times = fsum(log(ratio.execTime) for ratio in ratios)
    energies = fsum(log(ratio.powerUsage) for ratio in ratios)
    return PerformanceInfo(exp(times / len(ratios)), exp(energies / len(ratios)))


def capabilities(
    run: Callable[[str], ReferenceRun], hardware: Hardware, models: Sequence[str] = REFERENCE_MODELS
) -> Capabilities:
    """The capability table; `run` simulates a reference model, by name, on this hardware."""
    runs = {model: run(model) for model in models}
    quantized = {
        model: performance_info(done.npu_time_us, done.npu_energy_uj, done.workloads, hardware)
        for model, done in runs.items()
    }
    floats = {model: _float_performance(done.workloads, hardware) for model, done in runs.items()}
    cpu = _cpu_words(hardware)
    on_cpu = f"the NPU has no float32: run on the CPU behind a driver call; {cpu}"
    return Capabilities(
        hardware=hardware.name,
        quantized8=_mean_cell(quantized, f"simulated, quantised, against {cpu}"),
        float32=_mean_cell(floats, on_cpu),
        relaxed=_mean_cell(floats, f"relaxed float32 is computed in full precision; {on_cpu}"),
        control_flow=_control_flow(hardware),
    )


def as_float32(workload: Workload) -> Workload:
    """The same operator of the float32 version of a quantised network: four bytes for every byte."""
    return replace(
        workload,
        dtype="float32",
        weight_bytes=4 * workload.weight_bytes,
        input_bytes=4 * workload.input_bytes,
        output_bytes=4 * workload.output_bytes,
    )


def _on_cpu(workloads: Iterable[Workload], hardware: Hardware) -> tuple[float, float]:
    """Time in us and energy in uJ of a network on the host CPU."""
    work = list(workloads)
    host = hardware.host
    least_us = cpu_core(host.core).operator_us
    time_us = fsum(cpu_time_us(operator, host) for operator in work)
    energy_uj = fsum(cpu_energy_uj(operator, host) for operator in work)
    if time_us < least_us:
        time_us, energy_uj = least_us, cpu_busy_energy_uj(least_us, host)
    return time_us, energy_uj + _dram_standby_uj(time_us, hardware)


def _driver_call(hardware: Hardware) -> tuple[float, float]:
    """Time in us and energy in uJ of one call of the driver, one core busy."""
    time_us = hardware.host.call_overhead_us
    return time_us, cpu_busy_energy_uj(time_us, hardware.host) + _dram_standby_uj(time_us, hardware)


def _dram_standby_uj(time_us: float, hardware: Hardware) -> float:
    return dram_background_mw(hardware) * time_us * 1e-3


def _float_performance(workloads: Iterable[Workload], hardware: Hardware) -> PerformanceInfo:
    """The float32 version of a network, on the CPU, but called through the driver."""
    work = [as_float32(operator) for operator in workloads]
    cpu_us, cpu_uj = _on_cpu(work, hardware)
    return performance_info(cpu_us, cpu_uj, work, hardware)


def _control_flow(hardware: Hardware) -> Cell:
    """IF and WHILE beside their bodies: the host looks at the condition, and hands back to the NPU."""
    look_us = cpu_core(hardware.host.core).operator_us
    ratio = (look_us + hardware.host.handover_us) / look_us
    words = f"one host operator ({look_us:g} us) and one handover ({hardware.host.handover_us:g} us)"
    return Cell(
        PerformanceInfo(ratio, ratio), f"{words} against the operator alone; bodies are added by the runtime"
    )


def _mean_cell(ratios: Mapping[str, PerformanceInfo], how: str) -> Cell:
    each = ", ".join(
        f"{model} {ratio.execTime:.4g}/{ratio.powerUsage:.4g}" for model, ratio in ratios.items()
    )
    return Cell(geometric_mean(list(ratios.values())), f"geometric mean of execTime/powerUsage {each}; {how}")


def _cpu_words(hardware: Hardware) -> str:
    host = hardware.host
    clock_mhz = host.clock_mhz or cpu_core(host.core).clock_mhz
    return f"{host.threads} x {host.core} at {clock_mhz:g} MHz, call {host.call_overhead_us:g} us"


def _plain(cell: Cell) -> dict[str, Any]:
    return asdict(cell.performance) if cell.performance else dict.fromkeys(("execTime", "powerUsage"))
