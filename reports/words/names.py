"""Words and colours of reports: one name and one colour per unit, component and cause, everywhere.

Colours are told apart with the common kinds of colour blindness (the hues are those of Okabe and Ito, 2008, in
steps of lightness) and are never alone: what they stand for is written beside them.
"""

from __future__ import annotations

from collections.abc import Mapping

from npusim.isa.hardware.units import Unit

UNIT_NAMES: Mapping[str, str] = {
    "mac": "MAC", "vector": "vector", "dma": "DMA", "host": "host", "none": "-",
}  # fmt: skip
"""What does the work of a layer (`Layer.unit`), in few letters."""

BOUND_NAMES: Mapping[str, str] = {
    "mac": "MAC", "vector": "vector", "dram": "DRAM", "host": "host", "none": "-",
}  # fmt: skip

LIMITS: Mapping[str, str] = {
    "mac": "the multipliers of the MAC array",
    "vector": "the lanes of the vector unit",
    "dram": "DRAM bandwidth",
    "host": "the operators on the host",
    "none": "nothing",
}
"""What sets a lower bound, in a sentence."""

LIMIT_NAMES: Mapping[str, str] = {
    "mac": "the MAC array", "vector": "the vector unit", "dram": "DRAM bandwidth", "host": "the host",
    "none": "no work",
}  # fmt: skip
"""`LIMITS` in few words."""

TRACK_NAMES: Mapping[Unit, str] = {
    Unit.FRONT_END: "front end",
    Unit.MAC: "MAC array",
    Unit.VECTOR: "vector unit",
    Unit.HOST: "host",
    Unit.DMA0: "DMA channel 0",
    Unit.DMA1: "DMA channel 1",
    Unit.DMA2: "DMA channel 2",
    Unit.DMA3: "DMA channel 3",
}
"""Tracks of a timeline from top to bottom."""

COMPONENT_NAMES: Mapping[str, str] = {
    "mac_array": "MAC array",
    "accumulator": "accumulators",
    "output_stage": "output stage",
    "vector": "vector unit",
    "scratchpad": "scratchpad",
    "interconnect": "interconnect",
    "control": "instruction control",
    "system": "clock and system",
    "dram": "DRAM",
    "host": "host",
}
"""Components that energy is spent in, from the multipliers outwards."""

CAUSE_NAMES: Mapping[str, str] = {
    "edge_tiles": "edge tiles",
    "fill_drain": "fill and drain",
    "port": "array ports",
    "output_stage": "output stage",
    "vector_overhead": "vector start-up",
    "dram_traffic": "extra DRAM bytes",
    "dram_overhead": "DRAM row misses",
    "mac": "MAC array",
    "vector": "vector unit",
    "host": "host",
    "moves": "copies",
    "stall_weights": "wait: weights",
    "stall_feature_map": "wait: feature map",
    "stall_dram_contention": "wait: DRAM turn",
    "stall_dma": "wait: DMA latency",
    "stall_bank_ports": "wait: bank ports",
    "stall_queue": "wait: full queue",
    "stall_front_end": "wait: front end",
    "instruction_fetch": "code fetch",
    "start_up": "start-up",
    "tail": "tail",
    "prefetched": "prefetched",
    "overlapped": "overlapped",
}
"""`npusim.numbers.losses.CAUSES` in few letters."""


DATAFLOW_NAMES: Mapping[str, str] = {
    "weight_stationary": "WS", "output_stationary": "OS", "depthwise": "DW",
}  # fmt: skip
"""Dataflows of the MAC array in few letters."""


def dataflow_name(dataflow: str) -> str:
    """The dataflow of a layer (`LayerResult.dataflow`) in few letters."""
    return "+".join(DATAFLOW_NAMES.get(each, each) for each in dataflow.split("+"))


def main_name(name: str) -> str:
    """The first of the names that a converter has joined with ";" when it fused operators: the last operator's."""
    return name.split(";")[0] or name


RESOURCE_COLOURS: Mapping[str, str] = {
    "mac": "#1f6fb2",
    "vector": "#0b8a6b",
    "dram": "#c2561a",
    "dma": "#c2561a",
    "host": "#9a4f92",
    "front_end": "#7b858e",
    "none": "#9aa3ab",
}
"""Units and resources; DMA channels and the DRAM they serve share one."""

COMPONENT_COLOURS: Mapping[str, str] = {
    "mac_array": "#1f6fb2",
    "accumulator": "#5a9bd5",
    "output_stage": "#a5c8ea",
    "vector": "#0b8a6b",
    "scratchpad": "#d9a514",
    "interconnect": "#8a6a12",
    "control": "#c4c9ce",
    "system": "#7b858e",
    "dram": "#c2561a",
    "host": "#9a4f92",
}

CAUSE_COLOURS: Mapping[str, str] = {
    "edge_tiles": "#12a3b4",
    "fill_drain": "#6fc6d0",
    "port": "#8ab4de",
    "output_stage": "#bcd2ec",
    "vector_overhead": "#5bb89f",
    "dram_traffic": "#a33a3a",
    "dram_overhead": "#d98c8c",
    "mac": "#2d4f75",
    "vector": "#0b8a6b",
    "host": "#9a4f92",
    "moves": "#6d8a2f",
    "stall_weights": "#e0731d",
    "stall_feature_map": "#f2a65a",
    "stall_dram_contention": "#8c3b0e",
    "stall_dma": "#e3c02b",
    "stall_bank_ports": "#d06a8a",
    "stall_queue": "#b0559c",
    "stall_front_end": "#5f6971",
    "instruction_fetch": "#8d979f",
    "start_up": "#aeb6bd",
    "tail": "#c9cfd4",
    "prefetched": "#3f8f3a",
    "overlapped": "#7cb874",
}
"""Cyan and pale blue: inside the MAC array; red to yellow: memory; purple: queues; grey: beginning and end; light
green: gains. None is the colour of a resource that it can stand beside in a bar."""

REGION_COLOURS: Mapping[str, str] = {
    "constants": "#c2561a",
    "code": "#7b858e",
    "input": "#0b8a6b",
    "output": "#9a4f92",
    "maps": "#d9a514",
}
"""Regions of the DRAM by kind."""
