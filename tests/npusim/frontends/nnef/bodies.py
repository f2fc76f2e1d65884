"""Bodies of graphs that have many operations in many forms, for comparison with other executions of them."""

from __future__ import annotations

from collections.abc import Iterator

Shape = tuple[int, ...]
Body = tuple[str, Shape, dict[str, Shape]]
"""The text, the shape of the input x, and the shapes of variables by name."""

IMAGE = (1, 4, 8, 8)
BORDERS = ("constant", "replicate", "reflect", "reflect-even", "ignore")
AXES = ("[0]", "[1,2]", "[0,3]", "[0,1,2,3]")


def bodies() -> Iterator[Body]:
    """All of them."""
    yield from _windows()
    yield from _convolutions()
    yield from _resampling()
    yield from _axes()
    yield from _elements()
    yield from _networks()


def _windows() -> Iterator[Body]:
    for border in BORDERS:
        for size, stride, dilation in ((3, 2, 1), (2, 1, 1), (4, 3, 1), (3, 1, 2)):
            steps = f"stride = [1,1,{stride},{stride}], dilation = [1,1,{dilation},{dilation}]"
            for name in ("max_pool", "avg_pool", "box", "rms_pool"):
                yield f"y = {name}(x, size = [1,1,{size},{size}], {steps}, border = '{border}');", IMAGE, {}
        yield f"y = pad(x, padding = [(0,0),(1,1),(2,1),(0,3)], border = '{border}');", IMAGE, {}
    yield "y = max_pool(x, size = [1,1,2,3,2], stride = [1,1,2,2,1]);", (1, 2, 5, 6, 7), {}
    yield "y = avg_pool(x, size = [2,3,2,2], stride = [1,2,1,1]);", (3, 4, 5, 6), {}
    yield "y = box(x, size = [1,2,3,1], border = 'ignore');", (2, 4, 5, 6), {}
    yield "y = max_pool(x, size = [3,1], stride = [2,1]);", (5, 9), {}


def _convolutions() -> Iterator[Body]:
    for border in BORDERS:
        yield f"y = conv(x, w, border = '{border}');", IMAGE, {"w": (6, 4, 3, 3)}
    for stride in (1, 2, 3):
        for size in (1, 2, 3, 4):
            steps = f"stride = [{stride},{stride}]"
            yield f"y = conv(x, w, {steps});", (1, 4, 9, 11), {"w": (6, 4, size, size)}
            yield f"y = conv(x, w, {steps}, groups = 0);", (2, 4, 9, 11), {"w": (8, 1, size, size)}
            yield f"y = deconv(x, w, {steps}, groups = 2);", (1, 4, 5, 7), {"w": (4, 3, size, size)}
            yield (
                f"y = debox(x, size = [1,1,{size},{size}], stride = [1,1,{stride},{stride}]);",
                (1, 2, 5, 5),
                {},
            )
    yield "y = conv(x, w, stride = [2]);", (2, 4, 9), {"w": (6, 4, 3)}
    yield "y = conv(x, w, stride = [2,1,2]);", (2, 4, 5, 6, 7), {"w": (6, 4, 3, 2, 3)}
    yield "y = conv(x, w, groups = 2, dilation = [2,1,1]);", (1, 4, 7, 6, 7), {"w": (6, 2, 3, 2, 3)}
    yield "y = linear(x, w, b);", (3, 4), {"w": (5, 4), "b": (1, 5)}
    yield "y = matmul(x, w);", (2, 3, 4, 5), {"w": (2, 3, 5, 2)}


def _resampling() -> Iterator[Body]:
    for method in ("symmetric", "asymmetric"):
        for border in ("constant", "replicate"):
            how = f"method = '{method}', border = '{border}'"
            yield f"y = multilinear_upsample(x, factor = [2,2], {how});", (2, 3, 4, 5), {}
            yield f"y = multilinear_upsample(x, factor = [2], {how});", (2, 3, 4), {}
    yield "y = nearest_upsample(x, factor = [2,3,2]);", (1, 2, 2, 3, 2), {}
    yield "y = nearest_downsample(x, factor = [2,4]);", IMAGE, {}
    yield "y = area_downsample(x, factor = [4,2]);", IMAGE, {}


