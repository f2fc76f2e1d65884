"""Lower convolutions and matrix products to instructions of the MAC array."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from npusim.isa.base.identity_cache import IdentityCache
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import SIZE_ONLY, Array
from npusim.isa.engines.engine import Problem
from npusim.isa.engines.kinds import engine_of
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.mac import Convolve, Depthwise
from npusim.kernels.lowering.blocks import Box, blocks, computed
from npusim.kernels.lowering.requantization_stage import OutputStage, common_fields, output_stage
from npusim.kernels.lowering.work import Constants, Parts, Rows, Tile, TileAddresses, Work, same_rows
from npusim.kernels.operator.operands import input_type, weight_zero
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.rescale import convolution_multipliers, fully_connected_multipliers

_FINE_CHANNELS = 32
"""Largest granularity of cuts by channels; a wider array may get tiles that do not fill it."""


Taken = Callable[[int, int], Constants]
"""A function that returns the constants of channels [first, last)."""


Boxes = Callable[[int, int], tuple[Box, ...]]
"""A function that returns the boxes of a weight tensor that hold the weights of channels [first, last)."""


def _supply(
    call: Call, stage: OutputStage, per_channel: int, boxes: Boxes, taken: Callable[[Array], Taken] | None
) -> dict[str, Any]:
    """Return the fields of a work that describe the constants of its tiles.

    `taken` gives the weights where weights and bias are constants; `per_channel` are the bytes of weights per channel.
    """
    if taken is None or computed(call):
        return blocks(call, stage, boxes).fields()
    size_bytes = partial(_bytes, per_channel, stage)
    weights = call.constants[1]
    if weights is SIZE_ONLY or any(data is SIZE_ONLY for data in call.constants.values()):
        return {"constants": partial(_absent, per_channel, size_bytes), "constant_bytes": size_bytes}
    return {"constants": taken(weights), "constant_bytes": size_bytes}


def _absent(per_channel: int, size_bytes: Callable[[int, int], int], first: int, last: int) -> Constants:
    return Constants(absent_bytes=size_bytes(first, last), absent_weights=per_channel * (last - first))


_STAGES = IdentityCache[OutputStage]()


def convolution_stage(call: Call) -> OutputStage:
    """Return the output stage of a convolution. It is the same on every machine, so it is remembered with the call."""
    return _STAGES.of(call, lambda call: output_stage(call, convolution_multipliers, "double"))


def in_bytes(work: Work, size: int) -> Work:
    """Return a work whose results have several bytes each.

    The scheduler counts a byte of a result as a channel, and does not cut through results.
    """
    if size == 1:
        return work

    def emit(tile: Tile, at: TileAddresses) -> Instruction | tuple[Instruction, ...]:
        first, last = tile.first_channel // size, tile.last_channel // size
        return work.emit(replace(tile, first_channel=first, last_channel=last), at)

    def counted(of: Callable[[int, int], Any]) -> Callable[[int, int], Any]:
        return lambda first, last: of(first // size, last // size)

    larger = [
        replace(
            rows,
            row_bytes=rows.row_bytes * size,
            offset_bytes=rows.offset_bytes * size,
            entry_bytes=rows.entry_bytes * size,
        )
        for rows in work.outputs
    ]
    return replace(
        work,
        channels=work.channels * size,
        channel_step=work.channel_step * size,
        last_resort=work.last_resort * size,
        outputs=tuple(larger),
        constants=counted(work.constants),
        constant_bytes=counted(work.constant_bytes),
        fetches=None if work.fetches is None else counted(work.fetches),
        emit=emit,
    )


_BESIDE_A_ROW = {"ifm_height": 1, "stride_height": 2, "dilation_height": 2, "pad_top": 1}
"""Fields of windows that cover padding only: they read rows -1, 1, 3, ... of a map of one row."""


@dataclass(frozen=True, slots=True)
class Window:
    """The geometry of a convolution over one image."""

    ifm_height: int
    ifm_width: int
    ifm_depth: int
    ofm_height: int
    ofm_width: int
    ofm_depth: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int]

    def rows_needed(self, first: int, last: int) -> tuple[int, int]:
        """Return the feature map rows that output rows [first, last) read."""
        start = first * self.strides[0] - self.pads[0]
        end = (last - 1) * self.strides[0] - self.pads[0] + (self.kernel[0] - 1) * self.dilations[0] + 1
        start = min(max(start, 0), self.ifm_height)
        return start, max(min(end, self.ifm_height), start)

    def fields(self, tile: Tile) -> dict[str, Any]:
        """Return the window fields of a tile; rows that the tile does not see count as padding."""
        first, last = self.rows_needed(tile.first_row, tile.last_row)
        rows = {
            "ifm_height": last - first,
            "stride_height": self.strides[0],
            "dilation_height": self.dilations[0],
            "pad_top": first - (tile.first_row * self.strides[0] - self.pads[0]),
        }
        return {
            **(rows if last > first else _BESIDE_A_ROW),
            "ifm_row_stride": self.ifm_width * self.ifm_depth,
            "ifm_pixel_stride": self.ifm_depth,
            "ifm_width": self.ifm_width,
            "ofm_height": tile.rows,
            "ofm_width": self.ofm_width,
            "ofm_depth": tile.channels,
            "kernel_height": self.kernel[0],
            "kernel_width": self.kernel[1],
            "stride_width": self.strides[1],
            "dilation_width": self.dilations[1],
            "pad_left": self.pads[1],
        }

    def problem(self, tile: Tile, by_channel: bool = False) -> Problem:
        """Return the problem that the MAC array solves for a tile."""
        return Problem(
            tile.rows,
            self.ofm_width,
            tile.channels,
            self.ifm_depth,
            *self.kernel,
            self.strides[1],
            self.dilations[1],
            by_channel,
            self.strides[0],
            self.dilations[0],
        )

    def maps(self, size: int = 1) -> tuple[Rows, Rows]:
        """Return the rows of feature map and output, image after image; `size` is the bytes of a feature map value."""
        ifm_bytes, ofm_bytes = self.ifm_width * self.ifm_depth * size, self.ofm_width * self.ofm_depth
        return (
            Rows(("in", 0), self.ifm_height, ifm_bytes, 0, self.ifm_height * ifm_bytes),
            Rows(("out", 0), self.ofm_height, ofm_bytes, 0, self.ofm_height * ofm_bytes),
        )


def map_bytes(call: Call) -> int:
    """Return the bytes of a feature map value of a quantized call."""
    return input_type(call).element.bits // 8


def wider(fields: dict[str, Any], size: int) -> dict[str, Any]:
    """Return the fields of a window whose feature map values have several bytes."""
    if size == 1:
        return fields
    return fields | {name: fields[name] * size for name in ("ifm_row_stride", "ifm_pixel_stride")}


def window_of(call: Call) -> Window:
    _, ifm_height, ifm_width, ifm_depth = input_type(call).shape
    _, ofm_height, ofm_width, ofm_depth = call.outputs[0].shape
    _, kernel_height, kernel_width, _ = input_type(call, 1).shape
    return Window(
        ifm_height,
        ifm_width,
        ifm_depth,
        ofm_height,
        ofm_width,
        ofm_depth,
        (kernel_height, kernel_width),
        call.parameters.strides,
        call.parameters.dilations,
        (call.parameters.padding[0][0], call.parameters.padding[1][0]),
    )


def fastest_layout(hardware: Hardware, problem: Problem) -> dict[str, Any]:
    """Return the fields that select the array's fastest way to solve a problem."""
    array = hardware.mac_array
    return engine_of(array).fastest(array, problem)._asdict()


