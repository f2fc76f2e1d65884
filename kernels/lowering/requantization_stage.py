"""The output stage of the MAC array: how a sum becomes a result, the same for all tiles of a call."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import Rounding, reduced_multiplier
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import SIZE_ONLY, Int64Array, TensorType
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.mac import RESULTS
from npusim.isa.instructions.output_stage import parameter_bytes
from npusim.kernels.lowering.work import Constants
from npusim.kernels.operator.operands import input_type, optional_type, quantization, weight_zero
from npusim.kernels.operator.operator import Call, need
from npusim.kernels.operator.rescale import act_range, activation_of, float32_bounds, float32_scales

Multipliers = Callable[[TensorType, TensorType, TensorType], tuple[Int64Array, Int64Array]]
"""Gives multipliers and shifts from the types of feature map, weights and output."""

_ONE = np.array([1 << 30], np.int32), np.array([1], np.int8)
"""Multiplier and shift of 1, which rounded once leave a sum as it is."""


@dataclass(frozen=True, slots=True)
class OutputStage:
    """What happens to an accumulator: bias, rescale, clamp. Arrays have one entry, or one per output channel.

    bias: one value per output channel; None where it is known by its size only.
    scales: multipliers (int32) and shifts (int8), or float32 scales.
    result_bytes: 1 for quantized values, 2 for int16, 4 for words, which are not clamped.
    int16: whether feature map and results are int16, and the bias int64.
    """

    bias: NDArray[np.signedinteger[Any]] | None
    scales: tuple[NDArray[np.int32], NDArray[np.int8]] | tuple[NDArray[np.float32]]
    low: int
    high: int
    rounding: Rounding
    result_bytes: int = 1
    int16: bool = False

    @property
    def per_channel(self) -> bool:
        """True if each channel has a scale of its own."""
        return len(self.scales[0]) > 1

    @property
    def in_float32(self) -> bool:
        """True if scales are float32."""
        return len(self.scales) == 1

    def parameters(self, first: int, last: int) -> bytes:
        """Return the parameter block of channels [first, last), for a bias that is known."""
        assert self.bias is not None
        part = slice(first, last) if self.per_channel else slice(None)
        bounds = [_little(np.array([self.low, self.high], np.int16))] if self.int16 else []
        blocks = (self.bias[first:last], *(channel_values[part] for channel_values in self.scales))
        return b"".join([*map(_little, blocks), *bounds])

    def constants(self, first: int, last: int) -> Constants:
        """Return the parameter block of channels [first, last), or only its size, as a work without weights has it."""
        if self.bias is None:
            return Constants(absent_bytes=self.parameter_bytes(first, last))
        return Constants(self.parameters(first, last))

    def parameter_bytes(self, first: int, last: int) -> int:
        """Return the size in bytes of the parameter block of channels [first, last)."""
        return parameter_bytes(last - first, self.per_channel, self.in_float32, self.int16)


def _little(values: NDArray[Any]) -> bytes:
    return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


@need("float32_rescale")
def float32_rescale(call: Call, hardware: Hardware) -> bool:
    """an output stage that requantizes in float32 (float32_rescale)"""
    return hardware.float32_rescale or _words(call)


def _words(call: Call) -> bool:
    """Return True if a call gives its sums unchanged."""
    return call.outputs[0].dtype == "int32"


def output_stage(call: Call, multipliers: Multipliers, rounding: Rounding) -> OutputStage:
    """Return the output stage of a call with a bias as third input, or none; equal scales of all channels become one.

    `multipliers` and `rounding` are those of fixed point.
    """
    channels = call.outputs[0].shape[-1]
    bias = call.constants.get(2)
    int16 = input_type(call).dtype == "int16"
    dtype = np.int64 if int16 else np.int32
    values: NDArray[Any] | None = np.zeros(channels, dtype) if bias is None else None
    if bias is not None and bias is not SIZE_ONLY:
        values = bias.astype(dtype).reshape(channels)
    maps = input_type(call), input_type(call, 1), call.outputs[0]
    if _words(call):
        return OutputStage(values, _ONE, 0, 0, "single", result_bytes=4)
    if call.parameters.rescale == "float32":
        bounds = float32_bounds(activation_of(call), call.outputs[0])
        return OutputStage(
            values, (_shared(float32_scales(*maps))[0],), *bounds, "double", 2 if int16 else 1, int16
        )
    multiplier, shift = _scales(multipliers, *maps)
    bounds = act_range(activation_of(call), call.outputs[0])
    if accumulator_bits(call) == 64 and rounding == "double":  # the reference's rounding "reduced"
        multiplier, rounding = reduced_multiplier(multiplier) << 16, "single"
    scales = multiplier.astype(np.int32), shift.astype(np.int8)
    return OutputStage(values, scales, *bounds, rounding, 2 if int16 else 1, int16)


@lru_cache(maxsize=256)
def _scales(
    multipliers: Multipliers, ifm: TensorType, weights: TensorType, ofm: TensorType
) -> tuple[NDArray[Any], ...]:
    """Return multipliers and shifts, cut to one entry if all are equal. Layers of equal types share them."""
    scales = _shared(*multipliers(ifm, weights, ofm))
    for array in scales:
        array.setflags(write=False)
    return scales


def accumulator_bits(call: Call) -> int:
    """Return the bits of a weighted sum: 64 for an int16 feature map unless the bias is int32, else 32, to which sums
    wrap.
    """
    bias = optional_type(call, 2)
    return 64 if input_type(call).dtype == "int16" and (bias is None or bias.dtype == "int64") else 32


def _shared(*arrays: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return the arrays cut to one entry if all entries are equal."""
    alike = all((array == array[0]).all() for array in arrays)
    return tuple([array[:1] for array in arrays]) if alike else arrays


def _signed(tensor: TensorType) -> int:
    return int(tensor.dtype == "int8")


def few_bits(call: Call, hardware: Hardware) -> bool:
    """Return True if the weights of a call are constants of fewer bits than eight."""
    return 1 in call.constants and hardware.mac_array.few_bits


def common_fields(call: Call, stage: OutputStage, hardware: Hardware) -> dict[str, Any]:
    """Return the fields that all tiles of a call share."""
    ifm, ofm, weights = input_type(call), call.outputs[0], input_type(call, 1)
    if ifm.dtype == "int16":
        return {
            "signed": 1,
            "weight_zero": weight_zero(call),
            "weights_signed": _signed(weights),
            "rounding": int(stage.rounding == "single"),
            "per_channel": int(stage.per_channel),
            "int16": 1,
            "rescale": int(stage.in_float32),
            "few_bits": int(few_bits(call, hardware)),
        }
    words = stage.result_bytes > 1
    return {
        "ifm_zero": quantization(ifm).zero_point,
        "weight_zero": weight_zero(call),
        "ofm_zero": 0 if words else quantization(ofm).zero_point,
        "low": stage.low,
        "high": stage.high,
        "signed": _signed(ifm),
        "weights_signed": _signed(weights),
        "rounding": int(stage.rounding == "single"),
        "per_channel": int(stage.per_channel),
        **({"wide": RESULTS.index("32_bits")} if words else {}),
        "rescale": int(stage.in_float32),
        "other_sign": int(not words and _signed(ifm) != _signed(ofm)),
        "few_bits": int(few_bits(call, hardware)),
    }
