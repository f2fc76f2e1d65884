"""How each operator is written in TFLite: its code, its options, and the operands that its parameters become.

Parameters become operands at the positions of the reader's table (`Translation.says`), or options with their names in
the schema's spelling. This file adds the operators for which that is not enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from npusim.frontends.rewriting import ends_of_slice
from npusim.frontends.tflite.layer import ACTIVATIONS
from npusim.frontends.tflite.moving_layers import MIRROR_MODES
from npusim.frontends.tflite.operators import OPERATORS, POSITION_TYPES, spelled
from npusim.frontends.tflite.weighted_layers import PAIRS
from npusim.isa.base.errors import GraphError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.parameters import NO_BORDERS, Parameters

_FUNCTIONS = {**{name: number for number, name in ACTIVATIONS.items()}, "tanh": 4}
_POSITIONS = {name: number for number, name in POSITION_TYPES.items()}
_MIRRORS = {name: number for number, name in MIRROR_MODES.items()}
_INT32 = 2
"""The schema's TensorType of int32."""


@dataclass(frozen=True, slots=True)
class Wording:
    """An operator of the file without its tensors.

    constants: the operands that are parameters, by their position.
    fields:    options that do not have a parameter's name.
    codes:     those of the constants that have the quantization of the result.
    options:   the options table, if the reader's table names none.
    operands:  the number of operands that LiteRT wants, absent ones included; 0 for as many as are there.
    """

    code: str
    constants: Mapping[int, Array] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    codes: tuple[int, ...] = ()
    options: str = ""
    operands: int = 0
    custom_options: bytes = b""
    intermediates: tuple[TensorType, ...] = ()


def wording(op: str, call: Call) -> Wording:
    """Return an operator in TFLite's words. Raises GraphError if TFLite has no operator for it."""
    if op in _BY_OP:
        words = _BY_OP[op](call)
    elif op in _BY_NAME:
        words = _plain(_BY_NAME[op], call)
    else:
        raise GraphError(f"TFLite has no operator for {op}")
    if op in ("conv_2d", "fully_connected", "transpose_conv") and narrow_bias(call.inputs):
        # The sums of int16 values have 32 bits then, as their bias has.
        return replace(words, fields={**words.fields, "QuantizedBiasType": _INT32})
    return words


def _plain(code: str, call: Call, **fields: Any) -> Wording:
    """Return an operator whose parameters are operands as the reader's table says, and options."""
    parameters = {place: getattr(call.parameters, name) for place, name in OPERATORS[code].says.items()}
    return Wording(code, {place: _int32(value) for place, value in parameters.items()}, fields)


def narrow_bias(inputs: Sequence[TensorType | None]) -> bool:
    """Return True if the operands of a weighted sum are an int16 feature map and an int32 bias."""
    image, bias = inputs[0], inputs[2] if len(inputs) > 2 else None
    return image is not None and bias is not None and (image.dtype, bias.dtype) == ("int16", "int32")