def product(rows: int, inner: int, channels: int) -> Problem:
    """Return a matrix product as a problem of the array: a convolution of pixels of one row."""
    return Problem(1, rows, channels, inner, 1, 1)


def channel_step(hardware: Hardware) -> int:
    """Return the granularity of cuts by channels: as many as the array computes at once, or a part of that."""
    columns = engine_of(hardware.mac_array).width(hardware.mac_array)
    while columns > _FINE_CHANNELS:
        columns //= 2
    return columns


def lower_convolution(call: Call, hardware: Hardware) -> Parts:
    """Lower a convolution with weights [O, kh, kw, I]: tiles of rows and of output channels."""
    stage = convolution_stage(call)
    window = window_of(call)
    inner = window.kernel[0] * window.kernel[1] * window.ifm_depth
    size = map_bytes(call)
    common = {**common_fields(call, stage, hardware), "ifm_depth": window.ifm_depth}

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        ofm_address, ofm_row_stride, ofm_pixel_stride = at.outputs[0]
        return Convolve(
            ifm=at.inputs[0],
            parameters=at.constants,
            weights=at.constants + stage.parameter_bytes(tile.first_channel, tile.last_channel),
            ofm=ofm_address,
            ofm_row_stride=ofm_row_stride,
            ofm_pixel_stride=ofm_pixel_stride,
            **fastest_layout(hardware, window.problem(tile)),
            **common,
            **wider(window.fields(tile), size),
        )

    ifm, ofm = window.maps(size)
    work = Work(
        rows=window.ofm_height,
        channels=window.ofm_depth,
        channel_step=channel_step(hardware),
        inputs=((ifm, window.rows_needed),),
        outputs=(ofm,),
        emit=emit,
        last_resort=1,
        entries=input_type(call).shape[0],
        alike=alike(call, "convolution", window, stage.per_channel),
        **_supply(call, stage, inner, output_major(inner), _taken(_output_major, call, stage)),
    )
    return (in_bytes(work, stage.result_bytes),)


