"""The mean of each window of an image; padding is not counted, unless the parameters say so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import clamp, rounding_divide
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.float_codes import float32_rescale, lower_float_average, on_codes
from npusim.kernels.lowering.vector import lower_average_pool
from npusim.kernels.operator.activation import act_range, limited
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.fused import fused_average, in_32_bits, only_codes
from npusim.kernels.operator.in_reals import reals_of_codes
from npusim.kernels.operator.operands import by_type, input_type, input_value, quantization, with_halves
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operator.parameters import NO_BORDERS, Borders
from npusim.kernels.operators.movement import pad
from npusim.kernels.operators.pooling import pooling


class Parameters(pooling.Pooling):
    """counted: how much of the padding, next to the image, counts as zeros.
    by_columns: with rescale "float32" the elements of a window are added column by column, as ONNX Runtime does before
    version 19 of the operator where strides along the width are 1 or 2.
    """

    counted: Borders = NO_BORDERS
    by_columns: bool = False


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    """Codes are averaged as they are: input and output have one scale and zero point."""
    image: Any = input_value(values)
    ofm, counted = call.outputs[0], call.parameters.counted
    sums, elements = (
        pooling.combine_windows(image.astype(np.int32), call, np.add),
        pooling.elements_seen(call),
    )
    if counted != NO_BORDERS:
        inside, elements = elements, pooling.elements_seen(call, counted)
        sums += (elements - inside) * _zero(call)
    means = rounding_divide(sums, elements)
    return [clamp(means, *act_range(call.parameters.activation, ofm), ofm.numpy_dtype)]


def _zero(call: Call) -> int:
    scaled = input_type(call).quantization is not None
    return quantization(input_type(call)).zero_point if scaled else 0


def _reals(call: Call[Parameters], values: Values) -> list[Array]:
    sums = pooling.combine_windows(input_value(values), call, np.add)
    sums /= pooling.elements_seen(call, call.parameters.counted)
    return [limited(call.parameters.activation, sums)]


def _averages(call: Call[Parameters], image: Array, by_columns: bool) -> NDArray[np.float32]:
    """In float32, elements one after the other."""
    with np.errstate(all="ignore"):
        sums = pooling.sums_in_order(image.astype(np.float32, copy=False), call, by_columns)
        sums /= pooling.elements_seen(call, call.parameters.counted).astype(np.float32)
    return sums


def _in_order(call: Call[Parameters], values: Values) -> list[Array]:
    averages = _averages(call, input_value(values), call.parameters.by_columns)
    return [limited(call.parameters.activation, averages)]


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    if call.parameters.rescale != "fused":
        return _IN_INTEGERS(call, values)
    reals = reals_of_codes(input_value(values), input_type(call))
    return fused_average(call, _averages(call, reals, False))


def _counted_padding(call: Call[Parameters]) -> bool:
    """no more of the padding counts than there is"""
    how = call.parameters
    sides = zip(sum(how.counted, ()), sum(how.padding, ()), strict=True)
    return all(counted <= there for counted, there in sides)


def _image_only(call: Call[Parameters]) -> bool:
    """on the NPU windows count what lies in the image"""
    return call.parameters.counted == NO_BORDERS


def _padded(call: Call[Parameters]) -> Expansion | None:
    """The padding that counts as zeros around the image, then a pool."""
    how, image = call.parameters, input_type(call)
    if how.counted == NO_BORDERS:
        return None
    found = Expansion(len(call.inputs))
    paddings = ((0, 0), *how.counted, (0, 0))
    shape = tuple(size + sum(border) for size, border in zip(image.shape, paddings, strict=True))
    (wide,) = found.call("pad", "pad", (0,), [replace(image, shape=shape)], pad.Parameters(paddings=paddings))
    left = tuple(
        (there[0] - counted[0], there[1] - counted[1])
        for there, counted in zip(how.padding, how.counted, strict=True)
    )
    pool = how.changed(padding=left, counted=NO_BORDERS)
    found.results += found.call("pool", "average_pool_2d", (wide,), call.outputs, pool)
    return found


REFERENCES = with_halves({"int8": _codes, "uint8": _codes, "int16": _codes, "float32": _reals})
_IN_INTEGERS = by_type(REFERENCES)

OPERATOR = Operator(
    name="average_pool_2d",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=(*pooling.RULES, _counted_padding, only_codes, in_32_bits(sum)),
    infer=pooling.infer,
    reference=_reference,
    workload=pooling.workload,
    window=pooling.window,
    expand=_padded,
    lowerings=(
        pooling.npu_lowering(lower_average_pool, _image_only),
        pooling.on_int16(lower_average_pool, _image_only),
        pooling.on_lanes("average", _image_only),
        pooling.npu_lowering(
            lower_float_average,
            on_codes,
            _image_only,
            needs=(float32_rescale,),
            rescales=("float32", "fused"),
        ),
    ),
    rescales=("fixed_point", "fused"),
    in_reals=_in_order,
)
