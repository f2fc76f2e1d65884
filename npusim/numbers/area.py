"""The silicon area of a hardware description, so that searches weigh size and speed against it.

Circuits are counted from the parameters and priced by `area.toml`, which gives the source of every number and the
expected error. Faster circuits are larger: fewer cycles per element need more multipliers in a lane, wider ports more
wires, a faster clock larger cells, and more bandwidth a larger DRAM interface.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.engines.kinds import engine_of
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import FurtherMemory, Space
from npusim.isa.instructions.word import WORD_BYTES
from npusim.numbers.energy import PRICED_PORT_BYTES


@dataclass(frozen=True, slots=True)
class Area:
    """The silicon area in mm2 by component; `npusim.numbers.area` lists what each contains."""

    by_component: Mapping[str, float]

    @property
    def total(self) -> float:
        """The total area in mm2."""
        return sum(self.by_component.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the area as in the JSON of a run."""
        return {"total": self.total, "by_component": dict(self.by_component)}


def area(hardware: Hardware) -> Area:
    """Return the area of the NPU with its DRAM interface in mm2, without the host."""
    logic = _logic_um2(hardware)
    scale = _scale(hardware) * 1e-6
    parts = {name: um2 * scale for name, um2 in logic.items()}
    for name, mm2 in _memories_mm2(hardware).items():
        parts[name] = parts.get(name, 0.0) + mm2
    parts["system"] = _table()["structure"]["overhead"] * sum(logic.values()) * scale
    interface: float = _table()["interface"]["mm2_per_gb_per_s"] * _node("interface_factor", hardware)
    parts["dram_interface"] = interface * hardware.dram.bandwidth_gb_per_s * hardware.has_dram
    for memory in hardware.memory:
        if memory.on_chip:
            parts[memory.name] = _memory_mm2(memory, hardware)
        else:
            parts[f"{memory.name}_interface"] = interface * memory.gb_per_s(hardware.clock_mhz)
    return Area(parts)


def _memory_mm2(memory: FurtherMemory, hardware: Hardware) -> float:
    """Return the area of a further memory on the chip, from the hardware file if given there.

    Else it is an SRAM of one bank with a port as wide as a burst.
    """
    if memory.area_mm2 is not None:
        return memory.area_mm2
    return _sram_mm2(memory.size_kib, 1, memory.burst_bytes, hardware)


def _logic_um2(hardware: Hardware) -> dict[str, float]:
    """Return the logic area by component in um2, at 28 nm and a slow clock."""
    um2, structure = _table()["logic_um2"], _table()["structure"]
    bits = structure["multiplier_register_bits"]
    circuits = engine_of(hardware.mac_array).circuits(hardware.mac_array)
    bits += structure["shadow_register_bits"] * (circuits.weight_registers - 1)
    multiplier = um2["multiplier_9x9"] + um2["adder_32"] + bits * um2["register_bit"]
    requantise = um2["multiplier_32x32"] + um2["shifter_32"] + 2 * um2["adder_32"] + um2["logic_32"]
    if hardware.float32_rescale:
        requantise += _float32_rescale_um2(um2)
    operands = structure["lane_register_bits"] * um2["register_bit"]
    return {
        "mac_array": circuits.multipliers * multiplier + _real_columns_um2(hardware),
        "output_stage": hardware.mac_array.output_lanes * (requantise + operands),
        "vector": hardware.vector.lanes * (_lane_um2(hardware) + operands) + _real_lanes_um2(hardware),
        "scratchpad": _crossbar_bytes(hardware) * 8 * hardware.scratchpad.banks * um2["multiplexer_bit"],
        "dma": _dma_um2(hardware),
        "front_end": _front_end_um2(hardware),
    }