def output_major(inner: int) -> Boxes:
    """Return how weights of `inner` values per output channel are found, channel after channel."""
    return lambda first, last: (Box(first * inner, ((last - first) * inner,)),)


def _taken(arranged: Any, call: Call, stage: OutputStage) -> Callable[[Array], Taken]:
    return partial(partial, arranged, stage, weight_zero(call))


def _output_major(stage: OutputStage, zero_point: int, weights: Array, first: int, last: int) -> Constants:
    """Return the parameters of output channels [first, last), then their weights [O, ...]."""
    part = weights[first:last]
    return Constants(stage.parameters(first, last), part, zero_point, weights, first * weights[0].size)


def _channels_last(stage: OutputStage, zero_point: int, weights: Array, first: int, last: int) -> Constants:
    """Return the parameters of output channels [first, last), then their weights [..., O]."""
    part = weights if last - first == weights.shape[-1] else np.ascontiguousarray(weights[..., first:last])
    return Constants(stage.parameters(first, last), part, zero_point)


def alike(call: Call, *what: Hashable) -> Hashable:
    """Return the cache key for the sizes and computing cycles of a call's tiles on one MAC array.

    what: the lowering, and the sizes that determine them. Requantization, types, batch and the constant operands are
    added.
    """
    types = input_type(call).dtype, call.outputs[0].dtype
    supply = computed(call), 1 in call.constants
    return (*what, call.parameters.rescale, *types, input_type(call).shape[0], *supply)


def _bytes(per_channel: int, stage: OutputStage, first: int, last: int) -> int:
    return per_channel * (last - first) + stage.parameter_bytes(first, last)


def lower_depthwise(call: Call, hardware: Hardware) -> Parts:
    """Lower a depthwise convolution with weights [1, kh, kw, O]."""
    _, height, width, channels = input_type(call, 1).shape
    taps = height * width

    def boxes(first: int, last: int) -> tuple[Box, ...]:
        return (Box(first, (taps, last - first), (channels,)),)

    return _by_channel(call, hardware, boxes, _channels_last)


def lower_groups_of_one(call: Call, hardware: Hardware) -> Parts:
    """Lower a convolution whose filters [O, kh, kw, 1] see one channel each."""
    _, height, width, _ = input_type(call, 1).shape
    taps = height * width

    def boxes(first: int, last: int) -> tuple[Box, ...]:
        return (Box(first * taps, (taps, last - first, 1), (1, taps)),)

    return _by_channel(call, hardware, boxes)