def options_of(parameters: Parameters, names: tuple[str, ...], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options among `names` that parameters say, and `fields`.

    Their order is that of the file, which equal graphs must give equal bytes.
    """
    values: dict[str, Any] = {}
    if hasattr(parameters, "padding"):
        values["Padding"] = 1 if parameters.padding == NO_BORDERS else 0
    for name, pair in PAIRS.items():
        values |= dict(zip(pair, getattr(parameters, name, ()), strict=False))
    values |= fields
    plain = {name: value for name, value in vars(parameters).items() if not isinstance(value, tuple | str)}
    values |= {spelled(name): value for name, value in plain.items()}
    if hasattr(parameters, "activation"):
        values["FusedActivationFunction"] = _FUNCTIONS[parameters.activation]
    values["PotScaleInt16"] = parameters.rescale == "power_of_two"
    values["AsymmetricQuantizeInputs"] = parameters.rescale == "dynamic_asymmetric"
    return {name: value for name, value in values.items() if name in names or name in fields}


def _int32(values: Any) -> Array:
    """Return a number, a list or pairs as an int32 operand."""
    return np.asarray(values, np.int32)


def _position(call: Call) -> Wording:
    kind = _POSITIONS.get(call.outputs[0].dtype)
    if kind is None:
        raise GraphError(f"TFLite's positions are int32 or int64, not {call.outputs[0].dtype}")
    return _plain("ARG_MAX", call, OutputType=kind)


def _pad(call: Call) -> Wording:
    parameters = call.parameters
    if parameters.pad_value is None:
        return Wording("PAD", {1: _pairs(parameters.paddings)})
    value = np.array([parameters.pad_value], call.outputs[0].numpy_dtype)
    return Wording("PADV2", {1: _pairs(parameters.paddings), 2: value}, codes=(2,))


def _pairs(values: Any) -> Array:
    return _int32(values).reshape(-1, 2)


def _strided_slice(call: Call) -> Wording:
    """Set the mask bit of an end before the first element, which has no number."""
    parameters = call.parameters
    ends, mask, shrunk = ends_of_slice(parameters, call.outputs[0].shape)
    constants = {1: _int32(parameters.begin), 2: _int32(ends), 3: _int32(parameters.strides)}
    return Wording("STRIDED_SLICE", constants, {"EndMask": mask & ~shrunk, "ShrinkAxisMask": shrunk})


def _split(call: Call) -> Wording:
    is_equal = len(set(call.parameters.sizes)) == 1
    words = _plain("SPLIT" if is_equal else "SPLIT_V", call, NumSplits=len(call.parameters.sizes))
    return replace(words, options="SplitOptions" if is_equal else "SplitVOptions")


def _sequence_lstm(call: Call) -> Wording:
    """Write the scales of a cell's intermediate values as those of tensors without data."""
    scales = call.parameters.intermediates
    kinds = ["int16"] * 4 + ["int8"]
    tensors = tuple(
        TensorType(kind, (), None if pair is None else Quantization((pair[0],), (int(pair[1]),)))
        for kind, pair in zip(kinds, scales, strict=False)
    )
    return Wording("UNIDIRECTIONAL_SEQUENCE_LSTM", intermediates=tensors)


def _detection(call: Call) -> Wording:
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
    return Wording("CUSTOM TFLite_Detection_PostProcess", custom_options=bytes(builder.Finish()))


_BY_OP: dict[str, Callable[[Call], Wording]] = {
    "arg_max": _position,
    "arg_min": lambda call: replace(_position(call), code="ARG_MIN"),
    "batch_to_space_nd": lambda call: Wording(
        "BATCH_TO_SPACE_ND", {1: _int32(call.parameters.block_shape), 2: _pairs(call.parameters.crops)}
    ),
    "bidirectional_sequence_lstm": lambda call: Wording("BIDIRECTIONAL_SEQUENCE_LSTM", operands=48),
    "bidirectional_sequence_rnn": lambda call: Wording("BIDIRECTIONAL_SEQUENCE_RNN", operands=12),
    "detection_post_process": _detection,
    "mirror_pad": lambda call: Wording(
        "MIRROR_PAD", {1: _pairs(call.parameters.paddings)}, {"Mode": _MIRRORS[call.parameters.mode]}
    ),
    "pack": lambda call: _plain("PACK", call, ValuesCount=len(call.inputs)),
    "pad": _pad,
    "reshape": lambda call: Wording(
        "RESHAPE", {1: _int32(call.outputs[0].shape)}, {"NewShape": call.outputs[0].shape}
    ),
    "space_to_batch_nd": lambda call: Wording(
        "SPACE_TO_BATCH_ND", {1: _int32(call.parameters.block_shape), 2: _pairs(call.parameters.paddings)}
    ),
    "split": _split,
    "squeeze": lambda call: _plain("SQUEEZE", call, SqueezeDims=tuple(call.parameters.axes)),
    "strided_slice": _strided_slice,
    "transpose_conv": lambda call: Wording("TRANSPOSE_CONV", {0: _int32(call.outputs[0].shape)}),
    "unidirectional_sequence_lstm": _sequence_lstm,
    "unpack": lambda call: _plain("UNPACK", call, Num=len(call.outputs)),
}
"""By the operator, if its wording is not plain."""

_BY_NAME = {row.op: code for code, row in OPERATORS.items() if code == row.op.upper()}
"""Operator -> code, for operators with the same name in TFLite."""
