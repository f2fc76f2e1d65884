"""Normalizations by mean and variance: batch, group, instance and layer normalization."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.float_codes import sum_in_order
from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.lanes import bits_of
from npusim.isa.instructions.normalize import FUNCTIONS, LONGEST_FUSED, PARAMETER_BYTES, Normalize
from npusim.isa.instructions.rows import METHODS
from npusim.kernels.lowering.quantized_in_float32 import float32_rescale, scaling
from npusim.kernels.lowering.row_work import RowFields, row_parts
from npusim.kernels.lowering.work import Constants, Parts
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.axes import Along, an_axis, axis_of
from npusim.kernels.operator.element_types import alike, dequantize_values
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.float_steps import FloatSteps
from npusim.kernels.operator.fused import finish_steps, one_scale
from npusim.kernels.operator.operands import (
    by_type,
    code_range,
    elementwise,
    input_type,
    input_value,
    like_input,
    quantization,
    with_halves,
)
from npusim.kernels.operator.operator import (
    Arithmetic,
    Call,
    Lowering,
    Operator,
    Rule,
    Values,
    call_in_float32,
    literal,
)
from npusim.kernels.operator.parameters import Count, Parameters, Size
from npusim.kernels.operators.movement.shape_changes import ReshapeParameters

PASSES = 3
"""Passes over the elements: for their mean, for their variance, for the result."""

Shape = tuple[int, ...]
Sizes = Callable[[Call], tuple[Shape, tuple[int, ...]]]
"""Gives the shape under which a call is normalized, and the axes of it that have a mean and a variance."""
Aligned = Callable[[Call], Shape]
"""Gives the shape under which scale and bias broadcast with the input."""


def moments_operator(
    name: str,
    parameters: type[Parameters],
    rules: tuple[Rule, ...],
    sizes: Sizes,
    aligned: Aligned,
    arithmetics: tuple[Arithmetic, ...] = (),
) -> Operator:
    """Return the operator on x, scale and bias; `parameters` has `epsilon`, which is added to the variance.

    The mean counts as 0 if `parameters` has `centred`, and it is False.
    """

    def floats(call: Call, values: Values) -> list[Array]:
        shape, axes = sizes(call)
        x: NDArray[Any] = input_value(values).astype(np.float64)
        if not x.size:
            return [input_value(values)]
        scale, bias = (input_value(values, i).astype(np.float64).reshape(aligned(call)) for i in (1, 2))
        with np.errstate(all="ignore"):
            centred = x.reshape(shape)
            if _is_centred(call):
                centred = centred - centred.mean(axis=axes, keepdims=True)
            variance = (centred * centred).mean(axis=axes, keepdims=True)
            normal = (centred / np.sqrt(variance + call.parameters.epsilon)).reshape(x.shape)
            return [(normal * scale + bias).astype(np.float32)]

    def expand(call: Call) -> Expansion | None:
        shape, axes = sizes(call)
        steps = FloatSteps(call)
        x = reshaped(steps, 0, shape)
        centred = steps.pair("sub", x, steps.reduction("mean", x, axes)) if _is_centred(call) else x
        variance = steps.reduction("mean", steps.pair("mul", centred, centred), axes)
        root = steps.function("rsqrt", steps.pair("add", variance, steps.number(call.parameters.epsilon)))
        normal = reshaped(steps, steps.pair("mul", centred, root), input_type(call).shape)
        scaled = steps.pair("mul", normal, reshaped(steps, 1, aligned(call)))
        return steps.result(steps.pair("add", scaled, reshaped(steps, 2, aligned(call))))

    references = with_halves({"float32": floats})
    return Operator(
        name=name,
        parameters=parameters,
        types=alike(*references),
        rules=rules,
        infer=like_input,
        reference=by_type(references),
        workload=three_passes,
        expand=expand,
        on_host="no unit computes it as a whole, and its parts need float lanes",
        arithmetics=arithmetics,
    )


def _is_centred(call: Call) -> bool:
    return bool(getattr(call.parameters, "centred", True))


def three_passes(call: Call) -> Workload:
    """Return the work of reading every element three times."""
    return elementwise(call, PASSES * call.outputs[0].elements)


def reshaped(steps: FloatSteps, x: int, shape: Shape) -> int:
    """Return the same elements under another shape."""
    if steps.shapes[x] == shape:
        return x
    return steps.step("reshape", [x], shape, ReshapeParameters(shape=shape))


def per_channel(call: Call[Along]) -> bool:
    """every operand but the first has one number per channel"""
    channels = (input_type(call).shape[axis_of(call)],)
    return all(input_type(call, i).shape == channels for i in range(1, len(call.inputs)))


def along_channels(call: Call[Along]) -> tuple[int, ...]:
    """Return the shape under which such a vector broadcasts with the first operand."""
    shape, axis = input_type(call).shape, axis_of(call)
    return (shape[axis],) + (1,) * (len(shape) - 1 - axis)


class BatchNormalizationParameters(Along):
    """Parameters of scale * (x - mean) / sqrt(variance + epsilon) + bias.

    axis: the axis of the channels.
    """

    epsilon: float = 1e-5


def _batch_floats(call: Call[BatchNormalizationParameters], values: Values) -> list[Array]:
    x = input_value(values).astype(np.float64)
    scale, bias, mean, variance = (
        input_value(values, i).astype(np.float64).reshape(along_channels(call)) for i in range(1, 5)
    )
    with np.errstate(all="ignore"):
        normal = (x - mean) / np.sqrt(variance + call.parameters.epsilon)
        return [(scale * normal + bias).astype(np.float32)]


def _expand(call: Call[BatchNormalizationParameters]) -> Expansion:
    """Return the factor of each channel first, which is short, then three steps over all elements."""
    steps = FloatSteps(call)
    scale, bias, mean, variance = (reshaped(steps, i, along_channels(call)) for i in range(1, 5))
    root = steps.function("rsqrt", steps.pair("add", variance, steps.number(call.parameters.epsilon)))
    centred = steps.pair("sub", 0, mean)
    scaled = steps.pair("mul", centred, steps.pair("mul", scale, root))
    return steps.result(steps.pair("add", scaled, bias))


BATCH_REFERENCES = with_halves({"float32": _batch_floats})

BATCH_NORMALIZATION = Operator(
    name="batch_normalization",
    parameters=BatchNormalizationParameters,
    types=alike(*BATCH_REFERENCES),
    rules=(rules.operands(5), rules.same_shape, an_axis, per_channel),
    infer=like_input,
    reference=by_type(BATCH_REFERENCES),
    workload=elementwise,
    expand=_expand,
    on_host="no unit computes it as a whole, and its parts need float lanes",
)
"""Every channel normalized by a mean and a variance that are operands."""


class InstanceNormalizationParameters(parameters.Parameters):
    """Parameters of gamma * (x - mean) / sqrt(variance + epsilon) + beta."""

    gamma: float = 1.0
    beta: float = 0.0
    epsilon: float = 0.0


def _instance_floats(call: Call[InstanceNormalizationParameters], values: Values) -> list[Array]:
    x, parameters = input_value(values).astype(np.float64), call.parameters
    if not x.size:
        return [input_value(values)]
    centred = x - x.mean(axis=(1, 2), keepdims=True)
    variance = (centred * centred).mean(axis=(1, 2), keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        result = parameters.gamma * centred / np.sqrt(variance + parameters.epsilon) + parameters.beta
        return [result.astype(np.float32)]


def _instance_images(call: Call) -> bool:
    """the input is [batch, height, width, channels]"""
    return len(input_type(call).shape) == 4


INSTANCE_REFERENCES = with_halves({"float32": _instance_floats})

INSTANCE_NORMALIZATION = Operator(
    name="instance_normalization",
    parameters=InstanceNormalizationParameters,
    types=alike(*INSTANCE_REFERENCES),
    rules=(rules.operands(1), rules.same_shape, _instance_images),
    infer=like_input,
    reference=by_type(INSTANCE_REFERENCES),
    workload=three_passes,
    on_host="has no quantized form, and no floating-point instruction computes it",
)
"""Every channel of every image normalized by its own mean and variance."""


class GroupNormalizationParameters(Along):
    """Parameters of scale * (x - mean) / sqrt(variance + epsilon) + bias, scale and bias per channel.

    axis: the axis of the channels; the first axis is that of the images.
    groups: the number of groups of neighbouring channels.
    """

    groups: Count = 1
    epsilon: float = 1e-5


def _group_images(call: Call[GroupNormalizationParameters]) -> bool:
    """the axis of the channels is not the first one"""
    return axis_of(call) > 0


def _whole_groups(call: Call[GroupNormalizationParameters]) -> bool:
    """groups divides the number of channels"""
    return input_type(call).shape[axis_of(call)] % call.parameters.groups == 0


def _group_sizes(call: Call[GroupNormalizationParameters]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axis of the channels as one of groups and one within a group.

    All but images and groups are averaged.
    """
    shape, axis, groups = input_type(call).shape, axis_of(call), call.parameters.groups
    grouped = (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    return grouped, tuple(at for at in range(1, len(grouped)) if at != axis)


GROUP_NORMALIZATION = moments_operator(
    "group_normalization",
    GroupNormalizationParameters,
    (rules.operands(3), rules.same_shape, an_axis, _group_images, per_channel, _whole_groups),
    _group_sizes,
    along_channels,
)
"""Groups of channels of every image normalized by their own mean and variance, then scaled."""


class LayerNormalizationParameters(parameters.Parameters):
    """Parameters of scale * (x - mean) / sqrt(variance + epsilon) + bias, over the axes from begin_axis on.

    centred: if False, the mean counts as 0, and the variance is the mean of the squares (RMS normalization).
    """

    begin_axis: Size
    epsilon: float = 1e-5
    centred: bool = True


def _an_axis(call: Call[LayerNormalizationParameters]) -> bool:
    """begin_axis is an axis of the input"""
    return call.parameters.begin_axis < len(input_type(call).shape)


def _per_element(call: Call[LayerNormalizationParameters]) -> bool:
    """scale and bias have the input's sizes from begin_axis on"""
    return all(input_type(call, i).shape == _normalized(call) for i in (1, 2))


def _normalized(call: Call[LayerNormalizationParameters]) -> tuple[int, ...]:
    return input_type(call).shape[call.parameters.begin_axis :]


def _layer_sizes(call: Call[LayerNormalizationParameters]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = input_type(call).shape
    return shape, tuple(range(call.parameters.begin_axis, len(shape)))


def _rows(call: Call[LayerNormalizationParameters], x: NDArray[Any]) -> NDArray[Any]:
    """Return the input as [rows, elements that have a mean and a variance]."""
    return x.reshape(-1, prod(_normalized(call)))


def _in_order(call: Call[LayerNormalizationParameters], values: Values) -> list[Array]:
    """Compute float32 values for the rescale "float32": sums in float64, in order, rounded once."""
    x, scale, bias = (_rows(call, input_value(values, i).astype(np.float64)) for i in range(3))
    if not x.size:
        return [input_value(values).astype(np.float32)]
    with np.errstate(all="ignore"):
        if call.parameters.centred:
            x = x - sum_in_order(x) / x.shape[1]
        variance = sum_in_order(x * x) / x.shape[1]
        root = np.sqrt(variance + np.float32(call.parameters.epsilon))
        results = (x / root * scale + bias).astype(np.float32)
    return [results.reshape(input_type(call).shape)]


def _fused(call: Call[LayerNormalizationParameters], values: Values) -> list[Array]:
    """Compute quantized values for the rescale "fused": integer sums, then two products and sums in float32.

    x stands for values less their zero point, with mean m and variance v. r = s / sqrt(s * s * v + epsilon) is float64,
    normal = f32(x * f32(r) + f32(-m * r)), result = rint(f32(normal * scale / output scale + bias / output scale)).
    """
    given, output = quantization(input_type(call)), call.outputs[0]
    x = _rows(call, input_value(values).astype(np.int64) - given.zero_point)
    if not x.size:
        return [input_value(values).astype(output.numpy_dtype)]
    size = x.shape[1]
    sums = x.sum(axis=1, keepdims=True) * int(call.parameters.centred)
    spread = (size * (x * x).sum(axis=1, keepdims=True) - sums * sums).astype(np.float64)
    s = float(np.float32(given.scale))
    with np.errstate(all="ignore"):
        root = s / np.sqrt(s * s * (spread / float(size * size)) + np.float32(call.parameters.epsilon))
        offset = (-(sums / size) * root).astype(np.float32).astype(np.float64)
        normal = (x * root.astype(np.float32).astype(np.float64) + offset).astype(np.float32)
        numbers = [dequantize_values(value, kind) if kind.quantized else value
                   for value, kind in ((input_value(values, i), input_type(call, i)) for i in (1, 2))]  # fmt: skip
        scale, bias = _in_steps(call, *numbers).astype(np.float64)
        steps = np.rint((normal * scale + bias).astype(np.float32))
    results = finish_steps(call, steps + np.float32(quantization(output).zero_point))
    return [results.reshape(output.shape)]


def _in_steps(call: Call, scale: Array, bias: Array) -> NDArray[np.float32]:
    """Return float32 scale and bias, each divided by the output's scale: [2, elements]."""
    step = np.float32(quantization(call.outputs[0]).scale)
    return np.stack([scale.ravel(), bias.ravel()]).astype(np.float32) / step


def _quantized_alone(call: Call) -> bool:
    """fused, input and result are int8 or uint8 tensors with one scale and zero point"""
    return one_scale(input_type(call)) and one_scale(call.outputs[0])


def _bytes(call: Call) -> bool:
    """on the NPU input and result are int8 or uint8 tensors with one scale and zero point"""
    return _quantized_alone(call)


def _constant_vectors(call: Call) -> bool:
    """on the NPU scale and bias are constants"""
    return 1 in call.constants and 2 in call.constants


def _short_rows(call: Call[LayerNormalizationParameters]) -> bool:
    """on the NPU 1 to 65536 elements have a mean and a variance"""
    return 0 < prod(_normalized(call)) <= LONGEST_FUSED


def _lower(call: Call[LayerNormalizationParameters], hardware: Hardware) -> Parts:
    """Lower to one instruction per tile of rows."""
    output, parameters = call.outputs[0], call.parameters
    low, high = code_range(output.dtype)
    fused, depth = parameters.rescale == "fused", prod(_normalized(call))
    fields = {
        **scaling("input", input_type(call)),
        **scaling("output", output),
        "function": FUNCTIONS.index("layer" if parameters.centred else "rms"),
        "fused": METHODS.index("fused" if fused else "literal"),
        "epsilon": bits_of(parameters.epsilon),
        "low": low,
        "high": high,
    }

    def make(rows: RowFields, table: int) -> Normalize:
        return Normalize(
            input=rows.input, output=rows.output, rows=rows.rows, depth=depth, table=table, **fields
        )

    sizes = input_type(call).elements // depth, depth, 1
    return row_parts(call, sizes, make, _table(call))


def _table(call: Call[LayerNormalizationParameters]) -> Constants:
    """Return the pairs of scale and bias as float32, divided by the output's scale where the rescale is "fused"."""
    size = prod(_normalized(call)) * PARAMETER_BYTES
    constants = call_in_float32(call).constants
    scale, bias = (constants[position] for position in (1, 2))
    if not isinstance(scale, np.ndarray) or not isinstance(bias, np.ndarray):
        return Constants(absent_bytes=size)
    with np.errstate(all="ignore"):
        pairs = (
            _in_steps(call, scale, bias)
            if call.parameters.rescale == "fused"
            else np.stack([scale.ravel(), bias.ravel()])
        )
    return Constants(np.ascontiguousarray(pairs.T, "<f4").tobytes())


_ON_NPU = Lowering("vector", (_bytes, _constant_vectors, _short_rows), _lower, (float32_rescale,))
_LAYER_RULES = (rules.operands(3), rules.same_shape, _an_axis, _per_element)

LAYER_NORMALIZATION = moments_operator(
    "layer_normalization",
    LayerNormalizationParameters,
    _LAYER_RULES,
    _layer_sizes,
    _normalized,
    (
        literal(_ON_NPU, reference=_in_order),
        Arithmetic(
            ("fused",),
            ("int8|uint8, int8|uint8|float32, int8|uint8|int32|float32 -> int8|uint8",),
            (*_LAYER_RULES, _quantized_alone),
            _fused,
            (_ON_NPU,),
        ),
    ),
)
"""All elements behind the first axes normalized by their own mean and variance, then scaled."""


OPERATORS = (
    BATCH_NORMALIZATION,
    INSTANCE_NORMALIZATION,
    GROUP_NORMALIZATION,
    LAYER_NORMALIZATION,
)
