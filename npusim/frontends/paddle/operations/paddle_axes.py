"""Paddle's operators on elements, matrices and along axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, starmap
from math import prod
from typing import Any

from npusim.frontends.forms.arithmetic import converted, limited, product
from npusim.frontends.forms.axes import without
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Row
from npusim.frontends.paddle.operations import paddle_arguments as given
from npusim.frontends.paddle.operations.paddle_arguments import op, renamed
from npusim.kernels.graph.builder import unshaped

_SAME_NAMES = (
    *("abs", "floor", "ceil", "sign", "sqrt", "exp", "log", "erf", "reciprocal", "mish", "relu"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "sigmoid", "softplus", "softsign"),
)


def _relu6(c: NodeConversion) -> Sequence[int]:
    return [limited(c, c.tensor("X"), 0.0, c.parameter("threshold", 6.0))]


def _clip(c: NodeConversion) -> Sequence[int]:
    x, kind = c.tensor("X"), c.builder.type(c.tensor("X"))
    least, most = (
        float(c.value(name).reshape(-1)[0]) if c.has(name) else c.parameter(name.lower(), 0.0)
        for name in ("Min", "Max")
    )
    c.require(least <= most, f"min {least} is above max {most}")
    if kind.real or kind.quantization is not None:
        return [limited(c, x, least, most)]
    return [c.step("minimum", [c.step("maximum", [x, c.scalar(least, x)]), c.scalar(most, x)])]


def _hard_swish(c: NodeConversion) -> Sequence[int]:
    """Add x * clip(x + offset, 0, threshold) / scale; with the default parameters it is the operator hard_swish."""
    usual = {"threshold": 6.0, "scale": 6.0, "offset": 3.0}
    threshold, scale, offset = (c.parameter(*pair) for pair in usual.items())
    if (threshold, scale, offset) == (6.0, 6.0, 3.0):
        return [c.node("hard_swish", [c.tensor("X")])]
    x = c.real("X")
    gate = c.step("clip", [c.step("add", [x, c.scalar(offset, x)])], least=0.0, most=threshold)
    return [c.node("div", [c.step("mul", [x, gate]), c.scalar(scale, x)])]


def _softplus(c: NodeConversion) -> Sequence[int]:
    """Add log(1 + exp(beta * x)) / beta where beta * x is at most the threshold, and x elsewhere."""
    beta, threshold, x = c.parameter("beta", 1.0), c.parameter("threshold", 20.0), c.tensor("X")
    c.require(beta > 0, f"beta is {beta}, must be above 0")
    if beta == 1 and threshold >= 20:  # beyond 20 both are the same float32
        return [c.node("softplus", [x])]
    x = c.as_real(x)
    wide = c.step("mul", [x, c.scalar(beta, x)])
    soft = c.step("div", [c.step("softplus", [wide]), c.scalar(beta, x)])
    above = c.step("greater", [wide, c.scalar(threshold, x)], "bool")
    return c.nodes("select_v2", [above, x, soft], [c.kind()])


def _power(c: NodeConversion) -> Sequence[int]:
    x, factor = c.tensor("X"), c.parameter("factor", 1.0)
    if factor in (2.0, 0.5):
        return [c.node("square" if factor == 2 else "sqrt", [x])]
    return [c.node("pow", [c.as_real(x), c.scalar(factor, c.as_real(x))])]


def _round(c: NodeConversion) -> Sequence[int]:
    """Add sign(x) * floor(|x| + 0.5): Paddle rounds halves away from zero."""
    x = c.real("X")
    size = c.step("floor", [c.step("add", [c.step("abs", [x]), c.scalar(0.5, x)])])
    return [c.node("mul", [c.step("sign", [x]), size])]


def _function(name: str, role: str, **defaults: Any) -> list[Row]:
    """Return the row of a function of one tensor, with the parameters that the attributes of its name state."""

    def convert(c: NodeConversion) -> Sequence[int]:
        parameters = {key: c.parameter(key, default) for key, default in defaults.items()}
        return [c.node(name, [c.tensor("X")], **parameters)]

    return op(name, "X", convert, name, role=role)


def _scale(c: NodeConversion) -> Sequence[int]:
    """Add scale * x + bias, or scale * (x + bias); nothing if that changes nothing."""
    x, scale, bias = c.tensor("X"), c.parameter("scale", 1.0), c.parameter("bias", 0.0)
    tensor = c.real("ScaleTensor") if c.has("ScaleTensor") else None
    if tensor is None and (scale, bias) == (1.0, 0.0):
        return [x]
    x = c.as_real(x)
    factor = c.scalar(scale, x) if tensor is None else c.reshaped(tensor, ())
    steps = [("mul", factor)] if tensor is not None or scale != 1 else []
    if bias:
        steps.insert(len(steps) if c.flag("bias_after_scale", True) else 0, ("add", c.scalar(bias, x)))
    for name, number in steps[:-1]:
        x = c.step(name, [x, number])
    return [c.node(steps[-1][0], [x, steps[-1][1]])]


def _prelu(c: NodeConversion) -> Sequence[int]:
    """Add PReLU with one slope, one per channel, or one per element of an image."""
    given.channels_first(c)
    x, alpha, mode, shape = c.tensor("X"), c.tensor("Alpha"), c.attribute("mode", "all"), c.shape("X")
    c.require(mode in ("all", "channel", "element"), f"mode is {mode!r}")
    c.require(len(shape) > 1 or mode == "all", f"X has shape {list(shape)}, must have channels")
    if mode != "element":
        alpha = c.reshaped(alpha, (shape[1], *(1,) * (len(shape) - 2)) if mode == "channel" else ())
    return [c.node("prelu", [x, alpha])]


def _aligned(c: NodeConversion, x: int, y: int) -> int:
    """Return Y reshaped so that it broadcasts with X: attribute `axis` states the axis of X at which Y begins."""
    axis, own = c.parameter("axis", -1), c.shape(y)
    behind = len(c.shape(x)) - axis - len(own)
    if axis == -1 or behind <= 0 or not own:
        return y
    c.require(axis >= 0, f"axis is {axis}, must be -1 or more")
    return c.reshaped(y, (*own, *(1,) * behind))


def _arithmetic(name: str, operator: str) -> list[Row]:
    def convert(c: NodeConversion) -> Sequence[int]:
        return [c.node(operator, [c.tensor("X"), _aligned(c, c.tensor("X"), c.tensor("Y"))])]

    role = name.capitalize() if name in ("add", "sub", "mul", "div") else ""
    return op(f"elementwise_{name}", "X Y", convert, f"{operator} cast reshape", role=role)


def _comparison(name: str, operator: str) -> list[Row]:
    def convert(c: NodeConversion) -> Sequence[int]:
        return [c.step(operator, [c.real("X"), _aligned(c, c.real("X"), c.real("Y"))], "bool")]

    return op(name, "X Y", convert, f"{operator} cast", groups=False)


def _cast(c: NodeConversion) -> Sequence[int]:
    return [converted(c, c.real("X"), given.element_type(c, "out_dtype"))]


_LIMITS = "relu relu6 relu_0_to_1 clip reshape"
_STATED: dict[str, Any] = {"min": ("min",), "max": ("max",)}
_ARITHMETIC = {name: name for name in ("add", "sub", "mul", "div", "pow")}
_ARITHMETIC |= {"max": "maximum", "min": "minimum", "mod": "floor_mod", "floordiv": "floor_div"}

_TRANSPOSED = (("trans_x", "trans_y"), ("transpose_X", "transpose_Y"))
"""Attributes that transpose the last two axes of a factor, by version of the operator."""


def _transposed(c: NodeConversion, name: str, place: int) -> int:
    tensor, rank = c.tensor(name), len(c.shape(name))
    is_transposed = any(c.flag(names[place]) for names in _TRANSPOSED) and rank > 1
    return c.transposed(tensor, (*range(rank - 2), rank - 1, rank - 2)) if is_transposed else tensor


def _matmul(c: NodeConversion) -> Sequence[int]:
    alpha = c.parameter("alpha", 1.0)
    result = product(c, _transposed(c, "X", 0), _transposed(c, "Y", 1), final=alpha == 1)
    return [result if alpha == 1 else c.node("mul", [result, c.scalar(alpha, result)])]


def _role(attributes: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    is_transposed = any(attributes.get(names[1]) for names in _TRANSPOSED)
    return "Gemm", {"transB": int(is_transposed), "alpha": attributes.get("alpha", 1.0)}


def _matrix(c: NodeConversion, tensor: int, count: int, name: str) -> int:
    """Return a tensor as a matrix. Its first `count` axes are the rows, the others the columns."""
    shape = c.shape(tensor)
    c.require(0 < count < len(shape), f"{name} is {count}, must be 1..{len(shape) - 1}")
    return c.reshaped(tensor, (prod(shape[:count]), prod(shape[count:])))


def _mul(c: NodeConversion) -> Sequence[int]:
    """Flatten both tensors to matrices, add their product, and give the result the remaining axes of both."""
    x, y = c.tensor("X"), c.tensor("Y")
    rows, columns = c.parameter("x_num_col_dims", 1), c.parameter("y_num_col_dims", 1)
    shape = (*c.shape(x)[:rows], *c.shape(y)[columns:])
    result = product(c, _matrix(c, x, rows, "x_num_col_dims"), _matrix(c, y, columns, "y_num_col_dims"))
    return [c.reshaped(result, shape)]


def _fully_connected(c: NodeConversion) -> Sequence[int]:
    x, rows = c.real("Input"), c.parameter("in_num_col_dims", 1)
    activation = c.attribute("activation_type", "")
    c.require(activation in ("", "relu"), f"activation_type is {activation!r}, must be '' or 'relu'")
    result = product(c, _matrix(c, x, rows, "in_num_col_dims"), c.real("W"))
    shape = (*c.shape(x)[:rows], *c.shape(result)[1:])
    if c.has("Bias"):
        result = c.node("add", [result, c.reshaped(c.real("Bias"), shape[-1:])])
    return [c.reshaped(c.node("relu", [result]) if activation else result, shape)]


def _unit_length(c: NodeConversion) -> Sequence[int]:
    """Add x / sqrt(sum of squares + epsilon)."""
    x = c.real("X")
    axis = given.axis_of(c, len(c.shape(x)), default=1)
    squares = c.step("sum", [c.step("square", [x])], axes=(axis,), keep_dims=True)
    epsilon = c.scalar(c.parameter("epsilon", 1e-10), squares)
    return [c.node("div", [x, c.step("sqrt", [c.step("add", [squares, epsilon])])])]


_EPSILON, _BEGIN = ("epsilon", 1e-5), ("begin_norm_axis", 1)
_MOMENTS = "X=X scale=Scale B=Bias input_mean=Mean input_var=Variance"
_LAYER, _GROUPS = "X=X Scale=Scale? B=Bias?", "X=X scale=Scale bias=Bias"
_INSTANCE = "input=X scale=Scale B=Bias"
_PRODUCTS = "fully_connected batch_matmul transpose reshape mul"


def _reduction(name: str, operator: str, role: str = "") -> list[Row]:
    """Return the row of a reduction along the axes `dim`, or along all axes if none are stated."""

    def convert(c: NodeConversion) -> Sequence[int]:
        x, rank = c.tensor("X"), len(c.shape("X"))
        stated_axes = [] if c.flag("reduce_all") else given.numbers(c, "dim")
        axes = sorted({c.axis(axis, rank, "dim") for axis in stated_axes}) or range(rank)
        result = c.node(operator, [x], axes=tuple(axes), keep_dims=c.flag("keep_dim")) if rank else x
        return [c.reshaped(result, given.without_axes(c, c.shape(result)))]

    return op(name, "X", convert, f"{operator} cast reshape", role=role)


def _flat(c: NodeConversion) -> int:
    """Return the input, as a vector if the attribute `flatten` asks for it."""
    return c.reshaped(c.real("X"), (prod(c.shape("X")),)) if c.flag("flatten") else c.real("X")


def _position(name: str) -> list[Row]:
    def convert(c: NodeConversion) -> Sequence[int]:
        x = _flat(c)
        shape = c.shape(x)
        axis = given.axis_of(c, len(shape), default=-1)
        position = c.step(name, [x], given.element_type(c, default=3), axis=axis)
        if c.flag("keepdims"):
            return [c.reshaped(position, without(shape, axis))]
        return [c.reshaped(position, given.without_axes(c, c.shape(position)))]

    return op(name, "X", convert, f"{name} reshape", groups=False)


def _top(c: NodeConversion) -> Sequence[int]:
    """Add the largest or smallest elements in order, and their places; argsort has all elements."""
    x, every = c.real("X"), c.source.operation == "argsort"
    axis = given.axis_of(c, len(c.shape(x)), default=-1)
    size = c.shape(x)[axis]
    k = size if every else c.wholes("K")[0] if c.has("K") else c.parameter("k", 1)
    c.require(0 < k <= size, f"k is {k}, axis {axis} has {size} elements")
    falling = c.flag("descending") if every else c.flag("largest", True)
    parameters: dict[str, Any] = {"k": k, "axis": axis, "smallest": not falling}
    return c.nodes("topk_v2", [x], [c.like(x), unshaped("int64")], **parameters)


def _running(c: NodeConversion) -> Sequence[int]:
    x = _flat(c)
    parameters: dict[str, Any] = {name: c.flag(name) for name in ("exclusive", "reverse")}
    return [c.node("cumsum", [x], axis=given.axis_of(c, len(c.shape(x)), default=-1), **parameters)]


ROWS: tuple[Row, ...] = tuple(
    chain(
        *(renamed(name, name.capitalize()) for name in _SAME_NAMES if name != "softplus"),
        *(_function(name, "Mul") for name in ("rsqrt", "square")),
        _function("gelu", "Gelu", approximate=False),
        op("softplus", "X", _softplus, "softplus mul div greater select_v2", role="Softplus"),
        op("round", "X", _round, "floor add abs sign mul", groups=False),
        op("pow", "X", _power, "pow square sqrt", role="Pow"),
        op("hard_swish", "X", _hard_swish, "hard_swish add clip mul div", role="HardSwish"),
        op("relu6", "X", _relu6, _LIMITS, role="Clip", min=0.0, max=("threshold", 6.0)),
        op("clip", "X Min? Max?", _clip, f"{_LIMITS} maximum minimum", role="Clip", **_STATED),
        renamed("silu", "Swish"),
        renamed("swish", "Swish", alpha=("beta", 1.0)),
        renamed("leaky_relu", "LeakyRelu", alpha=("alpha", 0.02)),
        renamed("elu", "Elu", alpha=("alpha", 1.0)),
        renamed("celu", "Celu", alpha=("alpha", 1.0)),
        renamed("selu", "Selu", alpha=("alpha", 1.6732632423543772), gamma=("scale", 1.0507009873554805)),
        renamed("thresholded_relu", "ThresholdedRelu", alpha=("threshold", 1.0)),
        renamed("hard_sigmoid", "HardSigmoid", alpha=("slope", 0.2), beta=("offset", 0.5)),
        op("scale", "X ScaleTensor?", _scale, "mul add", role="Mul"),
        op("prelu", "X Alpha", _prelu, "prelu reshape"),
        *starmap(_arithmetic, _ARITHMETIC.items()),
        renamed("sum", "Sum", "data_0=X*"),
        *(_comparison(name, name) for name in ("equal", "not_equal", "less_equal", "greater_equal")),
        *(_comparison(f"{name}_than", name) for name in ("less", "greater")),
        *(renamed(f"logical_{name.lower()}", name, "A=X B=Y") for name in ("And", "Or", "Xor")),
        renamed("logical_not", "Not"),
        renamed("where", "Where", "condition=Condition X=X Y=Y"),
        op("cast", "X", _cast, "cast not_equal reshape", groups=False),
        op("matmul matmul_v2 bmm", "X Y", _matmul, _PRODUCTS, role=_role),
        op("mul", "X Y", _mul, _PRODUCTS, role="MatMul"),
        op("fc", "Input W Bias?", _fully_connected, f"{_PRODUCTS} add relu", groups=False),
        renamed("batch_norm sync_batch_norm", "BatchNormalization", _MOMENTS, "Y", epsilon=_EPSILON),
        renamed("layer_norm", "LayerNormalization", _LAYER, "Y", axis=_BEGIN, epsilon=_EPSILON),
        renamed("group_norm", "GroupNormalization", _GROUPS, "Y", num_groups=("groups", 1), epsilon=_EPSILON),
        renamed("instance_norm", "InstanceNormalization", _INSTANCE, "Y", epsilon=_EPSILON),
        op("norm", "X", _unit_length, "div sum square sqrt add", groups=False),
        _reduction("reduce_mean", "mean"),
        _reduction("mean", "mean"),
        _reduction("reduce_sum", "sum"),
        _reduction("reduce_max", "reduce_max", "ReduceMax"),
        _reduction("reduce_min", "reduce_min", "ReduceMin"),
        *(_reduction(name, name) for name in ("reduce_prod", "reduce_all", "reduce_any")),
        *(_position(name) for name in ("arg_max", "arg_min")),
        op("top_k top_k_v2", "X K?", _top, "topk_v2", "Out Indices", groups=False),
        op("argsort", "X", _top, "topk_v2", "Out Indices", groups=False),
        op("cumsum", "X", _running, "cumsum", groups=False),
        renamed("softmax", "Softmax", "input=X", axis=("axis", -1)),
        renamed("log_softmax", "LogSoftmax", "input=X", axis=("axis", -1)),
    )
)
