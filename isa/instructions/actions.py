"""The actions that instructions count and the energy table prices: one row each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import FIRST_FURTHER, Space


@dataclass(frozen=True, slots=True)
class Action:
    """One countable event.

    component: where its energy is reported.
    unit:      what it is counted per.
    cycles:    for an action of the vector unit, the field of its section that says how long a lane takes.
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
           "bias, fixed-point rescale, zero point and clamp of one element", "requantise_cycles"),
    Action("requantise_float32", "output_stage", "element",
           "bias, float32 product, whole number, zero point and clamp of one element"),
    Action("vector_add_q8", "vector", "element",
           "quantised add, subtract, comparison of rescaled codes: up to three rescales", "add_cycles"),
    Action("vector_mul_q8", "vector", "element", "quantised multiply: one product and one rescale", "mul_cycles"),
    Action("vector_max", "vector", "element", "compare and select", "max_cycles"),
    Action("vector_add_i32", "vector", "element", "32-bit add of a reduction", "reduce_cycles"),
    Action("vector_pool_step", "vector", "element", "one window element of a pooling operator", "pool_cycles"),
    Action("vector_divide", "vector", "element", "one rounded 32-bit division (average pool)", "divide_cycles"),
    Action("vector_lut", "vector", "element", "one look-up in a 256-entry table", "lut_cycles"),
    Action("vector_exp", "vector", "element", "one fixed-point exponential or reciprocal", "exp_cycles"),
    Action("vector_literal_add", "vector", "element",
           "two codes to float32, a sum or comparison, and back to a code", "literal_cycles"),
    Action("vector_literal_mul", "vector", "element", "likewise a product", "literal_cycles"),
    Action("vector_literal_divide", "vector", "element", "likewise a quotient", "literal_divide_cycles"),
    Action("vector_fused", "vector", "element", "codes to a code by two float32 products and sums", "fused_cycles"),
    Action("vector_dequantise", "vector", "element", "one code to float32, and into a sum", "dequantise_cycles"),
    Action("vector_quantise", "vector", "element",
           "a sum of floats over their number, and to a code", "quantise_cycles"),
    Action("vector_float16_add", "vector", "element", "add, compare or move of float16", "float_cycles"),
    Action("vector_float16_multiply", "vector", "element", "product of float16", "float_cycles"),
    Action("vector_float16_divide", "vector", "element", "quotient or root of float16", "float_divide_cycles"),
    Action("vector_float16_function", "vector", "element",
           "exponential, logarithm or the like of float16", "float_function_cycles"),
    Action("vector_float32_add", "vector", "element", "add, compare or move of float32", "float_cycles"),
    Action("vector_float32_multiply", "vector", "element", "product of float32", "float_cycles"),
    Action("vector_float32_divide", "vector", "element", "quotient or root of float32", "float_divide_cycles"),
    Action("vector_float32_function", "vector", "element",
           "exponential, logarithm or the like of float32", "float_function_cycles"),
    Action("scratchpad_read_byte", "scratchpad", "byte", "read from the scratchpad"),
    Action("scratchpad_write_byte", "scratchpad", "byte", "written to the scratchpad"),
    Action("noc_byte", "interconnect", "byte", "moved between the DRAM port and the scratchpad"),
    Action("burst_buffer_byte", "interconnect", "byte", "written to a burst buffer and read from it"),
    Action("dram_read_byte", "dram", "byte", "read from DRAM, whole bursts"),
    Action("dram_write_byte", "dram", "byte", "written to DRAM, whole bursts"),
    Action("dram_activate", "dram", "row", "activate and precharge of one DRAM row"),
    Action("weight_unpack", "interconnect", "weight", "one weight decoded on its way into the scratchpad"),
    Action("instruction_issue", "control", "instruction", "fetch buffer, decode and dispatch of one instruction"),
)
# fmt: on

LANE_CYCLES = {action.name: action.cycles for action in ACTIONS if action.cycles}
"""For actions of the vector unit, the field of its section that says how many cycles a lane takes."""


class PortActions(NamedTuple):
    """The names of what is counted at the port of a memory; `activate` is None where no row is paid for."""

    read: str
    write: str
    activate: str | None


def port_actions(hardware: Hardware, space: Space) -> PortActions:
    """What is counted at the port of a memory: the DRAM's actions stand in `ACTIONS`, those of a further memory
    have its name in front.
    """
    name = hardware.memory_name(space)
    activate = f"{name}_activate" if hardware.off_chip(space) else None
    return PortActions(f"{name}_read_byte", f"{name}_write_byte", activate)


def components(hardware: Hardware) -> dict[str, str]:
    """The component that each action of a machine is reported under; a further memory is one of its own."""
    found = {action.name: action.component for action in ACTIONS}
    for space in hardware.spaces[FIRST_FURTHER:]:
        names = [name for name in port_actions(hardware, space) if name is not None]
        found |= dict.fromkeys(names, hardware.memory_name(space))
    return found