def _by_channel(call: Call, hardware: Hardware, boxes: Boxes, arranged: Any = None) -> Parts:
    """Lower a depthwise convolution: tiles of rows, with all channels where they fit.

    The feature map then stays whole. Otherwise it is cut by channels if each output channel has an input channel of its
    own.
    """
    stage = convolution_stage(call)
    window = window_of(call)
    taps = window.kernel[0] * window.kernel[1]
    common = common_fields(call, stage, hardware)
    size = map_bytes(call)
    sliced = window.ifm_depth == window.ofm_depth

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        ofm_address, ofm_row_stride, ofm_pixel_stride = at.outputs[0]
        depth = tile.channels if at.sliced else window.ifm_depth
        fields = wider(replace(window, ifm_depth=depth).fields(tile), size)
        layout = fastest_layout(hardware, window.problem(tile, by_channel=True))
        del layout["output_stationary"]
        return Depthwise(
            ifm=at.inputs[0],
            parameters=at.constants,
            weights=at.constants + stage.parameter_bytes(tile.first_channel, tile.last_channel),
            ofm=ofm_address,
            ofm_row_stride=ofm_row_stride,
            ofm_pixel_stride=ofm_pixel_stride,
            ifm_depth=depth,
            **layout,
            **common,
            **fields,
        )

    ifm, ofm = window.maps(size)
    work = Work(
        rows=window.ofm_height,
        channels=window.ofm_depth,
        channel_step=0,
        inputs=((ifm, window.rows_needed),),
        outputs=(ofm,),
        emit=emit,
        last_resort=1 if sliced else 0,
        sliced=sliced,
        entries=input_type(call).shape[0],
        alike=alike(call, "depthwise", window, stage.per_channel, sliced, arranged is None),
        **_supply(call, stage, taps, boxes, None if arranged is None else _taken(arranged, call, stage)),
    )
    return (in_bytes(work, stage.result_bytes),)


ONE_COLUMN = dict.fromkeys(
    (
        *("ifm_width", "ofm_width", "kernel_height", "kernel_width"),
        *("stride_height", "stride_width", "dilation_height", "dilation_width"),
    ),
    1,
)
"""Fields of a product of matrices: a 1 x 1 convolution over an image of one column, a row of it per row."""


def lower_matrix_product(call: Call, hardware: Hardware) -> Parts:
    """Lower a fully connected layer: a 1 x 1 convolution over an image of one column, one row per input row."""
    stage = output_stage(call, fully_connected_multipliers, "single")
    units, inner = input_type(call, 1).shape
    rows, row_bytes = input_type(call).elements // inner, inner * map_bytes(call)
    common: dict[str, Any] = {
        **common_fields(call, stage, hardware),
        "ifm_row_stride": row_bytes,
        "ifm_pixel_stride": row_bytes,
        "ifm_depth": inner,
        **ONE_COLUMN,
    }

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        ofm_address, ofm_row_stride, ofm_pixel_stride = at.outputs[0]
        return Convolve(
            ifm=at.inputs[0],
            ifm_height=tile.rows,
            parameters=at.constants,
            weights=at.constants + stage.parameter_bytes(tile.first_channel, tile.last_channel),
            ofm=ofm_address,
            ofm_row_stride=ofm_row_stride,
            ofm_pixel_stride=ofm_pixel_stride,
            ofm_height=tile.rows,
            ofm_depth=tile.channels,
            **fastest_layout(hardware, product(tile.rows, inner, tile.channels)),
            **common,
        )

    work = Work(
        rows=rows,
        channels=units,
        channel_step=channel_step(hardware),
        inputs=((Rows(("in", 0), rows, row_bytes), same_rows),),
        outputs=(Rows(("out", 0), rows, units),),
        emit=emit,
        last_resort=1,
        alike=alike(call, "matrix product", rows, inner, units, stage.per_channel),
        **_supply(call, stage, inner, output_major(inner), _taken(_output_major, call, stage)),
    )
    return (in_bytes(work, stage.result_bytes),)
