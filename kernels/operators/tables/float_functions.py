"""Functions of one operand that their float definition determines: a table of operators, and their parameters.

In 8 bits each is a look-up in the table of its float results. Functions that the float lanes lack are expanded into
steps that the lanes have, if possible; otherwise the host computes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Float32Array, Float64Array
from npusim.kernels.operator.float_steps import FloatSteps
from npusim.kernels.operator.operands import code_range, quantization
from npusim.kernels.operator.operator import Call, Operator
from npusim.kernels.operator.parameters import Parameters
from npusim.kernels.operators.tables.lookup import (
    Steps,
    float_function,
    of_whole_numbers,
    tabulate_by_value,
    tabulate_float,
    unary_operator,
    wide_operator,
)


class AlphaParameters(Parameters):
    """alpha: the limit of elu and celu, negated, as x falls; for thresholded_relu the largest x that becomes 0."""

    alpha: float = 1.0


class SeluParameters(Parameters):
    """alpha, gamma: factors of the formula. The defaults keep mean and variance of normally distributed values."""

    alpha: float = 1.67326319217681884765625
    gamma: float = 1.05070102214813232421875


class ClipParameters(Parameters):
    """least, most: limits of the results, as floats also for quantized values; None: no limit. most wins over least."""

    least: float | None = None
    most: float | None = None


class GeluParameters(Parameters):
    """approximate: computed with a hyperbolic tangent instead of the error function."""

    approximate: bool = False


class HardSigmoidParameters(Parameters):
    """alpha: the slope between the limits; beta: the value at 0."""

    alpha: float
    beta: float


class SwishParameters(Parameters):
    """beta: the factor of x in the logistic function."""

    beta: float = 1.0


_MOST = 20.0
"""A threshold from which on x and softplus differ by less than the precision of float32."""


class SoftplusParameters(Parameters):
    """beta: how sharply the function bends at 0; threshold: where beta * x is larger, the result is x."""

    beta: float = 1.0
    threshold: float = _MOST


_error_function = np.vectorize(math.erf, otypes=[np.float64])


def _nonzero_alpha(call: Call[AlphaParameters]) -> bool:
    """alpha is not 0"""
    return call.parameters.alpha != 0


def _celu(call: Call[AlphaParameters], x: Float64Array) -> Float64Array:
    alpha = float(np.float32(call.parameters.alpha))
    result: Float64Array = np.maximum(x, 0.0) + np.minimum(alpha * np.expm1(x / alpha), 0.0)
    return result


def _elu(call: Call[AlphaParameters], x: Float64Array) -> Float64Array:
    alpha = float(np.float32(call.parameters.alpha))
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0.0)), x)


def _elu_lanes(call: Call[AlphaParameters]) -> tuple[str, float]:
    return "elu", call.parameters.alpha


def _selu(call: Call[SeluParameters], x: Float64Array) -> Float64Array:
    alpha, gamma = (float(np.float32(number)) for number in (call.parameters.alpha, call.parameters.gamma))
    result: Float64Array = gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0)))
    return result


def _thresholded(call: Call[AlphaParameters], x: Float64Array) -> Float64Array:
    return np.where(x > np.float32(call.parameters.alpha), x, 0.0)


def _gelu_lanes(call: Call[GeluParameters]) -> tuple[str, float]:
    return ("gelu_by_tanh" if call.parameters.approximate else "gelu"), 0.0


def _gelu(call: Call[GeluParameters], x: Float64Array) -> Float64Array:
    if call.parameters.approximate:
        tail = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    else:
        tail = _error_function(x * math.sqrt(0.5))
    result: Float64Array = 0.5 * x * (1.0 + tail)
    return result


_complement = np.vectorize(math.erfc, otypes=[np.float64])


def _gelu_of_codes(call: Call[GeluParameters], x: Float32Array) -> Float32Array:
    """Return GELU as LiteRT tabulates it. With 1 + erf, as in its float kernel, small results would be lost."""
    if call.parameters.approximate:
        return float_function(_gelu_lanes)(call, x)
    tail = _complement(x * -np.float32(math.sqrt(0.5))).astype(np.float32)
    result: Float32Array = np.float32(0.5) * x * tail
    return result


def _log_or_smallest(call: Call, x: Float32Array) -> Float32Array:
    """Return log x; quantized values without a logarithm become the smallest value of the output."""
    output = call.outputs[0]
    target = quantization(output)
    least = np.float32(target.scale) * np.float32(code_range(output.dtype)[0] - target.zero_point)
    result: Float32Array = np.where(x > 0, float_function("log")(call, x), least)
    return result


def _clip(call: Call[ClipParameters], x: Float64Array) -> Float64Array:
    least, most = call.parameters.least, call.parameters.most
    above: Float64Array = x if least is None else np.maximum(x, np.float32(least))
    return above if most is None else np.minimum(above, np.float32(most))


def _clip_steps(steps: FloatSteps, parameters: ClipParameters) -> int | None:
    least, most = parameters.least, parameters.most
    if least is None and most is None:
        return None
    above = 0 if least is None else steps.pair("maximum", 0, steps.number(least))
    return above if most is None else steps.pair("minimum", above, steps.number(most))


def gate(alpha: float, beta: float, x: Float32Array) -> Float32Array:
    """Return alpha * x + beta limited to 0..1, computed in float32."""
    line = np.float32(alpha) * x + np.float32(beta)
    limited: Float32Array = np.clip(line, np.float32(0), np.float32(1))
    return limited


def gate_in_steps(steps: FloatSteps, alpha: float, beta: float) -> int:
    """Add the steps that compute `gate` of the first operand on float lanes."""
    line = steps.pair("add", steps.pair("mul", 0, steps.number(alpha)), steps.number(beta))
    return steps.function("relu_0_to_1", line)


def _hard_sigmoid(call: Call[HardSigmoidParameters], x: Float32Array) -> Float32Array:
    return gate(call.parameters.alpha, call.parameters.beta, x)


def _hard_sigmoid_steps(steps: FloatSteps, parameters: HardSigmoidParameters) -> int:
    return gate_in_steps(steps, parameters.alpha, parameters.beta)


def _swish(call: Call[SwishParameters], x: Float64Array) -> Float64Array:
    result: Float64Array = x / (1 + np.exp(-float(np.float32(call.parameters.beta)) * x))
    return result


def _swish_steps(steps: FloatSteps, parameters: SwishParameters) -> int:
    steep = 0 if parameters.beta == 1 else steps.pair("mul", 0, steps.number(parameters.beta))
    return steps.pair("mul", 0, steps.function("logistic", steep))


def _softplus(call: Call[SoftplusParameters], x: Float64Array) -> Float64Array:
    """Return log(1 + exp(beta * x)) / beta."""
    beta, threshold = np.float64(np.float32(call.parameters.beta)), np.float32(call.parameters.threshold)
    steep = beta * x
    return np.where(steep > threshold, x, np.logaddexp(0.0, steep) / beta)


def _softplus_steps(steps: FloatSteps, parameters: SoftplusParameters) -> int | None:
    """Add (max(steep, 0) + log(1 + exp(-|steep|))) / beta, unless a threshold would cut the bend."""
    if parameters.threshold < _MOST or not parameters.beta:
        return None
    beta = steps.number(parameters.beta)
    steep = steps.pair("mul", 0, beta)
    tail = steps.function("exp", steps.function("neg", steps.function("abs", steep)))
    bend = steps.function("log", steps.pair("add", tail, steps.number(1.0)))
    return steps.pair("div", steps.pair("add", steps.function("relu", steep), bend), beta)


def _tan_steps(steps: FloatSteps, parameters: Parameters) -> int:
    return steps.pair("div", steps.function("sin", 0), steps.function("cos", 0))


def _mean_of_exponentials(combine: str) -> Steps:
    """Return the steps of cosh ("add") or sinh ("sub"): (exp(x) +- exp(-x)) / 2."""

    def steps_of(steps: FloatSteps, parameters: Parameters) -> int:
        halves = (steps.function("exp", 0), steps.function("exp", steps.function("neg", 0)))
        return steps.pair("mul", steps.pair(combine, *halves), steps.number(0.5))

    return steps_of


def _acosh_steps(steps: FloatSteps, parameters: Parameters) -> int:
    """Add log(x + sqrt(x - 1) * sqrt(x + 1))."""
    below, above = steps.pair("sub", 0, steps.number(1.0)), steps.pair("add", 0, steps.number(1.0))
    roots = steps.pair("mul", steps.function("sqrt", below), steps.function("sqrt", above))
    return steps.function("log", steps.pair("add", 0, roots))


def _atanh_steps(steps: FloatSteps, parameters: Parameters) -> int:
    """Add log((1 + x) / (1 - x)) / 2."""
    above, below = steps.pair("add", steps.number(1.0), 0), steps.pair("sub", steps.number(1.0), 0)
    return steps.pair("mul", steps.function("log", steps.pair("div", above, below)), steps.number(0.5))


def _on_lanes(name: str, **more: Any) -> Operator:
    """Return a function of the float lanes whose float results LiteRT clamps before it rounds them."""
    return unary_operator(name, tabulate_float(float_function(name), ("int8", "uint8")), **more)


def _on_integers(function: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the references of integers without scale."""
    return dict.fromkeys(("int32", "int64"), of_whole_numbers(function))


