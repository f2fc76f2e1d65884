"""Parameters of TFLite's recurrent operators."""

from __future__ import annotations

from npusim.frontends.tflite.layer import ACTIVATIONS, Layer, Parameters
from npusim.isa.base.tensor import TensorType

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
    """LSTM: one step; the basic kernel has other operands."""
    if int(layer.option("KernelType")) != _FULL_KERNEL:
        layer.fail("KernelType is 1 (BASIC), may be 0 (FULL)")
    return _cell(layer)


def sequence_lstm(layer: Layer) -> Parameters:
    """UNIDIRECTIONAL_SEQUENCE_LSTM."""
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
    """BIDIRECTIONAL_SEQUENCE_LSTM."""
    return {**_cell(layer), **_both_ways(layer)}


def rnn(layer: Layer) -> Parameters:
    """RNN: one step."""
    return {**_function(layer), **layer.dynamic_range()}


def sequence_rnn(layer: Layer) -> Parameters:
    """UNIDIRECTIONAL_SEQUENCE_RNN."""
    return {**rnn(layer), "time_major": layer.flag("TimeMajor")}


def bidirectional_rnn(layer: Layer) -> Parameters:
    """BIDIRECTIONAL_SEQUENCE_RNN."""
    return {**rnn(layer), **_both_ways(layer)}


def svdf(layer: Layer) -> Parameters:
    """SVDF."""
    return {**rnn(layer), "rank": layer.whole("Rank", 1)}
