"""Single operators of Paddle beside numpy: what their definition says, written out without npusim."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npusim
from npusim.frontends.paddle.paddle_program import ROWS
from npusim.frontends.paddle.written_out import WRITTEN_OUT
from tests.examples import examples
from tests.npusim.frontends.paddle.programs import model

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

IMAGE = (1, 4, 7, 9)
FEW = examples(25)


def outputs(line: str, *arrays: Any, **parameters: Any) -> list[Any]:
    """What npusim makes of one line, whose inputs are called x, y and z and whose results a, b and c."""
    names = re.findall(r"\b[abc]\b", line.splitlines()[-1].split(" = ")[0])
    inputs = dict(zip("xyz", arrays, strict=False))
    sizes = {name: (data.dtype.name, data.shape) for name, data in inputs.items()}
    with TemporaryDirectory() as folder:
        return list(npusim.run(model(Path(folder), line, parameters, sizes, names), inputs=inputs).outputs)


def same(line: str, expected: Any, *arrays: Any, **parameters: Any) -> None:
    """Fails where the results of a line are not these, floats within 1e-5."""
    wanted = expected if isinstance(expected, (list, tuple)) else [expected]
    for found, each in zip(outputs(line, *arrays, **parameters), wanted, strict=True):
        each = np.asarray(each)
        assert found.shape == each.shape, (line, found.shape, each.shape)
        np.testing.assert_allclose(found, each, rtol=1e-5, atol=1e-5, err_msg=line)


def random(shape: Sequence[int] = IMAGE, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# Functions of elements

_ERF = np.vectorize(math.erf)

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    **{
        name: getattr(np, name)
        for name in ("abs", "floor", "ceil", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sign")
    },
    "exp": np.exp,
    "square": np.square,
    "erf": _ERF,
    "relu": lambda x: np.maximum(x, 0),
    "relu6 threshold=6.0": lambda x: np.clip(x, 0, 6),
    "relu6 threshold=2.0": lambda x: np.clip(x, 0, 2),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "swish beta=1.5": lambda x: x / (1 + np.exp(-1.5 * x)),
    "hard_swish threshold=6.0 scale=6.0 offset=3.0": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hard_swish threshold=5.0 scale=4.0 offset=2.0": lambda x: x * np.clip(x + 2, 0, 5) / 4,
    "hard_sigmoid slope=0.2 offset=0.5": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "hard_sigmoid slope=0.1666667 offset=0.5": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "leaky_relu alpha=0.1": lambda x: np.where(x > 0, x, 0.1 * x),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.02 * x),
    "elu alpha=0.7": lambda x: np.where(x > 0, x, 0.7 * np.expm1(x)),
    "celu alpha=0.7": lambda x: np.where(x > 0, x, 0.7 * np.expm1(x / 0.7)),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "thresholded_relu threshold=1.0": lambda x: np.where(x > 1, x, 0),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "softplus beta=2.0 threshold=3.0": lambda x: np.where(2 * x > 3, x, np.log1p(np.exp(2 * x)) / 2),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "gelu approximate=False": lambda x: x / 2 * (1 + _ERF(x / 2**0.5)),
    "gelu approximate=True": lambda x: x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "scale scale=2.0 bias=0.5": lambda x: 2 * x + 0.5,
    "scale scale=2.0 bias=0.5 bias_after_scale=False": lambda x: 2 * (x + 0.5),
    "clip min=-0.5 max=0.7": lambda x: np.clip(x, -0.5, 0.7),
    "pow factor=2.0": np.square,
    "pow factor=3.0": lambda x: x**3,
    "dropout dropout_prob=0.25 dropout_implementation='upscale_in_train'": lambda x: x,
    "dropout dropout_prob=0.25": lambda x: 0.75 * x,
    "assign": lambda x: x,
}
POSITIVE = {"log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x}
POSITIVE |= {"pow factor=0.5": np.sqrt}
SMALL = {"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan}


@pytest.mark.slow
def test_functions_of_elements() -> None:
    x = 2 * random((3, 7))
    for function, expected in FUNCTIONS.items():
        name, _, attributes = function.partition(" ")
        same(f"a = {name}(X=x) {attributes}", expected(x.astype(np.float64)), x)
    for function, expected in POSITIVE.items():
        name, _, attributes = function.partition(" ")
        same(f"a = {name}(X=x) {attributes}", expected(np.abs(x) + 0.1), np.abs(x) + np.float32(0.1))
    for name, expected in SMALL.items():
        same(f"a = {name}(X=x)", expected(x / 8), x / 8)


def test_round_goes_away_from_zero_at_halves() -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.4, -0.6], np.float32)
    same("a = round(X=x)", np.sign(x) * np.floor(np.abs(x) + 0.5), x)


TWO: dict[str, Callable[[Any, Any], Any]] = {
    "elementwise_add": np.add,
    "elementwise_sub": np.subtract,
    "elementwise_mul": np.multiply,
    "elementwise_div": np.divide,
    "elementwise_max": np.maximum,
    "elementwise_min": np.minimum,
    "elementwise_mod": np.mod,
    "elementwise_pow": np.power,
    "elementwise_floordiv": np.floor_divide,
}


@FEW
@given(st.sampled_from(sorted(TWO)), st.integers(0, 3), st.integers(1, 4), st.booleans())
def test_second_operand_begins_at_its_axis(name: str, axis: int, count: int, said: bool) -> None:
    """Without an axis both end together."""
    x = np.abs(random()) + np.float32(0.5)
    shape = IMAGE[axis : axis + count]
    axis = axis if said else -1
    if not said:
        shape = IMAGE[-min(count, 4) :]
    y = np.abs(random(shape, 1)) + np.float32(0.5)
    wide = y.reshape(*shape, *(1,) * (4 - axis - len(shape))) if said else y
    same(f"a = {name}(X=x, Y=y) axis={axis}", TWO[name](x, wide), x, y)


def test_comparisons_and_logic() -> None:
    x, y = (np.random.default_rng(seed).integers(0, 3, (3, 5)).astype(np.float32) for seed in (0, 1))
    names = ("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal")
    functions = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
    for name, function in zip(names, functions, strict=True):
        same(f"t = {name}(X=x, Y=y)\na = cast(X=t) out_dtype=2", function(x, y).astype(np.int32), x, y)
        same(f"t = {name}(X=x, Y=y)\na = where(Condition=t, X=x, Y=y)", np.where(function(x, y), x, y), x, y)
    for word, function in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)):
        lines = "s = cast(X=x) out_dtype=0\nt = cast(X=y) out_dtype=0\n"
        lines += f"u = logical_{word}(X=s, Y=t)\na = cast(X=u) out_dtype=3"
        same(lines, function(x, y).astype(np.int64), x, y)
    same(
        "s = cast(X=x) out_dtype=0\nt = logical_not(X=s)\na = cast(X=t) out_dtype=2",
        (x == 0).astype(np.int32),
        x,
    )
    same(
        "s = cast(X=x) out_dtype=0\nt = reduce_any(X=s) dim=[1]\na = cast(X=t) out_dtype=2",
        x.any(1).astype(np.int32),
        x,
    )
    same(
        "s = cast(X=x) out_dtype=0\nt = reduce_all(X=s) dim=[1]\na = cast(X=t) out_dtype=2",
        x.all(1).astype(np.int32),
        x,
    )


# Windows


def windows(x: Any, size: Any, strides: Any, pads: Any, dilations: Any, ceil: bool) -> Any:
    """Views of an image [h, w] with nan around it, one for each position: [rows, columns, *size]."""
    (top, bottom), (left, right) = pads
    counts = []
    for axis in (0, 1):
        over = x.shape[axis] + sum(pads[axis]) - (size[axis] - 1) * dilations[axis] - 1
        counts.append((-(-over // strides[axis]) if ceil else over // strides[axis]) + 1)
    wide = np.pad(x, ((top, bottom + 64), (left, right + 64)), constant_values=np.nan)
    places = [np.arange(count) * step for count, step in zip(counts, strides, strict=True)]
    taps = [np.arange(extent) * far for extent, far in zip(size, dilations, strict=True)]
    rows, columns = (places[axis][:, None] + taps[axis] for axis in (0, 1))
    return wide[rows[:, None, :, None], columns[None, :, None, :]]


def same_pads(extents: Sequence[int], size: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    over = [max((-(-e // s) - 1) * s + k - e, 0) for e, k, s in zip(extents, size, strides, strict=True)]
    return [(each // 2, each - each // 2) for each in over]


PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


@pytest.mark.slow
@FEW
@given(
    PAIRS,
    PAIRS,
    st.lists(st.integers(0, 2), min_size=4, max_size=4),
    PAIRS,
    st.sampled_from([1, 2, 4]),
    st.sampled_from(["EXPLICIT", "SAME", "VALID"]),
)
def test_convolution(size: Any, strides: Any, pads: Any, dilations: Any, groups: int, how: str) -> None:
    x, w = random(), random((4, 4 // groups, *size), 1)
    explicit = [tuple(pads[:2]), tuple(pads[2:])]
    border, far = {"EXPLICIT": (explicit, dilations), "VALID": ([(0, 0)] * 2, dilations)}.get(
        how, (same_pads(IMAGE[2:], size, strides), (1, 1))
    )
    if any(IMAGE[2 + at] + sum(border[at]) < (size[at] - 1) * far[at] + 1 for at in (0, 1)):
        return
    seen = np.stack([np.nan_to_num(windows(plane, size, strides, border, far, False)) for plane in x[0]])
    inner = 4 // groups
    expected = np.stack(
        [
            np.einsum(
                "crskl,ckl->rs", seen[inner * (depth // inner) : inner * (depth // inner) + inner], w[depth]
            )
            for depth in range(4)
        ]
    )
    line = (
        f"a:Output = conv2d(Input=x, Filter=w) strides={list(strides)} paddings={pads} dilations={list(dilations)}"
        f" groups={groups} padding_algorithm='{how}' data_format='NCHW'"
    )
    same(line, expected[None], x, w=w)


@pytest.mark.slow
@FEW
@given(PAIRS, PAIRS, st.integers(0, 1), PAIRS, st.integers(0, 1), st.sampled_from([1, 2]))
def test_transposed_convolution(
    size: Any, strides: Any, pad: int, dilations: Any, more: int, groups: int
) -> None:
    """Every pixel adds the filter to the output, of which the padding is cut off."""
    x, w = random((1, 4, 4, 5)), random((4, 3, *size), 1)
    more = min(more, min(strides) - 1)
    extents = [(x.shape[2 + at] - 1) * strides[at] + (size[at] - 1) * dilations[at] + 1 for at in (0, 1)]
    if min(extents) <= 2 * pad:
        return
    whole = np.zeros((3 * groups, extents[0] + more, extents[1] + more))
    for channel, row, column in np.ndindex(4, 4, 5):
        for k, m in np.ndindex(*size):
            place = row * strides[0] + k * dilations[0], column * strides[1] + m * dilations[1]
            first = 3 * (channel // (4 // groups))
            whole[first : first + 3, *place] += x[0, channel, row, column] * w[channel, :, k, m]
    expected = whole[:, pad : whole.shape[1] - pad, pad : whole.shape[2] - pad]
    line = f"a:Output = conv2d_transpose(Input=x, Filter=w) strides={list(strides)} paddings=[{pad},{pad}]"
    line += f" groups={groups} dilations={list(dilations)} output_padding=[] "
    said = f"output_size={list(expected.shape[1:])}" if more else "output_size=[]"
    same(line + said, expected[None], x, w=w)


@pytest.mark.slow
@FEW
@given(
    PAIRS,
    PAIRS,
    st.integers(0, 1),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["max", "avg"]),
    st.sampled_from(["EXPLICIT", "SAME"]),
)
def test_pool(size: Any, strides: Any, pad: int, ceil: bool, exclusive: bool, kind: str, how: str) -> None:
    x = random()
    pad = min(pad, min(size) - 1)
    border = [(pad, pad)] * 2 if how == "EXPLICIT" else same_pads(IMAGE[2:], size, strides)
    seen = np.stack([windows(plane, size, strides, border, (1, 1), ceil) for plane in x[0]])
    line = (
        f"a = pool2d(X=x) pooling_type='{kind}' ksize={list(size)} strides={list(strides)} paddings=[{pad},{pad}]"
        f" ceil_mode={ceil} exclusive={exclusive} padding_algorithm='{how}' adaptive=False global_pooling=False"
    )
    inside = ~np.isnan(seen)
    if not inside.any((-1, -2)).all():
        with pytest.raises(npusim.NpusimError, match="ceil_mode gives windows outside of an image of"):
            outputs(line, x)
        return
    if kind == "max":
        expected = np.nanmax(seen, (-1, -2))
    else:
        # What counts of a window ends with the padding.
        padded = np.pad(np.ones(IMAGE[2:]), border)
        counted = ~np.isnan(windows(padded, size, strides, [(0, 0)] * 2, (1, 1), ceil))
        expected = np.nansum(seen, (-1, -2)) / (inside if exclusive else counted).sum((-1, -2))
    same(line, expected[None], x)


@pytest.mark.parametrize("bins", [(1, 1), (7, 3), (2, 4), (7, 9), (5, 2)])
def test_pool_into_bins(bins: tuple[int, int]) -> None:
    x = random()
    edges = [
        [(at * e // n, -(-(at + 1) * e // n)) for at in range(n)]
        for n, e in zip(bins, IMAGE[2:], strict=True)
    ]
    for kind, function in (("avg", np.mean), ("max", np.max)):
        expected = np.array([[function(x[0, :, a:b, c:d], (1, 2)) for c, d in edges[1]] for a, b in edges[0]])
        line = f"a = pool2d(X=x) pooling_type='{kind}' ksize={list(bins)} adaptive=True"
        same(line, expected.transpose(2, 0, 1)[None], x)


def test_pool_with_positions() -> None:
    x = random()
    seen = np.stack([windows(plane, (2, 2), (2, 2), [(0, 0)] * 2, (1, 1), False) for plane in x[0]])
    flat = seen.reshape(*seen.shape[:3], 4).argmax(-1)
    rows, columns = np.indices(flat.shape[1:]) * 2
    places = (rows + flat // 2) * IMAGE[3] + columns + flat % 2
    same(
        "a:Out, b:Mask = max_pool2d_with_index(X=x) ksize=[2,2] strides=[2,2] paddings=[0,0]",
        [seen.max((-1, -2))[None], places[None]],
        x,
    )


# Other sizes


@pytest.mark.slow
@FEW
@given(
    st.tuples(st.integers(1, 20), st.integers(1, 20)),
    st.sampled_from(["nearest", "bilinear"]),
    st.booleans(),
    st.integers(0, 1),
)
def test_other_sizes(size: Any, kind: str, corners: bool, mode: int) -> None:
    x = random()
    parts = []
    for extent, count in zip(IMAGE[2:], size, strict=True):
        at = np.arange(count, dtype=np.float64)
        if corners:
            at = at * ((extent - 1) / (count - 1) if count > 1 else 0)
        elif kind == "nearest" or mode == 1:
            at = at * extent / count
        else:
            at = np.maximum((at + 0.5) * extent / count - 0.5, 0)
        whole = np.floor(at + 0.5 if corners else at + 1e-6) if kind == "nearest" else np.floor(at)
        low = np.clip(whole.astype(int), 0, extent - 1)
        share = np.zeros(count) if kind == "nearest" else at - low
        weights = np.zeros((count, extent))
        weights[np.arange(count), low] += 1 - share
        weights[np.arange(count), np.minimum(low + 1, extent - 1)] += share
        parts.append(weights)
    expected = np.einsum("nchw,rh,sw->ncrs", x, *parts)
    line = f"a = {kind}_interp_v2(X=x) out_h={size[0]} out_w={size[1]} scale=[] align_corners={corners}"
    line += f" align_mode={mode}"
    for found in outputs(line, x):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_sizes_from_scales_and_tensors() -> None:
    x = random()
    twice = x.repeat(2, 2).repeat(3, 3)
    same("a = nearest_interp_v2(X=x) scale=[2.0,3.0] align_corners=False out_h=-1 out_w=-1", twice, x)
    same(
        "a = nearest_interp(X=x, OutSize=s) scale=0.0 align_corners=False out_h=5 out_w=5",
        twice,
        x,
        s=np.array([14, 27], np.int32),
    )
    same(
        "a = nearest_interp_v2(X=x, SizeTensor=h+w) align_corners=False",
        twice,
        x,
        h=np.array([14], np.int32),
        w=np.array([27], np.int32),
    )


@pytest.mark.parametrize("version", ["", "_v2"])
def test_cubic_sizes(version: str) -> None:
    """Keys' kernel with a = -0.75 at four elements, those beyond the ends being the last ones."""
    x, a = random((1, 1, 7, 9)), -0.75
    parts = []
    for extent, count in ((7, 10), (9, 5)):
        at = (np.arange(count) + 0.5) * extent / count - 0.5
        weights = np.zeros((count, extent))
        for tap in range(-1, 3):
            far = np.abs(at - np.floor(at) - tap)
            near = ((a + 2) * far - (a + 3)) * far**2 + 1
            share = np.where(far <= 1, near, ((a * far - 5 * a) * far + 8 * a) * far - 4 * a)
            weights[np.arange(count), np.clip(np.floor(at).astype(int) + tap, 0, extent - 1)] += share
        parts.append(weights)
    expected = np.einsum("nchw,rh,sw->ncrs", x, *parts)
    same(
        f"a = bicubic_interp{version}(X=x) out_h=10 out_w=5 scale=[] align_corners=False align_mode=1",
        expected,
        x,
    )


