"""How each operator is said in TFLite: its code, and the operands that its parameters become.

Options have the parameters' names in the schema's spelling, and operands stand where the reader's table has them: only
what is neither is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from npusim.frontends.rewriting import dropped_axes
from npusim.frontends.tflite.layer import ACTIVATIONS
from npusim.frontends.tflite.operators import OPERATORS
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.parameters import NO_BORDERS, Parameters

_FUNCTIONS = {**{name: number for number, name in ACTIVATIONS.items()}, "tanh": 4}
_POSITIONS = {"int32": 2, "int64": 4}
_INT32 = 2
"""The schema's TensorType of int32."""
_MIRRORS = {"reflect": 0, "symmetric": 1}
_PAIRS = {
    "strides": ("StrideH", "StrideW"),
    "dilations": ("DilationHFactor", "DilationWFactor"),
    "filter": ("FilterHeight", "FilterWidth"),
}
"""The options that a pair of a window becomes."""


@dataclass(frozen=True, slots=True)
class Said:
    """An operator of the file, but for its tensors.

    constants: the operands that a parameter becomes, by their position.
    fields:    options that are not called as a parameter is.
    codes:     those of the constants that are codes of the result.
    options:   the table of the options, where the reader needs none.
    operands:  how many LiteRT wants, with those that are absent; 0 for as many as are there.
    """

    code: str
    constants: Mapping[int, Array] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    codes: tuple[int, ...] = ()
    options: str = ""
    operands: int = 0
    custom_options: bytes = b""
    intermediates: tuple[TensorType, ...] = ()


Say = Callable[[Call], Said]


def said(op: str, call: Call) -> Said:
    """An operator in TFLite's words. Raises GraphError where TFLite has no operator for it."""
    say = _SAY.get(op)
    if say is not None:
        return _with_sums(op, call, say(call))
    code = _BY_NAME.get(op)
    if code is None:
        raise GraphError(f"TFLite has no operator for {op}")
    return _with_sums(op, call, Said(code))


def _with_sums(op: str, call: Call, operator: Said) -> Said:
    """An operator that says by an option that sums of int16 values have 32 bits, as its bias has."""
    if op not in ("conv_2d", "fully_connected", "transpose_conv") or not narrow_bias(call.inputs):
        return operator
    return replace(operator, fields={**operator.fields, "QuantizedBiasType": _INT32})


def narrow_bias(inputs: Sequence[TensorType | None]) -> bool:
    """Whether the operands of a weighted sum are an int16 feature map and an int32 bias."""
    image, bias = inputs[0], inputs[2] if len(inputs) > 2 else None
    return image is not None and bias is not None and (image.dtype, bias.dtype) == ("int16", "int32")


def options_of(how: Parameters, names: tuple[str, ...]) -> dict[str, Any]:
    """The options among `names` that are called as a parameter is, in the schema's spelling."""
    values = {"".join(map(str.title, name.split("_"))): value for name, value in vars(how).items()}
    values = {name: value for name, value in values.items() if not isinstance(value, tuple | str)}
    if hasattr(how, "activation"):
        values["FusedActivationFunction"] = _FUNCTIONS[how.activation]
    values["PotScaleInt16"] = how.rescale == "power_of_two"
    values["AsymmetricQuantizeInputs"] = how.rescale == "dynamic_asymmetric"
    return {name: value for name, value in values.items() if name in names}


def _int32(values: Any) -> Array:
    return np.asarray(values, np.int32)


def _axes(code: str) -> Say:
    return lambda call: Said(code, {1: _int32(call.parameters.axes)})


def _position(code: str) -> Say:
    def say(call: Call) -> Said:
        kind = _POSITIONS.get(call.outputs[0].dtype)
        if kind is None:
            raise GraphError(f"TFLite's positions are int32 or int64, not {call.outputs[0].dtype}")
        return Said(code, {1: _int32(call.parameters.axis)}, {"OutputType": kind})

    return say


def _window(code: str) -> Say:
    def say(call: Call) -> Said:
        return Said(code, fields=_steps(call.parameters, tuple(_PAIRS)))

    return say


def _steps(how: Any, names: tuple[str, ...]) -> dict[str, int]:
    """The options of a window: its padding, and the pairs among `names` that it has."""
    fields = {"Padding": 1 if how.padding == NO_BORDERS else 0}
    for name in names:
        if hasattr(how, name):
            fields |= dict(zip(_PAIRS[name], getattr(how, name), strict=True))
    return fields


def _transposed(call: Call) -> Said:
    shape = _int32(call.outputs[0].shape)
    return Said("TRANSPOSE_CONV", {0: shape}, _steps(call.parameters, ("strides",)))


def _pad(call: Call) -> Said:
    how = call.parameters
    paddings = _int32(how.paddings).reshape(-1, 2)
    if how.pad_value is None:
        return Said("PAD", {1: paddings})
    value = np.array([how.pad_value], call.outputs[0].numpy_dtype)
    return Said("PADV2", {1: paddings, 2: value}, codes=(2,))


def _mirror_pad(call: Call) -> Said:
    how = call.parameters
    return Said("MIRROR_PAD", {1: _int32(how.paddings).reshape(-1, 2)}, {"Mode": _MIRRORS[how.mode]})


