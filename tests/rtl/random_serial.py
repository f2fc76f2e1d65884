"""Random legal MAC instructions for a bit-serial engine, whose weights have no more bits than it takes time for."""

from __future__ import annotations

import numpy as np

from npusim.isa.engines.mac_array import BitSerial, MacArray
from npusim.isa.hardware.hardware import Hardware

from .random_mac import Case, draw_size, draw_window, instruction_of, operands
from .serial_referee import SerialShape


def draw_engine(rng: np.random.Generator, shape: SerialShape) -> Hardware:
    """An engine of this shape with random blocks of strided and depthwise convolutions, latencies and bits."""
    serial = BitSerial(
        side=shape.side,
        strided_side=int(rng.integers(1, shape.side + 1)),
        channels=shape.channels,
        input_channels=shape.input_channels,
        depthwise_channels=int(rng.integers(1, min(shape.channels, shape.input_channels) + 1)),
        kernel_side=shape.kernel_side,
        start_cycles=int(rng.integers(0, 12)),
        point_start_cycles=int(rng.integers(0, 20)),
        step_cycles=int(rng.integers(0, 20)),
        output_cycles=int(rng.integers(shape.channels, 4 * shape.channels)),
    )
    array = MacArray(kind="bit_serial", weight_bits=int(rng.integers(2, 9)), bit_serial=serial)
    return Hardware(name="rtl", mac_array=array)


def draw_serial_case(rng: np.random.Generator, shape: SerialShape, kind: str) -> Case:
    """`kind`: kernel, point or depthwise."""
    while True:
        case = _attempt(rng, shape, kind)
        if case is not None:
            return case


def _attempt(rng: np.random.Generator, shape: SerialShape, kind: str) -> Case | None:
    """One draw; None if it is too large."""
    by_channel = kind == "depthwise"
    side = 1 if kind == "point" or (by_channel and rng.random() < 0.2) else shape.kernel_side
    ifm_depth = draw_size(rng, shape.input_channels, 3 * shape.input_channels)
    ofm_depth = draw_size(rng, shape.channels, 3 * shape.channels)
    window = draw_window(rng, side, 10)
    made = operands(rng, window, ifm_depth, None if by_channel else ofm_depth)
    if made is None:
        return None
    fields, scratchpad = made
    hardware = draw_engine(rng, shape)
    fields["few_bits"] = int(rng.random() < 0.8)
    bits = hardware.mac_array.weight_bits if fields["few_bits"] else 8
    span = (
        side
        * side
        * (1 if by_channel else ifm_depth)
        * max(fields["ofm_depth"], fields.get("weight_stride", 0))
    )
    low = -(1 << bits - 1) if fields["weights_signed"] else 0
    few = rng.integers(low, low + (1 << bits), span).astype(np.uint8)
    scratchpad[fields["weights"] : fields["weights"] + span] = few
    return Case(instruction_of(fields, by_channel, hardware), hardware, scratchpad)
