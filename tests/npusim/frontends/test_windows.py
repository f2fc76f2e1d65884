"""Windows of ONNX, NNEF and Paddle beside one numpy oracle: convolutions and pools of random windows."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.frontends import frontend
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.reference import evaluate
from tests.examples import examples
from tests.npusim.frontends.nnef.models import folder
from tests.npusim.frontends.onnx.models import Fixed, model_of, single, written
from tests.npusim.frontends.paddle.programs import model as paddle_model

pytest.importorskip("onnx", reason="onnx is not installed")


class Case(NamedTuple):
    """A convolution, or a maximum or average pool, over an image [N, C, H, W].

    padding: (top, bottom), (left, right); averages leave it out.
    filter:  [D, C / groups, height, width]; None for pools.
    """

    kind: str
    image: Array
    size: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]
    groups: int
    filter: Array | None


def oracle(case: Case) -> Array:
    """Return the result by its definition: window by window, the elements that each one sees."""
    image = case.image
    axes = zip(image.shape[2:], case.size, case.stride, case.dilation, case.padding, strict=True)
    counts = [(extent + sum(pad) - (size - 1) * far - 1) // step + 1 for extent, size, step, far, pad in axes]
    channels = image.shape[1] if case.filter is None else case.filter.shape[0]
    result = np.zeros((image.shape[0], channels, *counts), np.float32)
    for place in product(*map(range, counts)):
        seen = []
        for tap in product(*map(range, case.size)):
            at = [
                where * step - pad[0] + one * far
                for where, step, pad, one, far in zip(
                    place, case.stride, case.padding, tap, case.dilation, strict=True
                )
            ]
            if all(0 <= where < extent for where, extent in zip(at, image.shape[2:], strict=True)):
                seen.append((tap, image[:, :, at[0], at[1]]))
        values = [value for _, value in seen]
        if case.kind == "max":
            result[:, :, place[0], place[1]] = np.max(values, axis=0)
        elif case.kind == "average":
            result[:, :, place[0], place[1]] = np.mean(values, axis=0)
        else:
            result[:, :, place[0], place[1]] = _weighted(case, seen)
    return result


def _weighted(case: Case, seen: list[tuple[tuple[int, ...], Array]]) -> Any:
    assert case.filter is not None
    depth, width = case.filter.shape[0] // case.groups, case.filter.shape[1]
    total = np.zeros((case.image.shape[0], case.filter.shape[0]))
    for (row, column), values in seen:
        for group in range(case.groups):
            part = slice(group * depth, (group + 1) * depth)
            total[:, part] += (
                values[:, group * width : (group + 1) * width] @ case.filter[part, :, row, column].T
            )
    return total


@st.composite
def cases(draw: Any) -> Case:
    """Draw a case in which every window sees a part of the image."""
    kind = draw(st.sampled_from(("convolution", "max", "average")))
    size, stride, dilation = (tuple(draw(st.integers(1, most)) for _ in range(2)) for most in (3, 3, 2))
    if kind != "convolution":
        dilation = (1, 1)  # Paddle's pools have none
    padding = tuple((draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1))) for n in size)
    extents = [(n - 1) * far + draw(st.integers(1, 5)) for n, far in zip(size, dilation, strict=True)]
    groups, width = draw(st.sampled_from((1, 2))), draw(st.integers(1, 2))
    chance = np.random.default_rng(draw(st.integers(0, 2**16)))
    image = chance.normal(size=(draw(st.integers(1, 2)), groups * width, *extents)).astype(np.float32)
    weights = None
    if kind == "convolution":
        weights = chance.normal(size=(2 * groups, width, *size)).astype(np.float32)
    return Case(kind, image, size, stride, dilation, padding, groups, weights)


def by_onnx(case: Case, path: Path) -> Path:
    """Write the case as an ONNX model."""
    (top, bottom), (left, right) = case.padding
    how: dict[str, Any] = {"strides": case.stride, "pads": (top, left, bottom, right)}
    if case.filter is not None:
        how |= {"dilations": case.dilation, "group": case.groups}
        return written(path, model_of(single("Conv", case.image, Fixed(case.filter), **how)))
    name = "MaxPool" if case.kind == "max" else "AveragePool"
    return written(path, model_of(single(name, case.image, kernel_shape=case.size, **how)))


def by_nnef(case: Case, path: Path) -> Path:
    """Write the case as an NNEF document."""
    shape, pairs = case.image.shape, list(case.padding)
    if case.filter is not None:
        how = f"stride = {list(case.stride)}, dilation = {list(case.dilation)}, padding = {pairs}"
        body = f"y = conv(x, w, groups = {case.groups}, border = 'constant', {how});"
        return folder(path / "nnef", body, shape, {"w": case.filter})
    how = (
        f"size = {[1, 1, *case.size]}, stride = {[1, 1, *case.stride]}, padding = {[(0, 0), (0, 0), *pairs]}"
    )
    name = "max_pool" if case.kind == "max" else "avg_pool"
    return folder(path / "nnef", f"y = {name}(x, border = 'ignore', {how});", shape)


def by_paddle(case: Case, path: Path) -> Path:
    """Write the case as a Paddle program."""
    pads = [number for pair in case.padding for number in pair]
    how = f"strides={list(case.stride)} paddings={pads}".replace(", ", ",")
    inputs = {"x": ("float32", case.image.shape)}
    if case.filter is not None:
        line = (
            f"y:Output = conv2d(Input=x, Filter=w) {how} dilations={list(case.dilation)} groups={case.groups}"
        )
        return paddle_model(path, line, {"w": case.filter}, inputs, ["y"])
    kind = "max" if case.kind == "max" else "avg"
    line = f"y = pool2d(X=x) pooling_type='{kind}' ksize={list(case.size)} {how}"
    return paddle_model(path, line, {}, inputs, ["y"])


@examples(20)
@given(cases())
def test_front_ends_agree_on_windows(tmp_path_factory: pytest.TempPathFactory, case: Case) -> None:
    expected = oracle(case)
    for write in (by_onnx, by_nnef, by_paddle):
        graph = frontend.read(write(case, tmp_path_factory.mktemp("windows")))
        result = evaluate(graph, _inputs(graph, case.image))[graph.outputs[0]]
        assert np.allclose(_in_order(result, expected), expected, atol=1e-4), write.__name__


def _inputs(graph: Any, image: Array) -> list[Array]:
    """Return the image in the order of axes that the graph's input has."""
    shape = graph.tensors[graph.inputs[0]].type.shape
    return [image if shape == image.shape else image.transpose(0, 2, 3, 1)]


def _in_order(result: Array, expected: Array) -> Array:
    """Return a result channels-first."""
    return result if result.shape == expected.shape else result.transpose(0, 3, 1, 2)
