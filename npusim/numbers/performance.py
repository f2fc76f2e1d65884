"""PerformanceInfo and the capability table of the NN HAL: ratios of the driver to the CPU, every cell simulated.

Both ratios are for one inference of the same workload and data type, with weights resident. Smaller is better:

    execTime   = (NPU time + driver call) / CPU time
    powerUsage = (NPU energy + CPU energy of the call) / CPU energy

Each side pays for DRAM standby and refresh as long as it runs. Android's driver guide names MobileNet v1 and v2 as
reference workloads, quantized to 8 bits and in floating point. A cell is the geometric mean over them, or of a small
network if the memories have room for neither. Types in which no network computes are measured on a single operator.
Operators that the NPU lacks run on the host after the driver call, which gives a ratio above 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from math import exp, fsum, log
from typing import Any, Literal, get_args

from npusim.isa.base.elements import Workload
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.agreement import Standing, standing
from npusim.isa.hardware.cpu import cpu_busy_energy_uj, cpu_core, cpu_energy_uj, cpu_time_us
from npusim.isa.hardware.hardware import Hardware, Host
from npusim.numbers.energy import dram_background_mw

NETWORKS = ("mobilenet_v1", "mobilenet_v2")
SMALL_NETWORK = "ds_cnn"
"""The network that replaces references whose weights do not fit a chip that keeps weights on chip."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A workload on which a cell is measured: a built-in model or an operator by name, and its element type."""

    name: str
    dtype: str

    def __str__(self) -> str:
        return self.name if self.dtype == "int8" else f"{self.name} of {self.dtype}"


HalVersion = Literal["1.0", "1.1", "1.2", "1.3"]
HAL_VERSIONS: tuple[HalVersion, ...] = get_args(HalVersion)


@dataclass(frozen=True, slots=True)
class PerformanceInfo:
    """The struct of that name in the NN HAL: ratios of the driver to the CPU; smaller is better."""

    execTime: float
    powerUsage: float


@dataclass(frozen=True, slots=True)
class ReferenceRun:
    """One simulated inference without its driver call, and the work of its operators."""

    npu_time_us: float
    npu_energy_uj: float
    workloads: Sequence[Workload]


@dataclass(frozen=True, slots=True)
class CellRow:
    """The definition of a cell: its name in the JSON, its title, and its reference workloads.

    smaller: workloads that replace the references if the memories have room for none of them.
    """

    name: str
    title: str
    references: tuple[Reference, ...]
    smaller: tuple[Reference, ...] = ()


def _networks(name: str, dtype: str) -> CellRow:
    references = tuple(Reference(network, dtype) for network in NETWORKS)
    return CellRow(name, name, references, (Reference(SMALL_NETWORK, dtype),))


def _operator(name: str, dtype: str) -> tuple[Reference, ...]:
    return (Reference(name, dtype),)


CELLS: tuple[CellRow, ...] = (
    _networks("quantized8", "int8"),
    _networks("float32", "float32"),
    _networks("float16", "float16"),
    CellRow("int32", "int32", _operator("add", "int32")),
    CellRow("bool8", "bool8", _operator("logical_and", "bool")),
    CellRow("symmetric8", "symmetric codes of 8 bits", _operator("dequantize", "int8")),
    CellRow("quantized16", "codes of 16 bits", _operator("cast", "uint16")),
)
RELAXED, CONTROL_FLOW = "relaxedFloat32toFloat16", "controlFlow"
"""The names of two special cells: one follows from others, the other one is measured on IF and WHILE."""


@dataclass(frozen=True, slots=True)
class OperandType:
    """A tensor or scalar type of the HAL, its cell, and the HAL version that introduced it.

    The cell is that of operations with the type as first input. If no operation has it there, the cell is empty and the
    type is not listed.
    """

    code: int
    name: str
    since: HalVersion
    cell: str


