"""How convolutions and matrix products become instructions of the MAC array."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import Rounding
from npusim.isa.base.tensor import SIZE_ONLY, Array, TensorType
from npusim.isa.engines.engine import Problem
from npusim.isa.engines.kinds import engine_of
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.mac import Convolve, Depthwise
from npusim.kernels.lowering.work import Constants, Parts, Rows, Tile, TileAddresses, Work, same_rows
from npusim.kernels.operator.activation import act_range
from npusim.kernels.operator.operands import input_type, quantization, weight_zero
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.rescale import convolution_multipliers, fully_connected_multipliers

_FINE_CHANNELS = 32
"""Cuts by channels need be no coarser, however wide the array is."""


@dataclass(frozen=True, slots=True)
class OutputStage:
    """What happens to an accumulator: bias, rescale, clamp. Arrays have one entry, or one per output channel.

    bias: one value per output channel; None where it is known by its size only.
    """

    bias: NDArray[np.int32] | None
    multiplier: NDArray[np.int32]
    shift: NDArray[np.int8]
    low: int
    high: int
    rounding: Rounding

    @property
    def per_channel(self) -> bool:
        """Whether each channel has a scale of its own."""
        return len(self.multiplier) > 1

    def parameters(self, first: int, last: int) -> bytes:
        """The parameter block of channels [first, last), for a bias that is known."""
        assert self.bias is not None
        part = slice(first, last) if self.per_channel else slice(None)
        return b"".join(
            (
                self.bias[first:last].astype("<i4").tobytes(),
                self.multiplier[part].astype("<i4").tobytes(),
                self.shift[part].astype(np.int8).tobytes(),
            )
        )

    def constants(self, first: int, last: int) -> Constants:
        """That block, or its size, as constants of work whose weights are none."""
        if self.bias is None:
            return Constants(absent_bytes=self.parameter_bytes(first, last))
        return Constants(self.parameters(first, last))

    def parameter_bytes(self, first: int, last: int) -> int:
        """Bytes of that block."""
        return 9 * (last - first) if self.per_channel else 4 * (last - first) + 5


def output_stage(
    call: Call, multipliers: tuple[NDArray[np.int64], NDArray[np.int64]], rounding: Rounding
) -> OutputStage:
    """The output stage of a call with a bias as third input, or none; equal scales of all channels become one."""
    multiplier, shift = multipliers
    channels = call.outputs[0].shape[-1]
    bias = call.constants.get(2)
    values = np.zeros(channels, np.int32) if bias is None else None
    if bias is not None and bias is not SIZE_ONLY:
        values = bias.astype(np.int32).reshape(channels)
    if len(multiplier) > 1 and (multiplier == multiplier[0]).all() and (shift == shift[0]).all():
        multiplier, shift = multiplier[:1], shift[:1]
    low, high = act_range(call.parameters.activation, call.outputs[0])
    return OutputStage(values, multiplier.astype(np.int32), shift.astype(np.int8), low, high, rounding)


Taken = Callable[[int, int], Constants]
"""The constants of channels [first, last)."""


def _where_known(call: Call, size_bytes: Callable[[int, int], int], taken: Callable[[Array], Taken]) -> Taken:
    """The constants `taken` from the weights, or their size where a constant is known by that only."""
    weights = call.constants[1]
    if weights is SIZE_ONLY or any(data is SIZE_ONLY for data in call.constants.values()):
        return lambda first, last: Constants(absent_bytes=size_bytes(first, last))
    return taken(weights)


def _convolution_stage(call: Call) -> OutputStage:
    multipliers = convolution_multipliers(input_type(call), input_type(call, 1), call.outputs[0])
    return output_stage(call, multipliers, "double")


def _signed(tensor: TensorType) -> int:
    return int(tensor.dtype == "int8")


def common_fields(call: Call, stage: OutputStage) -> dict[str, Any]:
    """The fields that all tiles of a call share."""
    ifm, ofm, weights = input_type(call), call.outputs[0], input_type(call, 1)
    return {
        "ifm_zero": quantization(ifm).zero_point,
        "weight_zero": weight_zero(call),
        "ofm_zero": quantization(ofm).zero_point,
        "low": stage.low,
        "high": stage.high,
        "signed": _signed(ifm),
        "weights_signed": _signed(weights),
        "rounding": int(stage.rounding == "single"),
        "per_channel": int(stage.per_channel),
    }


@dataclass(frozen=True, slots=True)
class _Window:
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
        """Feature-map rows that output rows [first, last) read."""
        start = first * self.strides[0] - self.pads[0]
        end = (last - 1) * self.strides[0] - self.pads[0] + (self.kernel[0] - 1) * self.dilations[0] + 1
        start = min(max(start, 0), self.ifm_height)
        return start, max(min(end, self.ifm_height), start)

    def fields(self, tile: Tile) -> dict[str, Any]:
        """The window fields of a tile; rows that the tile does not see count as padding."""
        first, last = self.rows_needed(tile.first_row, tile.last_row)
        return {
            "ifm_row_stride": self.ifm_width * self.ifm_depth,
            "ifm_pixel_stride": self.ifm_depth,
            "ifm_height": max(last - first, 1),
            "ifm_width": self.ifm_width,
            "ofm_height": tile.rows,
            "ofm_width": self.ofm_width,
            "ofm_depth": tile.channels,
            "kernel_height": self.kernel[0],
            "kernel_width": self.kernel[1],
            "stride_height": self.strides[0],
            "stride_width": self.strides[1],
            "dilation_height": self.dilations[0],
            "dilation_width": self.dilations[1],
            "pad_top": first - (tile.first_row * self.strides[0] - self.pads[0]),
            "pad_left": self.pads[1],
        }

    def problem(self, tile: Tile, by_channel: bool = False) -> Problem:
        """What the array has to compute for a tile."""
        return Problem(
            tile.rows,
            self.ofm_width,
            tile.channels,
            self.ifm_depth,
            *self.kernel,
            self.strides[1],
            self.dilations[1],
            by_channel,
        )

    def maps(self) -> tuple[Rows, Rows]:
        """The rows of the feature map and of the output; images lie one behind the other."""
        ifm_bytes, ofm_bytes = self.ifm_width * self.ifm_depth, self.ofm_width * self.ofm_depth
        return (
            Rows(("in", 0), self.ifm_height, ifm_bytes, 0, self.ifm_height * ifm_bytes),
            Rows(("out", 0), self.ofm_height, ofm_bytes, 0, self.ofm_height * ofm_bytes),
        )


def _window(call: Call) -> _Window:
    _, ifm_height, ifm_width, ifm_depth = input_type(call).shape
    _, ofm_height, ofm_width, ofm_depth = call.outputs[0].shape
    _, kernel_height, kernel_width, _ = input_type(call, 1).shape
    return _Window(
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
    """The fields of a MAC instruction that say how the array solves a problem fastest."""
    array = hardware.mac_array
    return engine_of(array).fastest(array, problem)._asdict()


def product(rows: int, inner: int, channels: int) -> Problem:
    """A matrix product as a problem of the array: a convolution of pixels of one row."""
    return Problem(1, rows, channels, inner, 1, 1)


def channel_step(hardware: Hardware) -> int:
    """The granularity of cuts by channels: those that the array computes side by side, or a part of a wide one's."""
    columns = engine_of(hardware.mac_array).width(hardware.mac_array)
    while columns > _FINE_CHANNELS:
        columns //= 2
    return columns