def test_samples_of_a_grid() -> None:
    x = random((1, 2, 3, 3))
    grid = np.stack(np.meshgrid([-1.0, 0.0, 1.0], [0.0, 1.0]), -1)[None].astype(np.float32)
    line = "a:Output = grid_sampler(X=x, Grid=y) mode='bilinear' padding_mode='zeros' align_corners=True"
    same(line, x[:, :, 1:], x, grid)


# Moves

MOVES: dict[str, Callable[[Any], Any]] = {
    "a = reshape2(X=x) shape=[0,-1,3]": lambda x: x.reshape(1, -1, 3),
    "a = flatten_contiguous_range(X=x) start_axis=1 stop_axis=2": lambda x: x.reshape(1, 28, 9),
    "a = flatten2(X=x) axis=2": lambda x: x.reshape(4, 63),
    "a = squeeze2(X=x) axes=[0,1]": lambda x: x[0],
    "a = squeeze2(X=x) axes=[]": lambda x: x[0],
    "a = unsqueeze2(X=x) axes=[0,-1]": lambda x: x[None, ..., None],
    "a = transpose2(X=x) axis=[0,2,3,1]": lambda x: x.transpose(0, 2, 3, 1),
    "a = concat(X=x+x) axis=-1": lambda x: np.concatenate([x, x], -1),
    "a:Y = stack(X=x+x) axis=1": lambda x: np.stack([x, x], 1),
    "a:Y = unstack(X=x) axis=0": lambda x: x[0],
    "a:Out = unbind(X=x) axis=0": lambda x: x[0],
    "a+b:Out = split(X=x) num=2 sections=[] axis=1": lambda x: [x[:, :2], x[:, 2:]],
    "a+b+c:Out = split(X=x) num=0 sections=[2,-1,3] axis=3": lambda x: [x[..., :2], x[..., 2:6], x[..., 6:]],
    "a = slice(Input=x) axes=[1,3] starts=[1,-4] ends=[3,100]": lambda x: x[:, 1:3, :, -4:],
    "a = slice(Input=x) axes=[1] starts=[2] ends=[3] decrease_axis=[1]": lambda x: x[:, 2],
    "a = strided_slice(Input=x) axes=[2,3] starts=[2147483647,1] ends=[-1,9] strides=[-2,3]": lambda x: x[
        :, :, ::-2, 1:9:3
    ],
    "a = expand_v2(X=x) shape=[2,-1,-1,7,9]": lambda x: np.broadcast_to(x, (2, 1, 4, 7, 9)),
    "a = tile(X=x) repeat_times=[2,1,1,1,3]": lambda x: np.tile(x, (2, 1, 1, 1, 3)),
    "a = gather(X=x, Index=i) axis=3": lambda x: x[..., [2, 0, 2]],
    "a = index_select(X=x, Index=i) dim=1": lambda x: x[:, [2, 0, 2]],
    "a = flip(X=x) axis=[2,3]": lambda x: x[:, :, ::-1, ::-1],
    "a = pad3d(X=u) paddings=[1,2,0,3,0,0] mode='constant' value=0.5": lambda x: np.pad(
        x[:, :, None], ((0, 0), (0, 0), (0, 0), (0, 3), (1, 2)), constant_values=0.5
    ),
    "a = pad2d(X=x) paddings=[1,2,0,3] mode='reflect'": lambda x: np.pad(
        x, ((0, 0), (0, 0), (1, 2), (0, 3)), "reflect"
    ),
    "a = pad2d(X=x) paddings=[1,2,0,3] mode='edge'": lambda x: np.pad(
        x, ((0, 0), (0, 0), (1, 2), (0, 3)), "edge"
    ),
    "a = pad(X=x) paddings=[0,0,1,1,0,0,2,0] pad_value=-1.0": lambda x: np.pad(
        x, ((0, 0), (1, 1), (0, 0), (2, 0)), constant_values=-1
    ),
    "a = shuffle_channel(X=x) group=2": lambda x: x[:, [0, 2, 1, 3]],
    "a = pixel_shuffle(X=x) upscale_factor=2": lambda x: (
        x.reshape(1, 1, 2, 2, 7, 9).transpose(0, 1, 4, 2, 5, 3).reshape(1, 1, 14, 18)
    ),
    "a = shape(Input=x)": lambda x: np.array(x.shape, np.int32),
    "a = expand_as_v2(X=x, Y=r) target_shape=[3,4,7,9]": lambda x: np.broadcast_to(x, (3, 4, 7, 9)),
    "a = gather_nd(X=x, Index=p)": lambda x: x[[0, 0], [3, 1]],
    "a = lookup_table_v2(Ids=i, W=table) padding_idx=-1": lambda x: np.arange(6.0).reshape(3, 2)[[2, 0, 2]],
    "a = one_hot_v2(X=i) depth=4 dtype=5": lambda x: np.eye(4)[[2, 0, 2]],
    "a = fill_zeros_like(X=x)": np.zeros_like,
    "a = assign_value() shape=[2,2] dtype=3 int64_values=[1,2,3,4]": lambda x: np.array([[1, 2], [3, 4]]),
    "a+b:Out = meshgrid(X=i+j)": lambda x: np.meshgrid([2, 0, 2], [5, 6], indexing="ij"),
    "a = fill_any_like(X=x) value=2.5 dtype=-1": lambda x: np.full_like(x, 2.5),
    "a = fill_constant_batch_size_like(Input=x) shape=[-1,3] value=2.0 dtype=3": lambda x: np.full((1, 3), 2),
}