def _strided_slice(call: Call) -> Said:
    """An end before the first element cannot be numbered, so its mask says it."""
    how = call.parameters
    ends = [first + size * step for first, size, step in zip(how.begin, how.size, how.strides, strict=True)]
    mask = sum(1 << axis for axis, end in enumerate(ends) if end < 0)
    constants = {1: _int32(how.begin), 2: _int32([max(end, 0) for end in ends]), 3: _int32(how.strides)}
    gone = dropped_axes(how.size, call.outputs[0].shape) or set()
    shrunk = sum(1 << axis for axis in gone)
    return Said("STRIDED_SLICE", constants, {"EndMask": mask & ~shrunk, "ShrinkAxisMask": shrunk})


def _split(call: Call) -> Said:
    how = call.parameters
    axis, parts = np.array(how.axis, np.int32), {"NumSplits": len(how.sizes)}
    if len(set(how.sizes)) == 1:
        return Said("SPLIT", {0: axis}, parts, options="SplitOptions")
    return Said("SPLIT_V", {1: _int32(how.sizes), 2: axis}, parts, options="SplitVOptions")


def _reshape(call: Call) -> Said:
    shape = call.outputs[0].shape
    return Said("RESHAPE", {1: _int32(shape)}, {"NewShape": shape})


def _squeeze(call: Call) -> Said:
    return Said("SQUEEZE", fields={"SqueezeDims": tuple(call.parameters.axes)})


def _sequence_lstm(call: Call) -> Said:
    """The scales within a cell are those of tensors that nobody computes."""
    scales = call.parameters.intermediates
    kinds = ["int16"] * 4 + ["int8"]
    tensors = tuple(
        TensorType(kind, (), None if pair is None else Quantization((pair[0],), (int(pair[1]),)))
        for kind, pair in zip(kinds, scales, strict=False)
    )
    return Said("UNIDIRECTIONAL_SEQUENCE_LSTM", intermediates=tensors)


def _detection(call: Call) -> Said:
    from flatbuffers import flexbuffers

    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in vars(call.parameters).items():
            if name == "rescale":
                continue
            builder.Key(name)
            if isinstance(value, bool):
                builder.Bool(value)
            elif isinstance(value, float):
                builder.Float(value, 4)
            else:
                builder.Int(value)
    return Said("CUSTOM TFLite_Detection_PostProcess", custom_options=bytes(builder.Finish()))


_SAY: dict[str, Say] = {
    **{name: _axes(name.upper()) for name in ("mean", "sum", "reverse_v2")},
    **{
        name: _axes(name.upper())
        for name in ("reduce_max", "reduce_min", "reduce_prod", "reduce_all", "reduce_any")
    },
    **{name: _position(name.upper()) for name in ("arg_max", "arg_min")},
    **{
        name: _window(name.upper())
        for name in ("conv_2d", "depthwise_conv_2d", "average_pool_2d", "max_pool_2d", "l2_pool_2d")
    },
    "batch_to_space_nd": lambda call: Said(
        "BATCH_TO_SPACE_ND",
        {1: _int32(call.parameters.block_shape), 2: _int32(call.parameters.crops).reshape(-1, 2)},
    ),
    "bidirectional_sequence_lstm": lambda call: Said("BIDIRECTIONAL_SEQUENCE_LSTM", operands=48),
    "bidirectional_sequence_rnn": lambda call: Said("BIDIRECTIONAL_SEQUENCE_RNN", operands=12),
    "broadcast_to": lambda call: Said("BROADCAST_TO", {1: _int32(call.parameters.shape)}),
    "cumsum": lambda call: Said("CUMSUM", {1: np.array(call.parameters.axis, np.int32)}),
    "detection_post_process": _detection,
    "fill": lambda call: Said("FILL", {0: _int32(call.parameters.shape)}),
    "mirror_pad": _mirror_pad,
    "pack": lambda call: Said("PACK", fields={"ValuesCount": len(call.inputs)}),
    "pad": _pad,
    "reshape": _reshape,
    "resize_bilinear": lambda call: Said("RESIZE_BILINEAR", {1: _int32(call.parameters.size)}),
    "resize_nearest_neighbor": lambda call: Said(
        "RESIZE_NEAREST_NEIGHBOR", {1: _int32(call.parameters.size)}
    ),
    "slice": lambda call: Said("SLICE", {1: _int32(call.parameters.begin), 2: _int32(call.parameters.size)}),
    "space_to_batch_nd": lambda call: Said(
        "SPACE_TO_BATCH_ND",
        {1: _int32(call.parameters.block_shape), 2: _int32(call.parameters.paddings).reshape(-1, 2)},
    ),
    "split": _split,
    "squeeze": _squeeze,
    "strided_slice": _strided_slice,
    "tile": lambda call: Said("TILE", {1: _int32(call.parameters.multiples)}),
    "topk_v2": lambda call: Said("TOPK_V2", {1: np.array(call.parameters.k, np.int32)}),
    "transpose": lambda call: Said("TRANSPOSE", {1: _int32(call.parameters.perm)}),
    "transpose_conv": _transposed,
    "unidirectional_sequence_lstm": _sequence_lstm,
    "unpack": lambda call: Said("UNPACK", fields={"Num": len(call.outputs)}),
}
"""By the operator; the others have options only, and no operands but their own."""

_BY_NAME = {row.op: code for code, row in OPERATORS.items() if code == row.op.upper()}
"""The code of an operator that both call alike."""