def lower_convolution(call: Call, hardware: Hardware) -> Parts:
    """A convolution: tiles of rows and of output channels; weights [O, kh, kw, I] as they are."""
    stage = _convolution_stage(call)
    window = _window(call)
    inner = window.kernel[0] * window.kernel[1] * window.ifm_depth
    size_bytes = partial(_bytes, inner, stage)
    common = {**common_fields(call, stage), "ifm_depth": window.ifm_depth}

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
            **window.fields(tile),
        )

    ifm, ofm = window.maps()
    work = Work(
        rows=window.ofm_height,
        channels=window.ofm_depth,
        channel_step=channel_step(hardware),
        inputs=((ifm, window.rows_needed),),
        outputs=(ofm,),
        constants=_where_known(call, size_bytes, partial(partial, _output_major, stage, weight_zero(call))),
        constant_bytes=size_bytes,
        emit=emit,
        last_resort=1,
        entries=input_type(call).shape[0],
        alike=_alike(call, hardware, "convolution", window, stage.per_channel),
    )
    return (work,)


def _output_major(stage: OutputStage, zero_point: int, weights: Array, first: int, last: int) -> Constants:
    """The parameters of output channels [first, last), then their weights [O, ...]."""
    part = weights[first:last]
    return Constants(stage.parameters(first, last), part, zero_point, weights, first * weights[0].size)


