"""The table of actions: events that instructions count and to which the energy table assigns an energy."""

from __future__ import annotations

from typing import NamedTuple

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import FIRST_FURTHER, Space


@dataclass(frozen=True, slots=True)
class Action:
    """One countable event.

    component: the hardware component under which its energy is reported.
    unit:      what one count stands for, for example an element or a byte.
    cycles:    for an action of the vector unit, the hardware key in `vector` with its cycles in a lane.
    """

    name: str
    component: str
    unit: str
    doc: str
    cycles: str = ""


# fmt: off
ACTIONS: tuple[Action, ...] = (
    Action("mac_int8", "mac_array", "MAC", "one 9-bit by 9-bit multiply with 32-bit accumulate, operands useful"),
    Action("mac_bit", "mac_array", "bit", "one bit of a weight in a multiply-accumulate of int8, with its registers"),
    Action("mac_float16", "mac_array", "MAC", "one float16 multiply with float32 accumulate and its registers"),
    Action("mac_float32", "mac_array", "MAC", "one float32 multiply with wide accumulate and its registers"),
    Action("pe_register", "mac_array", "MAC", "operand and partial-sum registers of one processing element, one step"),
    Action("pe_idle", "mac_array", "PE-cycle", "a clock-gated processing element for one cycle"),
    Action("accumulator_update", "accumulator", "update", "read and write of one 32-bit accumulator"),
    Action("requantise", "output_stage", "element",
           "bias, fixed-point requantization, zero point and clamp of one element", "requantise_cycles"),
    Action("requantise_float32", "output_stage", "element",
           "bias, float32 product, rounding, zero point and clamp of one element"),
    Action("vector_add_q8", "vector", "element",
           "quantized add, subtract or comparison, with up to three requantizations", "add_cycles"),
    Action("vector_mul_q8", "vector", "element", "quantized multiply: a product and a requantization", "mul_cycles"),
    Action("vector_max", "vector", "element", "compare and select", "max_cycles"),
    Action("vector_add_i32", "vector", "element", "32-bit add of a reduction", "reduce_cycles"),
    Action("vector_pool_step", "vector", "element", "one window element of a pooling operator", "pool_cycles"),
    Action("vector_divide", "vector", "element", "one rounded 32-bit division (average pool)", "divide_cycles"),
    Action("vector_lut", "vector", "element", "one look-up in a 256-entry table", "lut_cycles"),
    Action("vector_exp", "vector", "element", "one fixed-point exponential or reciprocal", "exp_cycles"),
    Action("vector_literal_add", "vector", "element",
           "two 8-bit values dequantized, added or compared in float32, and quantized", "literal_cycles"),
    Action("vector_literal_mul", "vector", "element",
           "two 8-bit values dequantized to float32, multiplied, and quantized", "literal_cycles"),
    Action("vector_literal_divide", "vector", "element",
           "two 8-bit values dequantized to float32, divided, and quantized", "literal_divide_cycles"),
    Action("vector_fused", "vector", "element",
           "one 8-bit result from 8-bit values by two float32 multiply-adds", "fused_cycles"),
    Action("vector_dequantise", "vector", "element",
           "one 8-bit value dequantized to float32 and added to a sum", "dequantise_cycles"),
    Action("vector_moments", "vector", "element",
           "one 8-bit value and its square added to two integer sums", "moment_cycles"),
    Action("vector_quantise", "vector", "element",
           "a float32 sum divided by its number of terms, and quantized", "quantise_cycles"),
    Action("vector_float16_add", "vector", "element", "add, compare or move of float16", "float_cycles"),
    Action("vector_float16_multiply", "vector", "element", "product of float16", "float_cycles"),
    Action("vector_float16_divide", "vector", "element", "quotient or root of float16", "float_divide_cycles"),
    Action("vector_float16_function", "vector", "element",
           "exponential, logarithm or similar function of float16", "float_function_cycles"),
    Action("vector_float32_add", "vector", "element", "add, compare or move of float32", "float_cycles"),
    Action("vector_float32_multiply", "vector", "element", "product of float32", "float_cycles"),
    Action("vector_float32_divide", "vector", "element", "quotient or root of float32", "float_divide_cycles"),
    Action("vector_float32_function", "vector", "element",
           "exponential, logarithm or similar function of float32", "float_function_cycles"),
    Action("scratchpad_read_byte", "scratchpad", "byte", "read from the scratchpad"),
    Action("scratchpad_write_byte", "scratchpad", "byte", "written to the scratchpad"),
    Action("noc_byte", "interconnect", "byte", "moved between the DRAM port and the scratchpad"),
    Action("burst_buffer_byte", "interconnect", "byte", "written to a burst buffer and read from it"),
    Action("dram_read_byte", "dram", "byte", "read from DRAM, whole bursts"),
    Action("dram_write_byte", "dram", "byte", "written to DRAM, whole bursts"),
    Action("dram_activate", "dram", "row", "activate and precharge of one DRAM row"),
    Action("weight_unpack", "interconnect", "weight", "one compressed weight decoded by the DMA during its load"),
    Action("instruction_issue", "control", "instruction", "fetch buffer, decode and dispatch of one instruction"),
)
# fmt: on

LANE_CYCLES = {action.name: action.cycles for action in ACTIONS if action.cycles}
"""The hardware key in `vector` with the cycles in a lane, for each action of the vector unit."""


class PortActions(NamedTuple):
    """The names of the actions at a memory's port; `activate` is None if row activations cost no energy."""

    read: str
    write: str
    activate: str | None


def port_actions(hardware: Hardware, space: Space) -> PortActions:
    """Return the names of the actions at a memory's port.

    Those of the DRAM are rows of `ACTIONS`. Those of a further memory begin with the name of that memory.
    """
    name = hardware.memory_name(space)
    activate = f"{name}_activate" if hardware.off_chip(space) else None
    return PortActions(f"{name}_read_byte", f"{name}_write_byte", activate)


def components(hardware: Hardware) -> dict[str, str]:
    """Return the component under which each action is reported. Every further memory is a component of its own."""
    component_of = {action.name: action.component for action in ACTIONS}
    for space in hardware.spaces[FIRST_FURTHER:]:
        names = [name for name in port_actions(hardware, space) if name is not None]
        component_of |= dict.fromkeys(names, hardware.memory_name(space))
    return component_of
