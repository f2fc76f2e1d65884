"""What a device says of its performance: the struct of the HAL from the table that npusim computes."""

from __future__ import annotations

from npusim.frontends.nn_hal import structs
from npusim.frontends.nn_hal.enumerations import OperandType
from npusim.isa.hardware.hardware import Hardware
from npusim.numbers import performance
from npusim.session import api
from npusim.session.api import compile_program


def capabilities(hardware: Hardware) -> structs.Capabilities:
    """The capability table of hardware as the HAL has it; cells are simulated on the reference workloads."""
    table = performance.capabilities(lambda model: _reference_run(model, hardware), hardware)
    return structs.Capabilities(
        _info(table.float32),
        _info(table.quantized8),
        _info(table.relaxed),
        _info(table.relaxed),
        {
            OperandType(row.code): _info(table.operand(row))
            for row in performance.OPERAND_TYPES
            if table.operand(row).performance is not None
        },
        _info(table.control_flow),
        _info(table.control_flow),
    )


def _info(cell: performance.Cell) -> structs.PerformanceInfo:
    assert cell.performance is not None
    return structs.PerformanceInfo(cell.performance.execTime, cell.performance.powerUsage)


def _reference_run(model: str, hardware: Hardware) -> performance.ReferenceRun:
    program = compile_program(api.load(model), hardware)
    done = api.simulate(program, timing_only=True)
    work = [layer.workload for layer in program.layers]
    return performance.ReferenceRun(done.latency_ms * 1e3, float(done.energy_uj), work)