MORE = {
    "i": np.array([2, 0, 2], np.int64),
    "j": np.array([5, 6], np.int64),
    "p": np.array([[0, 3], [0, 1]], np.int64),
    "r": np.zeros((3, 4, 7, 9), np.float32),
    "table": np.arange(6, dtype=np.float32).reshape(3, 2),
}


@pytest.mark.slow
def test_moves() -> None:
    x = random()
    for line, expected in MOVES.items():
        lines = f"u = unsqueeze2(X=x) axes=[2]\n{line}" if "X=u" in line else line
        same(lines, expected(x), x, **MORE)


# Along axes


@pytest.mark.slow
@FEW
@given(
    st.sampled_from(["reduce_mean", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod"]),
    st.sets(st.integers(-4, 3)),
    st.booleans(),
    st.booleans(),
)
def test_reductions(word: str, axes: set[int], keep: bool, every: bool) -> None:
    x = random()
    chosen = tuple(sorted({axis % 4 for axis in axes})) if axes and not every else None
    expected = getattr(np, word.removeprefix("reduce_"))(x.astype(np.float64), axis=chosen, keepdims=keep)
    same(
        f"a = {word}(X=x) dim={sorted(axes) or [0]} keep_dim={keep} reduce_all={every or not axes}",
        expected,
        x,
    )


def test_along_axes() -> None:
    x = random()
    shares = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    same("a = softmax(X=x) axis=1", shares, x)
    same("a = log_softmax(X=x) axis=1", np.log(shares), x)
    same("a = arg_max(X=x) axis=-1 keepdims=True dtype=3", x.argmax(-1)[..., None], x)
    same("a = arg_min(X=x) axis=1 dtype=2", x.argmin(1).astype(np.int32), x)
    same("a = arg_max(X=x) axis=0 flatten=True", np.int64(x.argmax()), x)
    order = np.argsort(-x, 3, kind="stable")
    same(
        "a, b:Indices = top_k_v2(X=x) k=3 axis=3 largest=True",
        [np.sort(x, 3)[..., ::-1][..., :3], order[..., :3]],
        x,
    )
    same("a, b:Indices = argsort(X=x) axis=3 descending=True", [np.sort(x, 3)[..., ::-1], order], x)
    same("a = cumsum(X=x) axis=2", x.cumsum(2), x)
    same("a = cumsum(X=x) axis=2 exclusive=True reverse=True", x[:, :, ::-1].cumsum(2)[:, :, ::-1] - x, x)


def test_products_and_normalizations() -> None:
    x, w = random(), random((9, 5), 1)
    same("a = matmul_v2(X=x, Y=w) trans_x=False trans_y=False", x @ w, x, w=w)
    same("a = matmul_v2(X=x, Y=w) trans_x=False trans_y=True", x @ w, x, w=w.T.copy())
    same("a = matmul_v2(X=x, Y=x) trans_x=True trans_y=False", x.swapaxes(2, 3) @ x, x)
    same("a = matmul(X=x, Y=x) transpose_X=False transpose_Y=True alpha=0.5", x @ x.swapaxes(2, 3) / 2, x)
    same("a = mul(X=x, Y=w) x_num_col_dims=3 y_num_col_dims=1", x @ w, x, w=w)
    wide = random((252, 5), 2)
    same("a = mul(X=x, Y=w)", x.reshape(1, 252) @ wide, x, w=wide)
    bias = random((5,), 3)
    same(
        "a = fc(Input=x, W=w, Bias=b) in_num_col_dims=1 activation_type='relu'",
        np.maximum(x.reshape(1, 252) @ wide + bias, 0),
        x,
        w=wide,
        b=bias,
    )
    scale, shift, mean, variance = (np.abs(random((4,), seed)) + np.float32(0.5) for seed in range(4))
    shaped = [each.reshape(4, 1, 1) for each in (scale, shift, mean, variance)]
    expected = (x - shaped[2]) / np.sqrt(shaped[3] + 1e-5) * shaped[0] + shaped[1]
    same(
        "a:Y = batch_norm(X=x, Scale=s, Bias=t, Mean=m, Variance=v) epsilon=1e-05",
        expected,
        x,
        s=scale,
        t=shift,
        m=mean,
        v=variance,
    )

    def normal(data: Any, axes: tuple[int, ...]) -> Any:
        return (data - data.mean(axes, keepdims=True)) / np.sqrt(data.var(axes, keepdims=True) + 1e-5)

    same("a:Y = layer_norm(X=x) begin_norm_axis=2 epsilon=1e-05", normal(x, (2, 3)), x)
    same(
        "a:Y = instance_norm(X=x, Scale=s, Bias=t) epsilon=1e-05",
        normal(x, (2, 3)) * shaped[0] + shaped[1],
        x,
        s=scale,
        t=shift,
    )
    grouped = normal(x.reshape(1, 2, 2, 7, 9), (2, 3, 4)).reshape(x.shape)
    same(
        "a:Y = group_norm(X=x, Scale=s, Bias=t) groups=2 epsilon=1e-05",
        grouped * shaped[0] + shaped[1],
        x,
        s=scale,
        t=shift,
    )
    same("a = norm(X=x) axis=1 epsilon=1e-10", x / np.sqrt((x**2).sum(1, keepdims=True)), x)
    slopes = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    same(
        "a = prelu(X=x, Alpha=s) mode='channel' data_format='NCHW'",
        np.where(x > 0, x, x * slopes.reshape(4, 1, 1)),
        x,
        s=slopes,
    )


# Detection


def test_boxes_of_yolo() -> None:
    x, sizes = random((1, 14, 3, 4)), np.array([[96, 128]], np.int32)
    grid = x.reshape(2, 7, 3, 4).astype(np.float64)
    logistic = 1 / (1 + np.exp(-grid))
    boxes, scores = [], []
    for anchor, row, column in np.ndindex(2, 3, 4):
        wide, high = ((10, 13), (16, 30))[anchor]
        cell, share = grid[anchor, :, row, column], logistic[anchor, :, row, column]
        middle = (column + share[0]) * 128 / 4, (row + share[1]) * 96 / 3
        half = np.exp(cell[2]) * wide * 128 / (32 * 4) / 2, np.exp(cell[3]) * high * 96 / (32 * 3) / 2
        box = [middle[0] - half[0], middle[1] - half[1], middle[0] + half[0], middle[1] + half[1]]
        there = share[4] >= 0.4
        boxes.append(np.clip(box, 0, [127, 95, 127, 95]) * there)
        scores.append(share[4] * share[5:] * there)
    line = "a:Boxes, b:Scores = yolo_box(X=x, ImgSize=y) anchors=[10,13,16,30] class_num=2 conf_thresh=0.4"
    line += " downsample_ratio=32 clip_bbox=True"
    found = outputs(line, x, sizes)
    np.testing.assert_allclose(found[0][0], boxes, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(found[1][0], scores, rtol=1e-5, atol=1e-5)


def test_best_boxes_of_each_class() -> None:
    boxes = np.array([[[0, 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30]]], np.float32)
    scores = np.array([[[0.9, 0.8, 0.1], [0.2, 0.3, 0.7]]], np.float32)
    line = (
        "a:Out, b:Index, c:NmsRoisNum = multiclass_nms3(BBoxes=x, Scores=y) score_threshold=0.15 nms_threshold=0.5"
        " background_label=-1 nms_top_k=10 keep_top_k=10 normalized=True"
    )
    kept, places, counts = outputs(line, boxes, scores)
    expected = [[0, 0.9, 0, 0, 10, 10], [1, 0.7, 20, 20, 30, 30], [1, 0.3, 1, 1, 10, 10]]
    np.testing.assert_allclose(kept[:3], expected)
    assert not kept[3:].any()
    assert (places[:3, 0].tolist(), counts.tolist()) == ([0, 2, 1], [3])


def test_every_row_is_named_here_or_in_a_network() -> None:
    """A row without a case would be a claim that nothing checks."""
    text = Path(__file__).read_text() + Path(__file__).with_name("networks.py").read_text()
    text += Path(__file__).with_name("test_quantized.py").read_text()
    names = {row.name for row in ROWS} | set(WRITTEN_OUT)
    aliases = {
        "flatten",
        "squeeze",
        "unsqueeze",
        "transpose",
        "reshape",
        "top_k",
        "bmm",
        "sync_batch_norm",
        "reverse",
    }
    aliases |= {
        "multiclass_nms",
        "multiclass_nms2",
        "bilinear_interp",
        "bicubic_interp_v2",
        "channel_shuffle",
    }
    aliases |= {"share_data", "conv3d", "mean", "depthwise_conv2d_transpose", "bicubic_interp"}
    assert sorted(name for name in names - aliases if name not in text) == []