def _axes() -> Iterator[Body]:
    for size in ([1, 2, 1, 1], [1, 5, 1, 1], [1, 1, 3, 3], [1, 3, 3, 3]):
        for name in ("response", "mean", "variance", "contrast"):
            yield f"y = local_{name}_normalization(x, size = {size});", IMAGE, {}
    for axes in AXES:
        for name in ("sum", "mean", "max", "min"):
            yield f"y = {name}_reduce(x, axes = {axes});", IMAGE, {}
        yield f"y = l2_normalization(x, axes = {axes}, bias = 0.5);", IMAGE, {}
        yield f"y = l1_normalization(x, axes = {axes}, epsilon = 30.0);", IMAGE, {}
        yield f"m, y = moments(x, axes = {axes});", IMAGE, {}
    for axis in range(4):
        yield f"i = argmax_reduce(x, axes = [{axis}]); y = cast<scalar>(i);", IMAGE, {}
        yield f"y = softmax(x, axes = [{axis}]);", IMAGE, {}
    yield "y = softmax(x, axes = [1,3]);", IMAGE, {}
    yield "y = slice(x, axes = [2,3], begin = [1,0], end = [0,-1], stride = [3,2]);", IMAGE, {}
    yield "y = slice(x, axes = [3], begin = [-1], end = [1], stride = [-2]);", IMAGE, {}
    yield "y = reshape(x, shape = [2,-1], axis_start = 1, axis_count = 2);", IMAGE, {}
    yield "y = concat([x, w, x], axis = 2);", IMAGE, {"w": (1, 4, 3, 8)}
    yield "y = stack([x, x], axis = 4);", IMAGE, {}
    yield "[a, y, c] = split(x, axis = 1, ratios = [1,2,1]);", IMAGE, {}


def _elements() -> Iterator[Body]:
    for name, shape in (("add", (1, 4)), ("sub", (1, 1, 8)), ("max", (1, 4, 8)), ("min", (2, 4, 8, 8))):
        yield f"y = {name}(x, w);", IMAGE, {"w": shape}
    for name in (
        "selu",
        "gelu",
        "silu",
        "softplus",
        "elu",
        "round",
        "rsqr",
        "exp",
        "neg",
        "sin",
        "tan",
        "asinh",
    ):
        yield f"y = {name}(x);", IMAGE, {}
    yield "y = clamp(x, w, 2.0);", IMAGE, {"w": (1, 4)}
    yield "y = prelu(x, w);", IMAGE, {"w": (1, 4)}
    yield "y = add_n([x, x, x, x]);", IMAGE, {}


def _networks() -> Iterator[Body]:
    weights = {"w": (6, 4, 3, 3)}
    yield "a = conv(x, w); c = clamp(a, 0.0, 6.0); y = transpose(c, axes = [0,2,3,1]);", IMAGE, weights
    residual = "c = conv(a, w); r = relu(c); d = add(r, a); y = transpose(d, axes = [0,2,3,1]);"
    yield f"a = transpose(x, axes = [0,3,1,2]); {residual}", (1, 6, 5, 4), {"w": (4, 4, 3, 3)}
    yield (
        "a = conv(x, w); r = reshape(a, shape = [0,-1]); y = linear(r, v);",
        IMAGE,
        {**weights, "v": (7, 384)},
    )
    pooled = "r = mean_reduce(a, axes = [2,3]); s = squeeze(r, axes = [2,3]); y = softmax(s);"
    yield f"a = conv(x, w); {pooled}", IMAGE, weights
    up = "u = nearest_upsample(a, factor = [2,2]); k = concat([u, x], axis = 1); y = sum_reduce(k, axes = [1]);"
    yield f"a = conv(x, w, stride = [2,2]); {up}", IMAGE, weights
    gate = "d = conv(a, w); e = sigmoid(c); y = mul(d, e);"
    yield f"[a, c] = split(x, axis = 1, ratios = [1,1]); {gate}", IMAGE, {"w": (2, 2, 3, 3)}
