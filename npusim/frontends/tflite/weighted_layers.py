"""Parameters of TFLite's convolutions, pools, products and recurrent cells; weights and biases that LiteRT refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from npusim.frontends.bias_scales import bias_fault, products
from npusim.frontends.tflite.layer import ACTIVATIONS, Layer, Parameters
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.graph import UNRANKED
from npusim.kernels.graph.inference import fits
from npusim.kernels.operator.geometry import same_padding

PADDINGS = {0: "SAME", 1: "VALID"}
PAIRS = {
    "strides": ("StrideH", "StrideW"),
    "dilations": ("DilationHFactor", "DilationWFactor"),
    "filter": ("FilterHeight", "FilterWidth"),
}
"""The options that are the two numbers of a window's parameter."""
_WEIGHTS_FORMATS = {0: "default"}
_MOST_STEP = (1 << 15) - 1
"""Largest stride and dilation of a convolution; with larger ones LiteRT's 32-bit sizes overflow."""


def _padding(
    layer: Layer, image: TensorType, kernel: list[int], strides: list[int], dilations: list[int]
) -> list[tuple[int, int]]:
    """Return ((top, bottom), (left, right)) for a window that slides over an NHWC image."""
    if layer.choice("Padding", PADDINGS) == "VALID":
        return [(0, 0), (0, 0)]
    sizes = image.shape[1:3]
    return [same_padding(*axis) for axis in zip(sizes, kernel, strides, dilations, strict=True)]


def _pair(layer: Layer, name: str, most: int | None = None) -> list[int]:
    """Return a parameter of a window, such as its strides, as [height, width]."""
    return [layer.whole(option, 1, most) for option in PAIRS[name]]


def _kernel(layer: Layer, position: int) -> list[int]:
    """Return height and width of a filter [out, height, width, in]."""
    return list(layer.input(position, rank=4).shape[1:3])


def _weights(layer: Layer, position: int) -> None:
    """Refuse 8-bit weights as LiteRT does: of another type than the feature map, or uint8 with a scale per channel."""
    ifm, weights = layer.input(0), layer.input(position)
    if ifm.dtype not in ("int8", "uint8"):
        return
    if weights.dtype != ifm.dtype:
        layer.fail(f"weights are {weights.dtype}, the feature map is {ifm.dtype}; they must be alike")
    if ifm.dtype == "uint8" and _by_channel(weights):
        layer.fail(f"weights have {len(_scales(weights))} scales, uint8 weights must have one")


def _scales(operand: TensorType) -> tuple[float, ...]:
    return () if operand.quantization is None else operand.quantization.scales


def _by_channel(operand: TensorType) -> bool:
    return operand.quantization is not None and operand.quantization.axis is not None


def _without_zero_point(layer: Layer, position: int) -> dict[int, TensorType]:
    """Return int8 weights with zero points 0, which the kernel assumes whatever the file says."""
    weights = layer.input(position)
    scaling = weights.quantization
    if weights.dtype != "int8" or scaling is None or not any(scaling.zero_points):
        return {}
    symmetric = replace(scaling, zero_points=(0,) * len(scaling.zero_points))
    return {position: replace(weights, quantization=symmetric)}


def symmetric_weights(layer: Layer) -> dict[int, TensorType]:
    """Return the weights of depthwise and transposed convolutions as their kernels read them."""
    return _without_zero_point(layer, 1)


def matrix(layer: Layer) -> dict[int, TensorType]:
    """Return the weights of fully connected layers; their kernel reads zero points only with one scale."""
    return _without_zero_point(layer, 1) if _by_channel(layer.input(1)) else {}


def convolution(layer: Layer) -> Parameters:
    """Return strides, dilations, padding and activation of CONV_2D.

    int8 weights with a zero point other than 0 are refused, as by LiteRT, whose kernel would not subtract it.
    """
    scaling = layer.input(1).quantization
    if layer.input(0).dtype == "int8" and scaling is not None and any(scaling.zero_points):
        nonzero = next(point for point in scaling.zero_points if point)
        layer.fail(f"weights have the zero point {nonzero}, those of an int8 convolution must be 0")
    return _window(layer)


def _window(layer: Layer) -> Parameters:
    strides = _pair(layer, "strides", _MOST_STEP)
    dilations = _pair(layer, "dilations", _MOST_STEP)
    padding = _padding(layer, layer.input(0, rank=4), _kernel(layer, 1), strides, dilations)
    _weights(layer, 1)
    window = {"strides": strides, "dilations": dilations, "padding": padding}
    return {**window, **layer.activation(), **layer.dynamic_range(flag="")}


