"""How a transposed convolution becomes instructions of the MAC array.

Output pixels fall into as many phases as there are steps of the stride: those of a phase see the same taps of the
kernel, every stride-th, and are a convolution with them, backwards, whose windows lie one pixel apart. An instruction
computes the pixels of a phase in a tile, and writes them a stride apart. So nothing is multiplied by zeros between
pixels, and nothing is added in memory. Where strides are wider than the kernel, pixels that see no tap get the bias
first. Filters whose taps lie apart get zeros between them. Groups of channels have instructions of their own, which
read and write some of the channels of the whole maps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from npusim.isa.base.tensor import SIZE_ONLY
from npusim.isa.engines.engine import Problem
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.mac import Convolve
from npusim.kernels.lowering.blocks import Blocks, Box, blocks
from npusim.kernels.lowering.mac_work import (
    alike,
    channel_step,
    convolution_stage,
    fastest_layout,
    in_bytes,
    map_bytes,
)
from npusim.kernels.lowering.requantization_stage import common_fields
from npusim.kernels.lowering.work import Parts, Rows, Tile, TileAddresses, Work
from npusim.kernels.operator.operands import input_type, weight_zero
from npusim.kernels.operator.operator import Call


class _Axis(NamedTuple):
    """Height or width: sizes of input and output, taps, stride, and padding in front."""

    size: int
    outputs: int
    taps: int
    stride: int
    pad: int

    def last_seen(self, output: int) -> int:
        """Return the last input position that an output position sees, through the first tap of its phase."""
        return (output + self.pad) // self.stride

    def first_tap(self, output: int) -> int:
        """Return the first tap of a position's phase; the others follow a stride apart."""
        return (output + self.pad) % self.stride

    @property
    def first_taps(self) -> range:
        """Return the first taps of all phases that have taps."""
        return range(min(self.stride, self.taps))

    def taps_from(self, first: int) -> int:
        """Return how many taps a phase has."""
        return max(0, -(-(self.taps - first) // self.stride))

    def needed(self, first: int, last: int) -> tuple[int, int]:
        """Return the input positions that output positions [first, last) see."""
        start = -((self.taps - 1 - first - self.pad) // self.stride)
        start = min(max(start, 0), self.size)
        return start, max(min(self.last_seen(last - 1) + 1, self.size), start)


class _Phase(NamedTuple):
    """The output positions of a tile along an axis that see the same taps.

    output, outputs:  the first of them, and how many.
    first_tap, taps:  the first tap that they see, and how many.
    skipped, pad:     input positions before those that the first one sees, or how many of these lie before the input.
    size:             input positions from there on.
    """

    output: int
    outputs: int
    first_tap: int
    taps: int
    skipped: int
    pad: int
    size: int


def _phases(axis: _Axis, first: int, last: int, start: int, end: int) -> list[_Phase]:
    """Return the phases of output positions [first, last) that see some of the input positions [start, end)."""
    phases = []
    for output in range(first, min(first + axis.stride, last)):
        tap = axis.first_tap(output)
        taps = axis.taps_from(tap)
        begin = axis.last_seen(output) - taps + 1 - start
        size = end - start - max(begin, 0)
        if taps and size > 0:
            outputs = -(-(last - output) // axis.stride)
            phases.append(_Phase(output, outputs, tap, taps, max(begin, 0), max(-begin, 0), size))
    return phases


_SEES_NOTHING = {
    **dict.fromkeys(("ifm_height", "ifm_width", "ifm_depth", "ifm_row_stride", "ifm_pixel_stride"), 1),
    **dict.fromkeys(("kernel_height", "kernel_width", "stride_width", "pad_top"), 1),
    **dict.fromkeys(("dilation_height", "dilation_width"), 1),
    "stride_height": 2,
}
"""A window that steps over the only value of its input and so sees padding only: the result is the bias."""


def lower_transposed(call: Call, hardware: Hardware) -> Parts:
    """Lower a transposed convolution: tiles of rows and output channels, with an instruction per phase of a tile."""
    call = _without_dilations(call)
    batch, ifm_height, ifm_width, depth = input_type(call).shape
    _, ofm_height, ofm_width, channels = call.outputs[0].shape
    _, *kernel, inner = input_type(call, 1).shape
    (top, _), (left, _) = call.parameters.padding
    down, right = call.parameters.strides
    y_axis, x_axis = (
        _Axis(ifm_height, ofm_height, kernel[0], down, top),
        _Axis(ifm_width, ofm_width, kernel[1], right, left),
    )
    stage = convolution_stage(call)
    boxes = _Boxes(y_axis, x_axis, inner, channels * inner // depth)
    needs = blocks(call, stage, boxes.of, boxes.ranges)
    size = map_bytes(call)
    ifm_bytes, ofm_bytes = ifm_width * depth * size, ofm_width * channels
    work = Work(
        rows=ofm_height,
        channels=channels,
        channel_step=channel_step(hardware),
        inputs=((Rows(("in", 0), ifm_height, ifm_bytes, 0, ifm_height * ifm_bytes), y_axis.needed),),
        outputs=(Rows(("out", 0), ofm_height, ofm_bytes, 0, ofm_height * ofm_bytes),),
        emit=_Emitter(hardware, boxes, needs, depth * size, common_fields(call, stage, hardware), size).tile,
        last_resort=1,
        entries=batch,
        alike=alike(call, "transposed", y_axis, x_axis, depth, inner, channels, stage.per_channel),
        **needs.fields(),
    )
    return (in_bytes(work, stage.result_bytes),)


def _without_dilations(call: Call) -> Call:
    """Return the call with filters as large as their dilated windows, with zeros between their taps."""
    apart = call.parameters.dilations
    if apart == (1, 1):
        return call
    weights = input_type(call, 1)
    channels, *taps, depth = weights.shape
    height, width = ((count - 1) * step + 1 for count, step in zip(taps, apart, strict=True))
    shape = (channels, height, width, depth)
    data = call.constants[1]
    if data is not SIZE_ONLY:
        spread = np.full(shape, weight_zero(call), weights.numpy_dtype)
        spread[:, :: apart[0], :: apart[1]] = np.asarray(data)
        data = spread
    kinds = (call.inputs[0], replace(weights, shape=shape), *call.inputs[2:])
    parameters = call.parameters.changed(dilations=(1, 1))
    return replace(call, inputs=kinds, parameters=parameters, constants={**call.constants, 1: data})


class _Boxes(NamedTuple):
    """The weights [o, taps down, taps right, depth] in the order of groups and phases: [phase, o, taps, taps, depth] of
    each group, which has so many channels.
    """

    down: _Axis
    right: _Axis
    depth: int
    channels: int

    def ranges(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the channels [first, last) group by group."""
        ends = [*range(first - first % self.channels + self.channels, last, self.channels), last]
        return list(zip([first, *ends], ends, strict=False))

    def of(self, first: int, last: int) -> list[Box]:
        """Return the boxes of the weights of channels [first, last), group by group and phase by phase."""
        return [box for part in self.ranges(first, last) for box in self._of_group(*part)]

    def _of_group(self, first: int, last: int) -> list[Box]:
        filter_bytes = self.down.taps * self.right.taps * self.depth
        row_bytes = self.right.taps * self.depth
        boxes = []
        for y, x in self._first_taps():
            rows, columns = self.down.taps_from(y), self.right.taps_from(x)
            last_row, last_column = y + (rows - 1) * self.down.stride, x + (columns - 1) * self.right.stride
            boxes.append(
                Box(
                    first * filter_bytes + last_row * row_bytes + last_column * self.depth,
                    (last - first, rows, columns, self.depth),
                    (filter_bytes, -self.down.stride * row_bytes, -self.right.stride * self.depth),
                )
            )
        return boxes

    def places(self, channels: int) -> dict[tuple[int, int], int]:
        """Return where the weights of each phase begin for a number of channels, by the phase's first taps."""
        begins, at = {}, 0
        for y, x in self._first_taps():
            begins[y, x] = at
            at += self.down.taps_from(y) * self.right.taps_from(x) * self.depth * channels
        return begins

    def _first_taps(self) -> list[tuple[int, int]]:
        return [(y, x) for y in self.down.first_taps for x in self.right.first_taps]


class _Emitter(NamedTuple):
    """Makes the instructions of tiles.

    pixel_bytes: bytes of a pixel of the whole input.
    common: fields that all instructions share.
    size: bytes of a value.
    """

    hardware: Hardware
    boxes: _Boxes
    needs: Blocks
    pixel_bytes: int
    common: dict[str, Any]
    size: int

    def tile(self, tile: Tile, at: TileAddresses) -> tuple[Instruction, ...]:
        """Return the instructions of a tile, group by group: the bias where pixels see no tap, then each phase."""
        down, right = self.boxes.down, self.boxes.right
        parameters, weights = self.needs.addresses(tile.first_channel, tile.last_channel)
        ys = _phases(down, tile.first_row, tile.last_row, *down.needed(tile.first_row, tile.last_row))
        xs = _phases(right, 0, right.outputs, 0, right.size)
        whole = sum([y.outputs for y in ys]) == tile.rows and sum([x.outputs for x in xs]) == right.outputs
        instructions: list[Instruction] = []
        parts = self.boxes.ranges(tile.first_channel, tile.last_channel)
        for (first, last), begin in zip(parts, parameters, strict=True):
            part = _Part(
                Tile(tile.first_row, tile.last_row, first, last, tile.entry),
                at.inputs[0] + first // self.boxes.channels * self.boxes.depth * self.size,
                at.constants + begin,
                (
                    at.outputs[0][0] + (first - tile.first_channel) * self.needs.stage.result_bytes,
                    *at.outputs[0][1:],
                ),
            )
            if not whole:
                instructions.append(self._bias(part, at.constants))
            places = self.boxes.places(last - first)
            instructions += [
                self._phase(part, at.constants + weights + places[y.first_tap, x.first_tap], y, x)
                for y in ys
                for x in xs
            ]
            weights += sum([box.size_bytes for box in self.boxes.of(first, last)])
        return tuple(instructions)

    def _convolve(self, part: _Part, **window: Any) -> Instruction:
        kernel = window["kernel_height"], window["kernel_width"]
        channels = part.tile.channels
        sizes = window["ofm_height"], window["ofm_width"], channels, window["ifm_depth"]
        return Convolve(
            parameters=part.parameters,
            ofm_depth=channels,
            **fastest_layout(self.hardware, Problem(*sizes, *kernel)),
            **self.common,
            **window,
        )

    def _bias(self, part: _Part, weights: int) -> Instruction:
        ofm_address, ofm_row_stride, ofm_pixel_stride = part.output
        return self._convolve(
            part,
            ifm=part.input,
            weights=weights,
            ofm=ofm_address,
            ofm_row_stride=ofm_row_stride,
            ofm_pixel_stride=ofm_pixel_stride,
            ofm_height=part.tile.rows,
            ofm_width=self.boxes.right.outputs,
            **_SEES_NOTHING,
        )

    def _phase(self, part: _Part, weights: int, y: _Phase, x: _Phase) -> Instruction:
        ofm_address, ofm_row_stride, ofm_pixel_stride = part.output
        ifm_width, depth = self.boxes.right.size, self.boxes.depth
        return self._convolve(
            part,
            ifm=part.input + (y.skipped * ifm_width + x.skipped) * self.pixel_bytes,
            ifm_row_stride=ifm_width * self.pixel_bytes,
            ifm_pixel_stride=self.pixel_bytes,
            ifm_height=y.size,
            ifm_width=x.size,
            ifm_depth=depth,
            kernel_height=y.taps,
            kernel_width=x.taps,
            pad_top=y.pad,
            pad_left=x.pad,
            weights=weights,
            ofm=ofm_address + (y.output - part.tile.first_row) * ofm_row_stride + x.output * ofm_pixel_stride,
            ofm_row_stride=ofm_row_stride * self.boxes.down.stride,
            ofm_pixel_stride=ofm_pixel_stride * self.boxes.right.stride,
            ofm_height=y.outputs,
            ofm_width=x.outputs,
            **dict.fromkeys(("stride_height", "stride_width", "dilation_height", "dilation_width"), 1),
        )


class _Part(NamedTuple):
    """The channels of a group in a tile: where the group's input, parameters and output begin."""

    tile: Tile
    input: int
    parameters: int
    output: tuple[int, int, int]