def _channels_last(stage: OutputStage, zero_point: int, weights: Array, first: int, last: int) -> Constants:
    """The parameters of output channels [first, last), then their weights [..., O]."""
    part = weights if last - first == weights.shape[-1] else np.ascontiguousarray(weights[..., first:last])
    return Constants(stage.parameters(first, last), part, zero_point)


def _alike(call: Call, hardware: Hardware, *what: Hashable) -> Hashable:
    """What tiles of a call cost follows from `what`, its batch, and how far its weights pack, where they do."""
    packs = hardware.dma.decoder_bytes_per_cycle and call.constants[1] is not SIZE_ONLY
    return None if packs else (*what, input_type(call).shape[0])


def _bytes(per_channel: int, stage: OutputStage, first: int, last: int) -> int:
    return per_channel * (last - first) + stage.parameter_bytes(first, last)


def lower_depthwise(call: Call, hardware: Hardware) -> Parts:
    """A depthwise convolution: tiles of rows; all channels together where they fit, so that the feature map stays
    whole, else slices of the map if each output channel has an input channel of its own.
    """
    stage = _convolution_stage(call)
    window = _window(call)
    taps = window.kernel[0] * window.kernel[1]
    common = common_fields(call, stage)
    sliced = window.ifm_depth == window.ofm_depth

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        ofm_address, ofm_row_stride, ofm_pixel_stride = at.outputs[0]
        depth = tile.channels if at.sliced else window.ifm_depth
        fields = replace(window, ifm_depth=depth).fields(tile)
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

    size_bytes = partial(_bytes, taps, stage)
    ifm, ofm = window.maps()
    work = Work(
        rows=window.ofm_height,
        channels=window.ofm_depth,
        channel_step=0,
        inputs=((ifm, window.rows_needed),),
        outputs=(ofm,),
        constants=_where_known(call, size_bytes, partial(partial, _channels_last, stage, weight_zero(call))),
        constant_bytes=size_bytes,
        emit=emit,
        last_resort=1 if sliced else 0,
        sliced=sliced,
        entries=input_type(call).shape[0],
        alike=_alike(call, hardware, "depthwise", window, stage.per_channel),
    )
    return (work,)


ONE_COLUMN = dict.fromkeys(
    (
        *("ifm_width", "ofm_width", "kernel_height", "kernel_width"),
        *("stride_height", "stride_width", "dilation_height", "dilation_width"),
    ),
    1,
)
"""Fields of a product of matrices: a 1 x 1 convolution over an image of one column, a row of it per row."""


def lower_matrix_product(call: Call, hardware: Hardware) -> Parts:
    """A fully connected layer: a 1 x 1 convolution over an image of one column, one row per input row."""
    multipliers = fully_connected_multipliers(input_type(call), input_type(call, 1), call.outputs[0])
    stage = output_stage(call, multipliers, "single")
    units, inner = input_type(call, 1).shape
    rows = input_type(call).elements // inner
    size_bytes = partial(_bytes, inner, stage)
    common: dict[str, Any] = {
        **common_fields(call, stage),
        "ifm_row_stride": inner,
        "ifm_pixel_stride": inner,
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
        inputs=((Rows(("in", 0), rows, inner), same_rows),),
        outputs=(Rows(("out", 0), rows, units),),
        constants=_where_known(call, size_bytes, partial(partial, _output_major, stage, weight_zero(call))),
        constant_bytes=size_bytes,
        emit=emit,
        last_resort=1,
        alike=_alike(call, hardware, "matrix product", rows, inner, units, stage.per_channel),
    )
    return (work,)