def _interpolated(name: str, function: Any, **more: Any) -> Operator:
    """Return a function of the float lanes that int16 interpolates between the entries of its table."""
    return unary_operator(name, tabulate_float(function), interpolates=function, **more)


def _reciprocal_steps(steps: FloatSteps, parameters: Parameters) -> int:
    """Add 1 / x, which float32 rounds as float64 rounded to float32 does."""
    return steps.pair("div", steps.number(1.0), 0)


def _of_x(name: str, function: Callable[[Any], Any], steps: Steps | None = None, **more: Any) -> Operator:
    """Return a function without parameters, of float64."""
    return wide_operator(name, lambda call, x: function(x), steps=steps, **more)


OPERATORS = (
    _on_lanes("floor"),
    _on_lanes("ceil"),
    _on_lanes("round"),  # halves to the even integer
    _on_lanes("sin"),
    _on_lanes("cos"),
    _on_lanes("sign", whole=_on_integers(np.sign)),
    _on_lanes("square", whole=_on_integers(np.square)),
    _interpolated("exp", float_function("exp")),
    _interpolated("log", _log_or_smallest),
    _interpolated("gelu", _gelu_of_codes, parameters=GeluParameters, lanes=_gelu_lanes, once=_gelu),
    unary_operator(
        "elu",
        tabulate_float(float_function(_elu_lanes), ("int8", "uint8")),
        parameters=AlphaParameters,
        lanes=_elu_lanes,
        once=_elu,
    ),
    _of_x("asin", np.arcsin),
    _of_x("acos", np.arccos),
    _of_x("atan", np.arctan),
    _of_x("asinh", np.arcsinh),
    _of_x("acosh", np.arccosh, _acosh_steps),
    _of_x("atanh", np.arctanh, _atanh_steps),
    _of_x("tan", np.tan, _tan_steps),
    _of_x("sinh", np.sinh, _mean_of_exponentials("sub")),
    _of_x("cosh", np.cosh, _mean_of_exponentials("add")),
    _of_x("erf", _error_function, lane_rules=()),
    _of_x("mish", lambda x: x * np.tanh(np.logaddexp(0.0, x))),
    _of_x("reciprocal", lambda x: 1.0 / x, _reciprocal_steps),
    wide_operator("selu", _selu, parameters=SeluParameters),
    wide_operator("celu", _celu, _nonzero_alpha, parameters=AlphaParameters),
    wide_operator("thresholded_relu", _thresholded, parameters=AlphaParameters),
    wide_operator("clip", _clip, parameters=ClipParameters, steps=_clip_steps),
    wide_operator("swish", _swish, parameters=SwishParameters, steps=_swish_steps),
    wide_operator("softplus", _softplus, parameters=SoftplusParameters, steps=_softplus_steps),
    unary_operator(
        "hard_sigmoid",
        tabulate_by_value(_hard_sigmoid),
        parameters=HardSigmoidParameters,
        on_host=_hard_sigmoid,
        steps=_hard_sigmoid_steps,
    ),
)
"""Functions element by element; "mish" is x * tanh(log(1 + exp(x)))."""
