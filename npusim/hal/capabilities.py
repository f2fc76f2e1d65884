"""Converts npusim's table of relative performance to the HAL's struct of capabilities."""

from __future__ import annotations

from npusim.frontends.nn_hal import structs
from npusim.frontends.nn_hal.enumerations import OperandType
from npusim.isa.hardware.hardware import Hardware
from npusim.numbers import performance
from npusim.session import references


def capabilities(hardware: Hardware) -> structs.Capabilities:
    """Return the capabilities of hardware; their numbers are simulated on the reference workloads."""
    table = references.table(hardware)
    relaxed, control_flow = (table.cells[name] for name in (performance.RELAXED, performance.CONTROL_FLOW))
    return structs.Capabilities(
        _info(table.cells["float32"]),
        _info(table.cells["quantized8"]),
        _info(relaxed),
        _info(relaxed),
        {OperandType(row.code): _info(table.operand(row)) for row in performance.OPERAND_TYPES},
        _info(control_flow),
        _info(control_flow),
    )


def _info(cell: performance.Cell) -> structs.PerformanceInfo:
    assert cell.performance is not None
    return structs.PerformanceInfo(cell.performance.execTime, cell.performance.powerUsage)
