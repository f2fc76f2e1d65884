"""Random legal MAC instructions for a streaming engine with ports and an output stage that keep up."""

from __future__ import annotations

import numpy as np

from npusim.isa.engines.mac_array import MacArray, Streams
from npusim.isa.hardware.hardware import Hardware

from .random_mac import Case, draw_size, draw_window, instruction_of, operands
from .stream_referee import COLUMNS, LINES, StreamShape


def wide(streams: Streams) -> Hardware:
    """An engine behind ports that are never slower than it."""
    array = MacArray(
        kind="stream",
        ifm_bytes_per_cycle=4096,
        weight_bytes_per_cycle=4096,
        output_lanes=streams.units,
        stream=streams,
    )
    return Hardware(name="rtl", mac_array=array)


def draw_stream_case(rng: np.random.Generator, shape: StreamShape, by_channel: bool) -> Case:
    """A convolution, or one by channel, on any engine that the shape can be."""
    while True:
        case = _attempt(rng, shape, by_channel)
        if case is not None:
            return case


def _attempt(rng: np.random.Generator, shape: StreamShape, by_channel: bool) -> Case | None:
    """One draw; None if it is too large."""
    window = draw_window(rng, 0, 10)
    for axis in ("height", "width"):
        extent = (window[f"kernel_{axis}"] - 1) * window[f"dilation_{axis}"] + 1
        passing = (window[f"ofm_{axis}"] - 1) * window[f"stride_{axis}"] + extent
        if extent > LINES or passing > COLUMNS:
            return None
    ifm_depth = draw_size(rng, shape.multipliers, 3 * shape.multipliers)
    made = operands(
        rng, window, ifm_depth, None if by_channel else draw_size(rng, shape.kernels, 3 * shape.kernels)
    )
    if made is None:
        return None
    fields, scratchpad = made
    hardware = wide(
        Streams(
            units=shape.units,
            multipliers=int(rng.integers(1, shape.multipliers + 1)),
            units_per_layer=int(rng.integers(1, shape.units + 1)),
            kernels=int(rng.integers(1, shape.kernels + 1)),
        )
    )
    return Case(instruction_of(fields, by_channel, hardware), hardware, scratchpad)