def _lane_um2(hardware: Hardware) -> float:
    """Return the area of one lane of the vector unit without its registers.

    A function of n steps in c cycles needs n / c of the parts that do a step; a lane has as many as its most
    demanding function. Steps as in `energy.toml`: three rescales for an add, a product and a rescale for a
    multiply, about ten for an exponential, 32 subtractions for a division. Float32 shares the multipliers.
    """
    um2, vector = _table()["logic_um2"], hardware.vector
    rescale = um2["multiplier_32x32"] + um2["shifter_32"]
    float_steps = _float_steps(hardware)
    rescales = max(
        3 / vector.add_cycles,
        2 / vector.mul_cycles,
        1 / vector.requantise_cycles,
        10 / vector.exp_cycles,
        float_steps,
    )
    simple = um2["adder_32"] + um2["logic_32"]
    simples = 1 / vector.max_cycles + 1 / vector.pool_cycles + 1 / vector.reduce_cycles
    table = _sram_mm2(0.25, 1, 1, hardware) * 1e6 / _scale(hardware) / vector.lut_cycles
    divisions = 32 / vector.divide_cycles * um2["adder_32"]
    floats = float_steps * _multiply_add_um2(24, 0, {**um2, "multiplier_32x32": 0.0})
    return float(rescales * rescale + simples * simple + divisions + floats + table)


def _float_steps(hardware: Hardware) -> float:
    """Return the float32 products and sums that a lane computes per cycle.

    Two conversions of quantized values to float32, a product and a quotient take six. A quotient counts as three, as in
    `energy.toml`.
    """
    vector = hardware.vector
    if not hardware.float32_rescale:
        return 0.0
    return max(
        6 / vector.literal_cycles,
        8 / vector.literal_divide_cycles,
        2 / vector.fused_cycles,
        1 / vector.dequantise_cycles,
        6 / vector.quantise_cycles,
    )


def _real_lanes_um2(hardware: Hardware) -> float:
    """Return the area of the floating-point lanes: a fused multiply-add with its registers for each.

    The product of the significands, a shifter before and behind, an adder three times as wide; quotients and functions
    are sequences of these. float16 has 11 bits of significand, float32 24; the product grows with their square.
    """
    um2, vector = _table()["logic_um2"], hardware.vector
    return sum(
        lanes * _multiply_add_um2(significand_bits, stored_bits, um2)
        for lanes, significand_bits, stored_bits in (
            (vector.float16_lanes, 11, 16),
            (vector.float32_lanes, 24, 32),
        )
    )


def _real_columns_um2(hardware: Hardware) -> float:
    """Return the area of the array's float modes: a fused multiply-add with its registers per multiplier."""
    um2, array = _table()["logic_um2"], hardware.mac_array
    per_row = array.float16_columns * _multiply_add_um2(11, 16, um2)
    per_row += array.float32_columns * _multiply_add_um2(24, 32, um2)
    return array.rows * per_row


def _multiply_add_um2(significand_bits: int, stored_bits: int, um2: Mapping[str, float]) -> float:
    product = um2["multiplier_32x32"] * (significand_bits / 32) ** 2
    width = 3 * significand_bits / 32
    return product + width * (2 * um2["shifter_32"] + um2["adder_32"]) + 3 * stored_bits * um2["register_bit"]


def _float32_rescale_um2(um2: Mapping[str, float]) -> float:
    """Return the additional area with which a lane of the output stage requantizes in float32 too.

    The present multiplier also multiplies significands of 24 bits, and the shifter after it turns their product into a
    whole number. Additional are a search for the leading one and a shifter before it, and adders for the exponents and
    two roundings.
    """
    return um2["shifter_32"] + 3 * um2["adder_32"] + 2 * um2["logic_32"]


def _crossbar_bytes(hardware: Hardware) -> int:
    """Return the bytes per cycle of all scratchpad ports: two operands and a result per lane of the widest type."""
    array, dma = hardware.mac_array, hardware.dma
    streams = array.ifm_bytes_per_cycle + array.weight_bytes_per_cycle + array.output_lanes
    return streams + dma.channels * dma.port_bytes_per_cycle + 3 * _lane_bytes(hardware)


def _lane_bytes(hardware: Hardware) -> int:
    """Return the bytes of one operand of all lanes. Types of lanes never work at once, so they share the ports."""
    vector = hardware.vector
    return max(vector.lanes, 2 * vector.float16_lanes, 4 * vector.float32_lanes)