OPERAND_TYPES: tuple[OperandType, ...] = (
    OperandType(0, "FLOAT32", "1.0", "float32"),
    OperandType(1, "INT32", "1.0", "int32"),
    OperandType(2, "UINT32", "1.0", "int32"),
    OperandType(3, "TENSOR_FLOAT32", "1.0", "float32"),
    OperandType(4, "TENSOR_INT32", "1.0", "int32"),
    OperandType(5, "TENSOR_QUANT8_ASYMM", "1.0", "quantized8"),
    OperandType(6, "BOOL", "1.2", "bool8"),
    OperandType(7, "TENSOR_QUANT16_SYMM", "1.2", "quantized16"),
    OperandType(8, "TENSOR_FLOAT16", "1.2", "float16"),
    OperandType(9, "TENSOR_BOOL8", "1.2", "bool8"),
    OperandType(10, "FLOAT16", "1.2", "float16"),
    OperandType(11, "TENSOR_QUANT8_SYMM_PER_CHANNEL", "1.2", "symmetric8"),
    OperandType(12, "TENSOR_QUANT16_ASYMM", "1.2", "quantized16"),
    OperandType(13, "TENSOR_QUANT8_SYMM", "1.2", "symmetric8"),
    OperandType(14, "TENSOR_QUANT8_ASYMM_SIGNED", "1.3", "quantized8"),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """An entry of the table: its value, or None for a type that is not offered, and its origin."""

    performance: PerformanceInfo | None
    provenance: str


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capability table of a driver: its cells by name, and the known error of its hardware.

    A type that is not offered is left out of `operandPerformance`; the Android runtime counts it as FLT_MAX.
    """

    hardware: str
    cells: Mapping[str, Cell]
    standing: Standing
    host: Host

    def operand(self, operand_type: OperandType) -> Cell:
        """Return the cell of operations whose first input has this type, which is how the runtime looks it up."""
        return self.cells[operand_type.cell]

    def hal(self, version: HalVersion) -> dict[str, Any]:
        """Return the Capabilities struct of a HAL version as plain values."""
        if version not in HAL_VERSIONS:
            raise NpusimError(f"HAL version {version!r} is not one of {', '.join(HAL_VERSIONS)}")
        float32, quantized8 = _plain(self.cells["float32"]), _plain(self.cells["quantized8"])
        relaxed, control_flow = _plain(self.cells[RELAXED]), _plain(self.cells[CONTROL_FLOW])
        if version in ("1.0", "1.1"):
            struct = {"float32Performance": float32, "quantized8Performance": quantized8}
            return struct if version == "1.0" else struct | {"relaxedFloat32toFloat16Performance": relaxed}
        listed = [
            {"type": row.code, "name": row.name, "info": _plain(self.operand(row))}
            for row in OPERAND_TYPES  # in order of the code, as the HAL demands
            if row.since <= version and self.operand(row).performance
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
        """Return every cell with its provenance, and the struct of every HAL version."""
        return {
            "hardware": self.hardware,
            "agreement": self.standing.to_dict(),
            "cells": {
                name: {**_plain(cell), "provenance": cell.provenance} for name, cell in self.cells.items()
            },
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
    """Return the ratios of one inference to the hardware's host CPU, with the driver call on the NPU's side.

    npu_time_us, npu_energy_uj: totals of the run, DRAM standby and host operators included.
    workloads: work of the network's operators for the CPU. A network without work counts as one operator's overhead.
    """
    cpu_us, cpu_uj = _on_cpu(workloads, hardware)
    call_us, call_uj = _driver_call(hardware)
    return PerformanceInfo((npu_time_us + call_us) / cpu_us, (npu_energy_uj + call_uj) / cpu_uj)


def geometric_mean(ratios: Sequence[PerformanceInfo]) -> PerformanceInfo:
    """Return the geometric mean of each ratio, in which halving the time counts the same for every workload."""
    if not ratios:
        raise NpusimError("a geometric mean needs at least one workload")
    times = fsum(log(ratio.execTime) for ratio in ratios)
    energies = fsum(log(ratio.powerUsage) for ratio in ratios)
    return PerformanceInfo(exp(times / len(ratios)), exp(energies / len(ratios)))


def capabilities(
    run: Callable[[Reference], ReferenceRun | None], decision: ReferenceRun, hardware: Hardware
) -> Capabilities:
    """Return the capability table of a hardware.

    run:      simulates a reference workload on this hardware; returns None if it does not fit.
    decision: the run of an IF, or of an iteration of a WHILE, without its body.
    """
    source = f"simulated, against {_cpu_words(hardware)}"
    cells: dict[str, Cell] = {}
    for row in CELLS:
        runs = [(reference, run(reference)) for reference in row.references]
        lacking = [str(reference) for reference, done in runs if done is None]
        if len(lacking) == len(runs):
            runs = [(reference, run(reference)) for reference in row.smaller]
        ratios = {
            str(reference): performance_info(done.npu_time_us, done.npu_energy_uj, done.workloads, hardware)
            for reference, done in runs
            if done is not None
        }
        left_out = f"; no room for {' and '.join(lacking)}" if lacking else ""
        if ratios:
            cells[row.name] = _mean_cell(ratios, source + left_out)
        else:
            cells[row.name] = Cell(None, f"not offered{left_out}")
    return Capabilities(
        hardware.name,
        {**cells, RELAXED: _relaxed(cells), CONTROL_FLOW: _control_flow(decision, hardware)},
        standing(hardware),
        hardware.host,
    )


def _relaxed(cells: Mapping[str, Cell]) -> Cell:
    """Return the faster of the float32 and float16 cells, because relaxed computation permits both."""
    name = min(("float32", "float16"), key=lambda name: _exec_time(cells[name]))
    return Cell(cells[name].performance, f"computed in {name}, the faster of both: {cells[name].provenance}")


def _exec_time(cell: Cell) -> float:
    return cell.performance.execTime if cell.performance else float("inf")


def _on_cpu(workloads: Iterable[Workload], hardware: Hardware) -> tuple[float, float]:
    """Return time in us and energy in uJ of a network on the host CPU."""
    work = list(workloads)
    host = hardware.host
    least_us = cpu_core(host.core).operator_us
    time_us = fsum(cpu_time_us(operator, host) for operator in work)
    energy_uj = fsum(cpu_energy_uj(operator, host) for operator in work)
    if time_us < least_us:
        time_us, energy_uj = least_us, cpu_busy_energy_uj(least_us, host)
    return time_us, energy_uj + _dram_standby_uj(time_us, hardware)


def _driver_call(hardware: Hardware) -> tuple[float, float]:
    """Return time in us and energy in uJ of one driver call, which keeps one core busy."""
    time_us = hardware.host.call_overhead_us
    return time_us, cpu_busy_energy_uj(time_us, hardware.host) + _dram_standby_uj(time_us, hardware)


def _dram_standby_uj(time_us: float, hardware: Hardware) -> float:
    return dram_background_mw(hardware) * time_us * 1e-3


def _control_flow(decision: ReferenceRun, hardware: Hardware) -> Cell:
    """Return the ratios of IF and WHILE without their bodies, against the CPU's own evaluation of the condition.

    The driver call is left out, because it belongs to the whole model.
    """
    cpu_us, cpu_uj = _on_cpu(decision.workloads, hardware)
    ratios = PerformanceInfo(decision.npu_time_us / cpu_us, decision.npu_energy_uj / cpu_uj)
    words = f"simulated: {decision.npu_time_us:.4g} us of an IF without its body, against {cpu_us:.4g} us"
    return Cell(ratios, f"{words} of the host's own look at the condition; the runtime adds the bodies")


def _mean_cell(ratios: Mapping[str, PerformanceInfo], source: str) -> Cell:
    models = ", ".join(
        f"{model} {ratio.execTime:.4g}/{ratio.powerUsage:.4g}" for model, ratio in ratios.items()
    )
    if len(ratios) == 1:
        return Cell(next(iter(ratios.values())), f"execTime/powerUsage {models}; {source}")
    return Cell(
        geometric_mean(list(ratios.values())), f"geometric mean of execTime/powerUsage {models}; {source}"
    )


def _cpu_words(hardware: Hardware) -> str:
    host = hardware.host
    clock_mhz = host.clock_mhz or cpu_core(host.core).clock_mhz
    return f"{host.threads} x {host.core} at {clock_mhz:g} MHz, call {host.call_overhead_us:g} us"


def _plain(cell: Cell) -> dict[str, Any]:
    return asdict(cell.performance) if cell.performance else dict.fromkeys(("execTime", "powerUsage"))