def depthwise_convolution(layer: Layer) -> Parameters:
    """Return the parameters of DEPTHWISE_CONV_2D: those of CONV_2D, and the filters per input channel."""
    channels, filters = layer.input(0, rank=4).shape[3], layer.input(1, rank=4).shape[3]
    # Derived from the shapes, as in LiteRT's kernels: old files do not have the option.
    if not channels or filters % channels:
        layer.fail(f"{filters} filters for {channels} channels, must be a multiple")
    return {**_window(layer), "depth_multiplier": filters // channels}


def transposed_convolution(layer: Layer) -> Parameters:
    """Return strides, padding, output size and activation of TRANSPOSE_CONV.

    The padding is that of the convolution whose input has the size of this output.
    """
    output = layer.outputs[0] if layer.is_constant(0) else layer.output(rank=4)
    if layer.is_constant(0):
        shape = layer.integers(0, "output shape", 4)
        if not fits(output.shape or UNRANKED, tuple(shape)):
            layer.fail(f"output shape {list(output.shape)}, its operand says {shape}")
        output = replace(output, shape=tuple(shape))
    strides = _pair(layer, "strides")
    padding = _padding(layer, output, _kernel(layer, 1), strides, [1, 1])
    return {"strides": strides, "padding": padding, "size": output.shape[1:3], **layer.activation()}


def pooling(layer: Layer) -> Parameters:
    """Return window size, strides, padding and activation of AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D."""
    window = _pair(layer, "filter")
    strides = _pair(layer, "strides")
    padding = _padding(layer, layer.input(0, rank=4), window, strides, [1, 1])
    return {"filter": window, "strides": strides, "padding": padding, **layer.activation()}


def fully_connected(layer: Layer) -> Parameters:
    """Return activation, `keep_num_dims` and dynamic quantization of FULLY_CONNECTED; sizes follow from the weights."""
    layer.choice("WeightsFormat", _WEIGHTS_FORMATS)
    _weights(layer, 1)
    dims = {"keep_num_dims": layer.flag("KeepNumDims")}
    return {**layer.activation(), **dims, **layer.dynamic_range()}


def matrix_product(layer: Layer) -> Parameters:
    """Return the transposed factors and dynamic quantization of BATCH_MATMUL."""
    return {"adj_x": layer.flag("AdjX"), "adj_y": layer.flag("AdjY"), **layer.dynamic_range()}


# Recurrent cells

_FUNCTIONS = {**ACTIVATIONS, 4: "tanh"}
_FULL_KERNEL = 0
_FORGET_WEIGHTS = 2
"""The operand of the forget gate's weights, which every cell has, unlike those of the input gate."""


def _scale_and_zero_point(operand: TensorType) -> list[float | int] | None:
    quantization = operand.quantization
    return None if quantization is None else [quantization.scale, quantization.zero_point]


def _function(layer: Layer) -> Parameters:
    return {"activation": layer.choice("FusedActivationFunction", _FUNCTIONS)}


def _cell(layer: Layer) -> Parameters:
    clips = {"cell_clip": layer.real("CellClip"), "proj_clip": layer.real("ProjClip")}
    return {**_function(layer), **clips, **layer.dynamic_range(_FORGET_WEIGHTS)}


def lstm(layer: Layer) -> Parameters:
    """Return the parameters of LSTM, one step. The basic kernel, which has other operands, is refused."""
    if int(layer.option("KernelType")) != _FULL_KERNEL:
        layer.fail("KernelType is 1 (BASIC), may be 0 (FULL)")
    return _cell(layer)


def sequence_lstm(layer: Layer) -> Parameters:
    """Return the parameters of UNIDIRECTIONAL_SEQUENCE_LSTM."""
    if layer.flag("DiagonalRecurrentTensors"):
        layer.fail("DiagonalRecurrentTensors is true, may be false")
    return {
        **_cell(layer),
        "time_major": layer.flag("TimeMajor"),
        "intermediates": [_scale_and_zero_point(operand) for operand in layer.intermediates],
    }


def _both_ways(layer: Layer) -> Parameters:
    return {"time_major": layer.flag("TimeMajor"), "merge_outputs": layer.flag("MergeOutputs")}


def bidirectional_lstm(layer: Layer) -> Parameters:
    """Return the parameters of BIDIRECTIONAL_SEQUENCE_LSTM."""
    return {**_cell(layer), **_both_ways(layer)}


def rnn(layer: Layer) -> Parameters:
    """Return the parameters of RNN, one step."""
    return {**_function(layer), **layer.dynamic_range()}


def sequence_rnn(layer: Layer) -> Parameters:
    """Return the parameters of UNIDIRECTIONAL_SEQUENCE_RNN."""
    return {**rnn(layer), "time_major": layer.flag("TimeMajor")}


def bidirectional_rnn(layer: Layer) -> Parameters:
    """Return the parameters of BIDIRECTIONAL_SEQUENCE_RNN."""
    return {**rnn(layer), **_both_ways(layer)}


def svdf(layer: Layer) -> Parameters:
    """Return the parameters of SVDF."""
    return {**rnn(layer), "rank": layer.whole("Rank", 1)}


WEIGHTED = ("conv_2d", "depthwise_conv_2d", "transpose_conv", "fully_connected")
"""Operators with input, weights and bias."""

_MOST_APART = 0.02
"""Largest distance of bias and accumulator scale, relative to the output scale, that LiteRT allows (kernel_util.cc)."""


def bias_note(op: str, kinds: Sequence[TensorType | None], output: TensorType, where: str) -> str | None:
    """Return a note about the bias if its scale is not that of the accumulator; else None.

    kinds: types of input, weights and bias.

    Raises GraphError for a scale that LiteRT refuses, which it checks for per-tensor weights in fully connected layers
    and in convolutions of uint8 values.
    """
    ifm, weights, bias = (None if kind is None else kind.quantization for kind in kinds)
    if ifm is None or weights is None or bias is None or kinds[2] is None or output.quantization is None:
        return None
    fault = bias_fault(kinds[2].dtype, bias, ifm, weights)
    if fault is None or kinds[2].dtype != "int32":
        return None
    is_checked = op == "fully_connected" or (op != "transpose_conv" and output.dtype == "uint8")
    apart = np.abs(products(ifm, weights).astype(np.float64)[0] - bias.scales[0]) / output.quantization.scale
    if is_checked and len(weights.scales) == 1 and apart > _MOST_APART:
        raise GraphError(f"{where}: {fault}")
    return f"{where}: {fault}. LiteRT adds it to the sum as it is, and so does npusim"
