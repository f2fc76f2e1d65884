"""Rules, output stage and work that convolutions and the matrix product share.

Operands are (ifm, weights, bias or None); an output channel is a weighted sum of feature-map values.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import Rounding, requantise
from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import SIZE_ONLY, Array, Int32Array, Int64Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.requantization_stage import accumulator_bits
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import input_type, optional_type, optional_value, quantization
from npusim.kernels.operator.operator import ROOM, Call, Lowering, Rule, Values, need
from npusim.kernels.operator.parameters import Activated
from npusim.kernels.operator.rescale import act_range, convolution_multipliers, limited

IFM, WEIGHTS, BIAS = 0, 1, 2

TYPES = (
    "int8, int8|uint8, int32 -> int8",
    "uint8, int8|uint8, int32 -> uint8",
    "int16, int8, int32|int64 -> int16",
    *alike("float16", "float32"),
)
"""Element types of feature map, weights, bias and output."""

DYNAMIC_RANGE_TYPES = ("float32, int8, float32 -> float32",)
"""Element types where rows of the feature map are quantized at run time."""

Multipliers = Callable[[Call], tuple[Any, Any]]
"""The multipliers and shifts of a call: one of each, or one for each channel."""


def three_operands(call: Call) -> bool:
    """takes a feature map, weights and an optional bias and gives one output"""
    present = len(call.inputs) in (2, 3) and None not in call.inputs[:2]
    return present and len(call.outputs) == 1


def one_scale_per_map(call: Call) -> bool:
    """an 8-bit feature map and its output have one scale and zero point each"""
    maps = (input_type(call), call.outputs[0])
    return all(tensor.real or _per_tensor(tensor.quantization) for tensor in maps)


def _per_tensor(scaling: object) -> bool:
    return scaling is not None and getattr(scaling, "axis", None) is None


def weights_scaled_by_channel(axis: int) -> Rule:
    """Return the rule for the quantization of weights whose output channels are dimension `axis`."""

    def rule(call: Call) -> bool:
        weights = input_type(call, WEIGHTS)
        scaling = weights.quantization
        if weights.real:
            return True
        if scaling is None or len(set(scaling.zero_points)) != 1:
            return False
        count = 1 if scaling.axis is None else weights.shape[axis]
        return scaling.axis in (None, axis) and len(scaling.scales) == count

    rule.__doc__ = f"8-bit weights have one zero point, and one scale or one per channel of dimension {axis}"
    return rule


def bias_per_channel(call: Call) -> bool:
    """the bias has one value per output channel"""
    bias = optional_type(call, BIAS)
    return bias is None or bias.elements == call.outputs[0].shape[-1]


def vectors_on_npu(call: Call) -> bool:
    """on the NPU there are at most 65535 vectors"""
    return prod(call.outputs[0].shape[:-1]) <= 65535


def groups(call: Call) -> int:
    """Return the number of channel groups of a convolution, from how many input channels each filter sees."""
    return input_type(call).shape[3] // input_type(call, WEIGHTS).shape[3]


def filters_in_groups(call: Call) -> bool:
    """weights are [output channels, height, width, input channels of a group], in groups of equal size"""
    shape = input_type(call, WEIGHTS).shape
    if len(shape) != 4 or min(shape) == 0 or input_type(call).shape[3] % shape[3]:
        return False
    return shape[0] % groups(call) == 0


def channel_multipliers(call: Call) -> tuple[Int64Array, Int64Array]:
    """Return the multipliers and shifts of a convolution, one of each per scale of the weights."""
    return convolution_multipliers(input_type(call), input_type(call, WEIGHTS), call.outputs[0])


def shifted_in_64_bits(multipliers: Multipliers) -> Rule:
    """Return the rule that a shift of sums of 64 bits is defined."""

    def rule(call: Call) -> bool:
        """for int16, input scale * weight scale / output scale is below 2**14: C leaves larger shifts undefined"""
        return (
            input_type(call).dtype != "int16"
            or accumulator_bits(call) == 32
            or bool(np.max(multipliers(call)[1]) <= 14)
        )

    return rule


def quantized_maps(call: Call) -> bool:
    """the NPU computes on 8-bit feature maps"""
    return input_type(call).quantized8 and call.outputs[0].quantized8


def wide_maps(call: Call) -> bool:
    """with int16 feature maps the NPU takes constant int8 weights and bias"""
    present = [at for at, tensor in enumerate(call.inputs) if tensor is not None and at >= WEIGHTS]
    wide = input_type(call).dtype == "int16" and input_type(call, WEIGHTS).quantized8
    return wide and all(at in call.constants for at in present)


def wide_sums_fit(channel_axis: int, multipliers: Multipliers) -> Rule:
    """Return the rule that the output stage holds sums of int16 values; channels are along an axis of the weights."""

    def rule(call: Call) -> bool:
        """on the NPU sums of int16 values fit 32 bits with an int32 bias, else 47 bits and requantized 32"""
        weights, bias = call.constants[WEIGHTS], call.constants.get(BIAS)
        if weights is SIZE_ONLY or bias is SIZE_ONLY:
            return True
        others = tuple([at for at in range(weights.ndim) if at != channel_axis])
        centred = weights.astype(np.int64) - quantization(input_type(call, WEIGHTS)).zero_points[0]
        sums = np.abs(centred).sum(axis=others) * (1 << 15)
        largest = sums.astype(np.float64) + (
            0 if bias is None else np.abs(bias.reshape(-1).astype(np.float64))
        )
        if accumulator_bits(call) == 32:
            return bool(largest.max(initial=0) < 1 << 31)
        multiplier, shift = multipliers(call)
        results = largest * np.ldexp(np.asarray(multiplier, np.float64), np.asarray(shift) - 31)
        return bool(largest.max(initial=0) < 1 << 47 and results.max(initial=0) < 1 << 30)

    return rule


@need("mac_array.int16_passes")
def array_passes(call: Call, hardware: Hardware) -> bool:
    """passes for int16 feature maps (mac_array.int16_passes)"""
    return hardware.mac_array.int16_passes > 0


def on_int16(row: Lowering, *rules: Rule) -> Lowering:
    """Return a lowering adapted to int16 feature maps: its first rule, on element types, is replaced."""
    return row._replace(rules=(wide_maps, *row.rules[1:], *rules), needs=(*row.needs, array_passes))


@need(ROOM)
def room_for_computed_weights(call: Call, hardware: Hardware) -> bool:
    """room in half of the scratchpad for a matrix of floats as the second operand"""
    kind = input_type(call, WEIGHTS)
    return 2 * prod(kind.shape[-2:]) * kind.numpy_dtype.itemsize <= hardware.scratchpad_bytes


def bias_value(values: Values) -> Any:
    """Return the bias as a vector; None if it is absent."""
    bias = optional_value(values, BIAS)
    return None if bias is None else bias.reshape(-1)


def finish_sums(
    call: Call[Activated],
    sums: NDArray[np.float64],
    bias: Any,
    multipliers: tuple[Int64Array, Int64Array],
    rounding: Rounding = "double",
) -> Array:
    """Apply the output stage to exact sums in float64, which first wrap to the bits of an accumulator."""
    exact = sums.astype(np.int64)
    accumulators = exact if accumulator_bits(call) == 64 else exact.astype(np.int32)
    return finish_codes(call, accumulators, bias, multipliers, rounding)


def finish_codes(
    call: Call[Activated],
    accumulators: Int32Array | Int64Array,
    bias: Any,
    multipliers: tuple[Int64Array, Int64Array],
    rounding: Rounding,
) -> Array:
    """Apply the output stage to sums, channels last: bias, requantization, zero point, activation."""
    ofm = call.outputs[0]
    if accumulator_bits(call) == 64 and rounding == "double":
        rounding = "reduced"  # LiteRT's kernels have this one for 64 bits
    if bias is not None:
        accumulators += bias.astype(accumulators.dtype, copy=False)
    low, high = act_range(call.parameters.activation, ofm)
    return requantise(
        accumulators, *multipliers, quantization(ofm).zero_point, low, high, ofm.numpy_dtype, rounding
    )


def finish_floats(call: Call[Activated], sums: NDArray[np.float64], bias: Any) -> Array:
    """Apply the output stage to float64 sums: bias, activation, and one rounding to float32."""
    if bias is not None:
        sums += bias
    with np.errstate(over="ignore"):  # Values beyond float32 become infinite
        return limited(call.parameters.activation, sums).astype(np.float32)


def workload(call: Call, kind: Literal["gemm", "depthwise"], inner: int) -> Workload:
    """Return the work of weighted sums of `inner` products each."""
    ofm = call.outputs[0]
    constants = [tensor for tensor in call.inputs[1:] if tensor is not None]
    return Workload(
        kind=kind,
        dtype=ofm.element.rates,
        macs=ofm.elements * inner,
        inner_k=inner,
        weight_bytes=sum(tensor.size_bytes for tensor in constants),
        input_bytes=input_type(call).size_bytes,
        output_bytes=ofm.size_bytes,
    )
