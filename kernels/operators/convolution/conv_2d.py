"""Convolution of an image with a set of filters.

ifm [n, h, w, i], weights [o, kernel h, kernel w, i / groups], optional bias [o] -> ofm [n, rows, columns, o].
Input and output channels fall into as many groups, in order; each filter sees its group of the input channels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npusim.isa.arithmetic.convolution import convolve, convolve_float
from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.blocks import computed
from npusim.kernels.lowering.float_lanes import on_float_columns
from npusim.kernels.lowering.mac_work import lower_convolution, lower_groups_of_one
from npusim.kernels.lowering.work import deferred
from npusim.kernels.operator.operands import by_type, input_type, input_value, with_halves
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operators.convolution import convolution, exact_sum, weighted_sum
from npusim.kernels.operators.convolution.weighted_sum import WEIGHTS, filters_in_groups, groups

Parameters = convolution.Convolution


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    return convolution.of_codes(call, values, input_value(values, WEIGHTS), _by_groups(call, convolve))


def _floats(call: Call[Parameters], values: Values) -> list[Array]:
    return convolution.of_floats(call, values, input_value(values, WEIGHTS), _by_groups(call, convolve_float))


def _wide_codes(call: Call[Parameters], values: Values) -> list[Array]:
    primitive = _by_groups(call, convolve_float)
    return convolution.of_wide_codes(call, values, input_value(values, WEIGHTS), primitive)


def _by_groups(call: Call, convolve: Callable[..., Array]) -> Callable[..., Array]:
    """Return a primitive of `npusim.isa.arithmetic.convolution` for each group by itself."""
    count = groups(call)
    if count == 1:
        return convolve

    def grouped(image: Array, weights: Array, *zeros: int, **geometry: Any) -> Array:
        parts = zip(np.split(image, count, axis=2), np.split(weights, count), strict=True)
        return np.concatenate([convolve(*part, *zeros, **geometry) for part in parts], axis=2)

    return grouped


def _one_group(call: Call) -> bool:
    """on the NPU constant filters see all channels"""
    return groups(call) == 1 and not computed(call)


def _groups_of_one(call: Call) -> bool:
    """on the NPU filters see one channel"""
    return input_type(call, WEIGHTS).shape[3] == 1 < groups(call)


def _workload(call: Call) -> Workload:
    _, height, width, channels = input_type(call, WEIGHTS).shape
    return weighted_sum.workload(call, "gemm", height * width * channels)


_MAC = (
    Lowering("mac", (*convolution.NPU_RULES, _one_group), lower_convolution),
    Lowering("mac", (*convolution.NPU_RULES, _groups_of_one), lower_groups_of_one),
    Lowering("mac", convolution.NPU_RULES, deferred("grouped", "lower_groups")),
)
_FITS = convolution.fits_on_npu(channel_axis=0)

CONV_2D = Operator(
    name="conv_2d",
    parameters=Parameters,
    types=weighted_sum.TYPES,
    rules=convolution.rules_of(filters_in_groups, channel_axis=0),
    infer=lambda call: convolution.infer(call, channel_axis=0),
    reference=by_type(
        with_halves({"int8": _codes, "uint8": _codes, "int16": _wide_codes, "float32": _floats})
    ),
    workload=_workload,
    border=convolution.border,
    window=convolution.window,
    lowerings=(
        *_MAC,
        *(weighted_sum.on_int16(row, convolution.wide_sums_fit(0)) for row in _MAC),
        on_float_columns("lower_float_convolution", *convolution.NPU_RULES[1:], _one_group),
        on_float_columns("lower_float_groups", *convolution.NPU_RULES[1:]),
    ),
    arithmetics=convolution.arithmetics(
        filters_in_groups,
        channel_axis=0,
        of_codes=lambda call: _by_groups(call, convolve),
        of_floats=lambda call: _by_groups(call, convolve_float),
        taken=lambda weights: weights,
        lowerings=(
            exact_sum.on_npu(_MAC[0], _FITS),
            exact_sum.on_npu(_MAC[1], _FITS, exact_sum.codes_only),
            exact_sum.on_npu(_MAC[2], _FITS),
            *(exact_sum.on_int16(row, convolution.products) for row in _MAC),
        ),
    ),
)

OPERATORS = (CONV_2D,)
