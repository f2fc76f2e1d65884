"""The standard operations: a table of their declarations, and bodies of those that are made of others.

A body defines its operation; executing either gives the same result. Names, types and defaults of parameters are those
of NNEF 1.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from npusim.frontends.nnef.language.parser import parse_body
from npusim.frontends.nnef.language.syntax import Fragment, Literal, Parameter
from npusim.frontends.nnef.language.value_types import (
    ANY_TENSOR,
    INTEGER,
    INTEGERS,
    LOGICAL,
    OPEN,
    SCALAR,
    SCALARS,
    STRING,
    TENSOR_OF,
    Array,
    Primitive,
    Tuple,
    Type,
)
from npusim.frontends.nnef.places import Source
from npusim.isa.base.lazy_dataclass import dataclass

BORDERS = ("constant", "replicate", "reflect", "reflect-even", "ignore")
METHODS = ("symmetric", "asymmetric", "aligned")

_INTEGER_TENSOR = TENSOR_OF["integer"]
_LOGICAL_TENSOR = TENSOR_OF["logical"]
_OPEN_TENSOR = TENSOR_OF[OPEN]
_TENSORS = Array(SCALARS)
_OPEN_TENSORS = Array(_OPEN_TENSOR)
_PAIRS = Array(Tuple((INTEGER, INTEGER)))


def _given(name: str, kind: Type = SCALARS) -> Parameter:
    """Return a parameter without a default."""
    return Parameter(name, kind)


def _default(name: str, kind: Type, value: Any, values: tuple[str, ...] = ()) -> Parameter:
    """Return a parameter with a default; `values` are those that a string may have."""
    literal = SCALAR if kind == SCALARS else kind
    return Parameter(name, kind, Literal(0, value, literal), 0, values)


def _strings(name: str, values: tuple[str, ...], default: str) -> Parameter:
    return _default(name, STRING, default, values)


_X = _given("x")
_Y = _given("y")
_INPUT = _given("input")
_FILTER = _given("filter")
_BIAS = _default("bias", SCALARS, 0.0)
_SIZE = _given("size", INTEGERS)
_AXES = _given("axes", INTEGERS)
_SHAPE = _given("shape", INTEGERS)
_FACTOR = _given("factor", INTEGERS)
_BITS = _given("bits", INTEGER)
_BORDER = _strings("border", BORDERS, "constant")
_NORMALIZE = _default("normalize", LOGICAL, False)
_GROUPS = _default("groups", INTEGER, 1)
_OUTPUT_SHAPE = _default("output_shape", INTEGERS, [])
_SPACING = (
    _BORDER,
    _default("padding", _PAIRS, []),
    _default("stride", INTEGERS, []),
    _default("dilation", INTEGERS, []),
)
_EPSILON = _default("epsilon", SCALAR, 0.0)
_OFFSET = _default("bias", SCALAR, 0.0)
_REGIONS = (_INPUT, _given("rois"), _given("batch_index", _INTEGER_TENSOR), _given("output_size", INTEGERS))
_OUTPUT = (_given("output"),)
_OPEN_INPUT = _given("input", _OPEN_TENSOR)
_OPEN_OUTPUT = (_given("output", _OPEN_TENSOR),)
_SPACING_PASSED = "border = border, padding = padding, stride = stride, dilation = dilation"


@dataclass(frozen=True, slots=True)
class Operation:
    """A row of the table; `generic` as in Fragment; `body` is "" for an operation that is not made of others."""

    name: str
    family: str
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    generic: str | None = None
    body: str = ""


def _elementwise(names: str, family: str, arity: int, have: Type, give: Type) -> Iterator[Operation]:
    """Return the rows of operations x -> y, or x, y -> z."""
    parameters = (_given("x", have), _given("y", have))[:arity]
    for name in names.split():
        yield Operation(name, family, parameters, (_given("z" if arity == 2 else "y", give),))


def _made(
    name: str, family: str, parameters: tuple[Parameter, ...], body: str, results: str = "output"
) -> Operation:
    """Return the row of an operation on scalars that is made of others."""
    return Operation(name, family, parameters, tuple(map(_given, results.split())), None, body)


def _rows() -> Iterator[Operation]:
    yield from _introduction_and_shape()
    yield from _elementwise_rows()
    yield from _windows()
    yield from _reductions_and_activations()
    yield from _pools_and_layers()
    yield from _normalizations()
    yield from _regions_and_quantization()


def _introduction_and_shape() -> Iterator[Operation]:
    family = "introduction"
    yield Operation("external", family, (_SHAPE,), _OPEN_OUTPUT, "scalar")
    yield Operation("variable", family, (_SHAPE, _given("label", STRING)), _OPEN_OUTPUT, "scalar")
    values = _given("value", Array(Primitive(OPEN)))
    yield Operation("constant", family, (_SHAPE, values), _OPEN_OUTPUT, "scalar")
    updated = (_given("variable", _OPEN_TENSOR), _given("value", _OPEN_TENSOR))
    yield Operation("update", family, updated, (_given("result", _OPEN_TENSOR),), "")
    family = "shape"
    part = (_default("axis_start", INTEGER, 0), _default("axis_count", INTEGER, -1))
    yield Operation("reshape", family, (_OPEN_INPUT, _SHAPE, *part), _OPEN_OUTPUT, "")
    for name in ("transpose", "squeeze", "unsqueeze"):
        yield Operation(name, family, (_OPEN_INPUT, _AXES), _OPEN_OUTPUT, "")
    axis = _given("axis", INTEGER)
    values, one = _given("values", _OPEN_TENSORS), _given("value", _OPEN_TENSOR)
    for name in ("concat", "stack"):
        yield Operation(name, family, (values, axis), (one,), "")
    yield Operation("split", family, (one, axis, _given("ratios", INTEGERS)), (values,), "")
    yield Operation("unstack", family, (one, axis), (values,), "")
    bounds = (_given("begin", INTEGERS), _given("end", INTEGERS), _default("stride", INTEGERS, []))
    yield Operation("slice", family, (_OPEN_INPUT, _AXES, *bounds), _OPEN_OUTPUT, "")
    yield Operation("tile", family, (_OPEN_INPUT, _given("repeats", INTEGERS)), _OPEN_OUTPUT, "")
    around = (_given("padding", _PAIRS), _BORDER, _default("value", SCALAR, 0.0))
    yield Operation("pad", family, (_INPUT, *around), _OUTPUT)
    chosen = (_given("indices", _INTEGER_TENSOR), _default("axis", INTEGER, 0))
    yield Operation("gather", family, (_OPEN_INPUT, *chosen), _OPEN_OUTPUT, "")
    yield Operation("cast", family, (_given("input", ANY_TENSOR),), _OPEN_OUTPUT, "")


def _elementwise_rows() -> Iterator[Operation]:
    yield from _elementwise("add sub mul div pow", "arithmetic", 2, SCALARS, SCALARS)
    functions = "exp log sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh abs sign rcp neg"
    yield from _elementwise(functions, "arithmetic", 1, SCALARS, SCALARS)
    yield Operation("copy", "arithmetic", (_given("x", _OPEN_TENSOR),), (_given("y", _OPEN_TENSOR),), "")
    yield from _elementwise("lt gt le ge eq ne", "comparison", 2, SCALARS, _LOGICAL_TENSOR)
    yield from _elementwise("and or", "logical", 2, _LOGICAL_TENSOR, _LOGICAL_TENSOR)
    yield from _elementwise("not", "logical", 1, _LOGICAL_TENSOR, _LOGICAL_TENSOR)
    yield from _elementwise("floor ceil round", "rounding", 1, SCALARS, SCALARS)
    choices = (_given("true_value", _OPEN_TENSOR), _given("false_value", _OPEN_TENSOR))
    yield Operation("select", "select", (_given("condition", _LOGICAL_TENSOR), *choices), _OPEN_OUTPUT, "")
    family = "simplifier"
    yield _made("sqr", family, (_X,), "y = x ^ 2.0;", "y")
    yield _made("sqrt", family, (_X,), "y = x ^ 0.5;", "y")
    yield _made("rsqr", family, (_X,), "y = x ^ -2.0;", "y")
    yield _made("rsqrt", family, (_X,), "y = x ^ -0.5;", "y")
    yield _made("log2", family, (_X,), "y = log(x) / 0.6931471805599453;", "y")
    yield _made("min", family, (_X, _Y), "z = select(x < y, x, y);", "z")
    yield _made("max", family, (_X, _Y), "z = select(x > y, x, y);", "z")
    yield _made("clamp", family, (_X, _given("a"), _given("b")), "y = max(min(x, b), a);", "y")


def _windows() -> Iterator[Operation]:
    turned = (_default("transposeA", LOGICAL, False), _default("transposeB", LOGICAL, False))
    yield Operation("matmul", "product", (_given("A"), _given("B"), *turned), (_given("C"),))
    family = "window"
    yield Operation("conv", family, (_INPUT, _FILTER, _BIAS, *_SPACING, _GROUPS), _OUTPUT)
    yield Operation("deconv", family, (_INPUT, _FILTER, _BIAS, *_SPACING, _OUTPUT_SHAPE, _GROUPS), _OUTPUT)
    yield Operation("box", family, (_INPUT, _SIZE, *_SPACING, _NORMALIZE), _OUTPUT)
    yield Operation("debox", family, (_INPUT, _SIZE, *_SPACING, _OUTPUT_SHAPE, _NORMALIZE), _OUTPUT)
    index = _given("index", _INTEGER_TENSOR)
    yield Operation("argmax_pool", family, (_INPUT, _SIZE, *_SPACING), (index,))
    yield Operation("sample", family, (_INPUT, index, _SIZE, *_SPACING), _OUTPUT)
    yield Operation("desample", family, (_INPUT, index, _SIZE, *_SPACING, _OUTPUT_SHAPE), _OUTPUT)
    family = "resampling"
    steps = "step = [1,1] + factor; none = [(0,0)] * length_of(step);"
    scaled = "stride = step, padding = none"
    single = f"{steps} output = box(input, size = [1] * length_of(step), {scaled});"
    yield _made("nearest_downsample", family, (_INPUT, _FACTOR), single)
    mean = f"{steps} output = box(input, size = step, {scaled}, normalize = true);"
    yield _made("area_downsample", family, (_INPUT, _FACTOR), mean)
    yield _made(
        "nearest_upsample",
        family,
        (_INPUT, _FACTOR),
        f"{steps} output = debox(input, size = step, {scaled});",
    )
    method = (_strings("method", METHODS, "symmetric"), _strings("border", BORDERS, "replicate"))
    yield Operation("multilinear_upsample", family, (_INPUT, _FACTOR, *method), _OUTPUT)


def _reductions_and_activations() -> Iterator[Operation]:
    family = "reduction"
    yield Operation("sum_reduce", family, (_INPUT, _AXES, _NORMALIZE), _OUTPUT)
    for name in ("max_reduce", "min_reduce"):
        yield Operation(name, family, (_INPUT, _AXES), _OUTPUT)
    for name in ("argmax_reduce", "argmin_reduce"):
        yield Operation(name, family, (_INPUT, _AXES), (_given("output", _INTEGER_TENSOR),))
    for name in ("any_reduce", "all_reduce"):
        logical = (_given("input", _LOGICAL_TENSOR), _AXES)
        yield Operation(name, family, logical, (_given("output", _LOGICAL_TENSOR),))
    yield _made(
        "mean_reduce", family, (_INPUT, _AXES), "output = sum_reduce(input, axes = axes, normalize = true);"
    )
    moments = (
        "mean = mean_reduce(input, axes = axes); variance = mean_reduce(sqr(input - mean), axes = axes);"
    )
    yield _made("moments", family, (_INPUT, _AXES), moments, "mean variance")
    family = "activation"
    alpha = _given("alpha", SCALAR)
    axes = _default("axes", INTEGERS, [1])
    unit = _default("alpha", SCALAR, 1.0)
    selu = (_default("alpha", SCALAR, 1.67326319), _default("lambda", SCALAR, 1.05070102))
    rows: tuple[tuple[str, tuple[Parameter, ...], str], ...] = (
        ("relu", (_X,), "y = max(x, 0.0);"),
        ("sigmoid", (_X,), "y = 1.0 / (exp(-x) + 1.0);"),
        ("softabs", (_X, _given("epsilon", SCALAR)), "y = sqrt(sqr(x) + epsilon);"),
        (
            "softmax",
            (_X, axes),
            "powers = exp(x - max_reduce(x, axes = axes)); y = powers / sum_reduce(powers, axes = axes);",
        ),
        ("softplus", (_X,), "y = log(exp(x) + 1.0);"),
        ("elu", (_X, unit), "y = select(x < 0.0, alpha * (exp(x) - 1.0), x);"),
        ("selu", (_X, *selu), "y = lambda * elu(x, alpha = alpha);"),
        ("gelu", (_X,), "y = x * sigmoid(1.702 * x);"),
        ("silu", (_X,), "y = x * sigmoid(x);"),
        ("prelu", (_X, _given("alpha")), "y = select(x < 0.0, alpha * x, x);"),
        ("leaky_relu", (_X, alpha), "y = prelu(x, alpha);"),
    )
    for name, parameters, body in rows:
        yield _made(name, family, parameters, body, "y")


def _pools_and_layers() -> Iterator[Operation]:
    family = "pooling"
    pool = (_INPUT, _SIZE, *_SPACING)
    indexed = (
        f"index = argmax_pool(input, size = size, {_SPACING_PASSED});"
        f" output = sample(input, index, size = size, {_SPACING_PASSED});"
    )
    results = (*_OUTPUT, _given("index", _INTEGER_TENSOR))
    yield Operation("max_pool_with_index", family, pool, results, None, indexed)
    first = f"output, index = max_pool_with_index(input, size = size, {_SPACING_PASSED});"
    yield _made("max_pool", family, pool, first)
    yield _made(
        "avg_pool", family, pool, f"output = box(input, size = size, {_SPACING_PASSED}, normalize = true);"
    )
    yield _made(
        "rms_pool", family, pool, f"output = sqrt(avg_pool(sqr(input), size = size, {_SPACING_PASSED}));"
    )
    family = "linear"
    product = "output = matmul(input, filter, transposeB = true) + bias;"
    yield _made("linear", family, (_INPUT, _FILTER, _BIAS), product)
    filters = (_given("plane_filter"), _given("point_filter"))
    planes = (
        f"planes = conv(input, plane_filter, {_SPACING_PASSED}, groups = 0);"
        " output = conv(planes, point_filter, bias, groups = groups);"
    )
    yield _made("separable_conv", family, (_INPUT, *filters, _BIAS, *_SPACING, _GROUPS), planes)
    points = (
        "points = deconv(input, point_filter, groups = groups); output = deconv(points, plane_filter, bias,"
        f" {_SPACING_PASSED}, output_shape = output_shape, groups = 0);"
    )
    both = (_INPUT, *filters, _BIAS, *_SPACING, _OUTPUT_SHAPE, _GROUPS)
    yield _made("separable_deconv", family, both, points)


def _normalizations() -> Iterator[Operation]:
    family = "normalization"
    response = (
        _default("alpha", SCALAR, 1.0),
        _default("beta", SCALAR, 0.5),
        _default("bias", SCALAR, 1.0),
    )
    energy = "box(sqr(input), size = size, normalize = true)"
    yield _made(
        "local_response_normalization",
        family,
        (_INPUT, _SIZE, *response),
        f"output = input / (bias + alpha * {energy}) ^ beta;",
    )
    mean = "output = input - box(input, size = size, normalize = true);"
    yield _made("local_mean_normalization", family, (_INPUT, _SIZE), mean)
    shifted = (_OFFSET, _EPSILON)
    yield _made(
        "local_variance_normalization",
        family,
        (_INPUT, _SIZE, *shifted),
        f"output = input / max(sqrt({energy}) + bias, epsilon);",
    )
    yield _made(
        "local_contrast_normalization",
        family,
        (_INPUT, _SIZE, *shifted),
        "output = local_variance_normalization(local_mean_normalization(input, size = size),"
        " size = size, bias = bias, epsilon = epsilon);",
    )
    for name, norm in (
        ("l1_normalization", "sum_reduce(abs(input), axes = axes)"),
        ("l2_normalization", "sqrt(sum_reduce(sqr(input), axes = axes))"),
    ):
        body = f"output = input / max({norm} + bias, epsilon);"
        yield _made(name, family, (_INPUT, _AXES, *shifted), body)
    statistics = tuple(map(_given, ("mean", "variance", "offset", "scale")))
    yield _made(
        "batch_normalization",
        family,
        (_INPUT, *statistics, _given("epsilon", SCALAR)),
        "output = offset + scale * (input - mean) / sqrt(variance + epsilon);",
    )


def _regions_and_quantization() -> Iterator[Operation]:
    family = "region"
    for name in ("avg_roi_pool", "max_roi_pool"):
        yield Operation(name, family, _REGIONS, _OUTPUT)
    method = _strings("method", METHODS, "symmetric")
    yield Operation("roi_resample", family, (*_REGIONS, method), _OUTPUT)
    sampling = (_given("sampling_rate", INTEGERS), _strings("resize_method", METHODS, "symmetric"))
    for kind in ("avg", "max"):
        body = (
            "finer = roi_resample(input, rois, batch_index, output_size ="
            " [for extent in output_size, rate in sampling_rate yield extent * rate], method = resize_method);"
            " window = [1,1] + sampling_rate;"
            f" output = {kind}_pool(finer, size = window, stride = window, padding = [(0,0)] * length_of(window));"
        )
        yield _made(f"{kind}_roi_align", family, (*_REGIONS, *sampling), body)
    family = "quantization"
    ends = (_given("min"), _given("max"))
    signs = (_given("signed", LOGICAL), _given("symmetric", LOGICAL))
    min_max = (
        "top = scalar(2 ^ bits - 1 - integer(signed && symmetric));"
        " least = scalar(2 ^ (bits - 1) - integer(symmetric) if signed else 0);"
        " code = round((clamp(x, min, max) - min) / (max - min) * top) - least;"
        " y = (code + least) / top * (max - min) + min;"
    )
    yield _made("min_max_linear_quantize", family, (_X, *ends, _BITS, *signs), min_max, "y")
    zero_point = (
        "top = scalar(2 ^ (bits - 1) - 1 if signed else 2 ^ bits - 1);"
        " bottom = 0.0 if !signed else -top if symmetric else -top - 1.0;"
        " zero = cast<scalar>(zero_point);"
        " y = (clamp(round(x / scale) + zero, bottom, top) - zero) * scale;"
    )
    parameters = (_X, _given("zero_point", _INTEGER_TENSOR), _given("scale"), _BITS, *signs)
    yield _made("zero_point_linear_quantize", family, parameters, zero_point, "y")
    plain = "y = min_max_linear_quantize(x, min, max, bits = bits, signed = false, symmetric = false);"
    yield _made("linear_quantize", family, (_X, *ends, _BITS), plain, "y")
    logarithmic = (
        "most = ceil(log2(max));"
        " y = sign(x) * 2.0 ^ round(clamp(log2(abs(x)), most - scalar(2 ^ bits - 1), most));"
    )
    yield _made("logarithmic_quantize", family, (_X, _given("max"), _BITS), logarithmic, "y")
    family = "several"
    times = (_given("x", _OPEN_TENSOR), _given("times", INTEGER))
    yield Operation("copy_n", family, times, (_given("y", _OPEN_TENSORS),), "", "y = [x] * times;")
    halves = (
        "y = constant(shape = [1], value = [0.0]) if length_of(x) == 0 else x[0] if length_of(x) == 1"
        " else add_n(x[:length_of(x) / 2]) + add_n(x[length_of(x) / 2:]);"
    )
    yield _made("add_n", family, (_given("x", _TENSORS),), halves, "y")


OPERATIONS: dict[str, Operation] = {row.name: row for row in _rows()}
"""The standard operations by name."""

PROVISIONAL_NAMES: dict[tuple[str, str], str] = {
    ("transpose", "perm"): "axes",
    ("matmul", "trA"): "transposeA",
    ("matmul", "trB"): "transposeB",
}
"""The parameter's name in the final dialect by (operation, parameter) of the provisional one."""


@cache
def fragment(name: str) -> Fragment | None:
    """Return the declaration of a standard operation, its body parsed; None for other names."""
    row = OPERATIONS.get(name)
    if row is None:
        return None
    source = Source(f"standard operation {name}", f"{{{row.body}}}")
    return Fragment(
        name,
        [replace(parameter) for parameter in row.parameters],
        list(row.results),
        row.generic,
        parse_body(source) if row.body else None,
        source,
        0,
        len(source.text) - 1,
    )