def _dma_um2(hardware: Hardware) -> float:
    """Return the area of the DMA's logic: descriptors, bursts in flight, weight decoder and crossbars.

    The decoder has a shifter and an adder per weight and cycle. On both sides of the burst buffer, a crossbar moves
    each byte of the port to any place.
    """
    um2, dma = _table()["logic_um2"], hardware.dma
    channel_bits = _table()["structure"]["channel_register_bits"] + 8 * dma.port_bytes_per_cycle
    decoder = dma.decoder_bytes_per_cycle * (um2["shifter_32"] + um2["adder_32"] + 32 * um2["register_bit"])
    spaces = [space for space in hardware.outer_spaces if space != Space.DRAM or hardware.has_dram]
    ports = [hardware.port(space) for space in spaces]
    in_flight_bits = 8 * sum(port.outstanding_requests * port.burst_bytes for port in ports)
    registers = (dma.channels * channel_bits + in_flight_bits) * um2["register_bit"]
    crossbars = 2 * 8 * dma.port_bytes_per_cycle**2 * um2["multiplexer_bit"] * (dma.burst_buffer_kib > 0)
    return float(dma.channels * (decoder + crossbars) + registers)


def _front_end_um2(hardware: Hardware) -> float:
    """Return the area of the front end: decoder, queues, and buffers of fetched instructions."""
    um2, front_end = _table()["logic_um2"], hardware.front_end
    waiting = _table()["structure"]["queues"] * front_end.queue_depth + front_end.fetch_instructions
    return float(um2["decoder"] + waiting * WORD_BYTES * 8 * um2["latch_bit"])


def _memories_mm2(hardware: Hardware) -> dict[str, float]:
    scratchpad, array = hardware.scratchpad, hardware.mac_array
    banks = engine_of(array).circuits(array).accumulator_banks
    return {
        "scratchpad": _sram_mm2(
            scratchpad.size_kib, scratchpad.banks, scratchpad.port_bytes, hardware, scratchpad.bank_ports
        ),
        "accumulator": _sram_mm2(array.accumulator_kib, banks, PRICED_PORT_BYTES, hardware),
        "dma": _burst_buffers_mm2(hardware),
    }


def _burst_buffers_mm2(hardware: Hardware) -> float:
    """Return the area of the two halves of each channel's burst buffer."""
    dma = hardware.dma
    if not dma.burst_buffer_kib:
        return 0.0
    return dma.channels * _sram_mm2(dma.burst_buffer_kib, 2, dma.port_bytes_per_cycle, hardware)


def _sram_mm2(kib: float, banks: int, port_bytes: int, hardware: Hardware, ports: int = 1) -> float:
    """Return the area of an SRAM of `banks` equal banks, each with `ports` ports of `port_bytes` bytes."""
    sram = _table()["sram"]
    cells = sram["macro_factor"] * _node("cells_mm2_per_mib", hardware, sram) * kib / 1024
    cells *= 1 + sram["port_growth"] * (ports - 1)
    periphery = banks * (sram["bank_um2"] + ports * port_bytes * sram["port_byte_um2"])
    return float(cells + periphery * _node("logic_factor", hardware) * 1e-6)


def _scale(hardware: Hardware) -> float:
    """Return the factor of logic area from 28 nm and a slow clock to this node and clock."""
    pace = hardware.clock_mhz / _node("easy_clock_mhz", hardware)
    return float(_node("logic_factor", hardware) * (1 + _table()["clock_growth"] * pace**2))


def _node(row: str, hardware: Hardware, table: Mapping[str, Any] | None = None) -> float:
    """Return the entry of a table row for the process node."""
    column = _table()["nodes_nm"].index(hardware.technology.node_nm)
    value: float = (table or _table())[row][column]
    return value


@cache
def _table() -> dict[str, Any]:
    with (Path(__file__).parent / "area.toml").open("rb") as file:
        return tomllib.load(file)
