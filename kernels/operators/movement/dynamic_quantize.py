"""dynamic_quantize: real numbers to codes uint8 whose scale and zero point follow from the numbers themselves.

x -> codes, scale [], zero point []. With 0 among them the numbers x span low..high; then

    scale      = f32(f32(high - low) / 255), 1 where all are 0
    zero point = rint(clamp(f32((0 - low) / scale), 0, 255))
    codes      = clamp(rint(f32(x / scale)) + zero point, 0, 255)

as ONNX has it (DynamicQuantizeLinear).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import rules
from npusim.kernels.operator.axes import Reduction
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operator.parameters import ByValue
from npusim.kernels.operator.real_steps import RealSteps
from npusim.kernels.operators.movement import quantize

_LARGEST = 255
_READINGS = 3
"""How often every number is read: for the smallest, for the largest, and to become a code."""


def _reference(call: Call, values: Values) -> list[Array]:
    x: Any = input_value(values)
    nothing, most = np.float32(0), np.float32(_LARGEST)
    with np.errstate(all="ignore"):
        low, high = np.minimum(x.min(), nothing), np.maximum(x.max(), nothing)
        scale = (high - low) / most if high != low else np.float32(1)
        zero = np.rint(np.clip((nothing - low) / scale, nothing, most))
        steps = np.rint(x / scale) + zero
    codes = np.clip(np.where(np.isnan(steps), nothing, steps), nothing, most)
    zero_point = np.nan_to_num(zero, posinf=_LARGEST)
    return [codes.astype(np.uint8), np.asarray(scale, np.float32), np.asarray(zero_point, np.uint8)]


def _some(call: Call) -> bool:
    """there are numbers to find the smallest and the largest of"""
    return input_type(call).elements > 0


def _shapes(call: Call) -> bool:
    """codes have the shape of the numbers, scale and zero point are scalars"""
    return tuple(output.shape for output in call.outputs) == _infer(call)


def _infer(call: Call) -> tuple[tuple[int, ...], ...]:
    return (input_type(call).shape, (), ())


def _workload(call: Call) -> Workload:
    return elementwise(call, _READINGS * input_type(call).elements)


def _expand(call: Call) -> Expansion:
    """Step by step; whole numbers become codes that count."""
    steps = RealSteps(call)
    nothing, most = steps.number(0), steps.number(_LARGEST)
    axes = tuple(range(len(input_type(call).shape)))
    everything = Reduction(axes=axes, keep_dims=False)
    low = steps.pair("minimum", steps.step("reduce_min", [0], (), everything), nothing)
    high = steps.pair("maximum", steps.step("reduce_max", [0], (), everything), nothing)
    extent = steps.pair("sub", high, low)
    flat = steps.step("equal", [extent, nothing], (), ByValue(), TensorType("bool", ()))
    quotient = steps.pair("div", extent, most)
    scale = steps.step("select_v2", [flat, steps.number(1), quotient], ())
    zero = steps.pair("div", steps.pair("sub", nothing, low), scale)
    zero = steps.function("round", steps.pair("minimum", steps.pair("maximum", zero, nothing), most))
    codes = steps.pair("add", steps.function("round", steps.pair("div", 0, scale)), zero)
    codes = steps.pair("minimum", steps.pair("maximum", codes, nothing), most)
    counted = Quantization((1.0,), (0,))
    whole = [
        steps.step("quantize", [number], shape, quantize.Parameters(), TensorType("uint8", shape, counted))
        for number, shape in ((codes, input_type(call).shape), (zero, ()))
    ]
    return steps.result(whole[0], scale, whole[1])


OPERATOR = Operator(
    name="dynamic_quantize",
    types=("float32 -> uint8, float32, uint8",),
    rules=(rules.operands(1, 3), _some, _shapes),
    infer=_infer,
    reference=_reference,
    workload=_workload,
    expand=_expand,
    on_host="it reads its operand before it knows how to write it",
)
