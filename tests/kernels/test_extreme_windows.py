"""Windows far larger than their image: cut to it, in time and memory that go with the image."""

from __future__ import annotations

import resource
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.frontends.tflite import reader as tflite
from npusim.isa.base.tensor import TensorType
from npusim.kernels.operator.operator import Call
from npusim.kernels.table import operator
from npusim.models.writer import ModelWriter, per_tensor

from .calls import codes, given, reals
from .test_extreme_scales import litert_outputs, outputs_of

LARGE = (9, 255, 256, 30_000, 1 << 30, (1 << 31) - 1)


def pool(code: str, dtype: str, size: tuple[int, int], filter_size: int, stride: int) -> bytes:
    writer = ModelWriter("model")
    ifm = writer.input("x", TensorType(dtype, (2, *size, 3), per_tensor(0.1, 3)))
    call = writer.average_pool_2d if code == "average" else writer.max_pool_2d
    out = call(ifm, (filter_size, filter_size), strides=(stride, stride), padding="same", activation="relu6")
    return writer.finish([out])


def direct(code: str, image: Any, filter_size: int, stride: int) -> Any:
    """Each window by itself, codes as they are."""
    rows, columns = (-(-size // stride) for size in image.shape[1:3])
    pads = [
        max((count - 1) * stride + filter_size - size, 0) // 2
        for count, size in zip((rows, columns), image.shape[1:3], strict=True)
    ]
    result = np.empty((len(image), rows, columns, image.shape[3]), np.int64)
    for row in range(rows):
        for column in range(columns):
            top, left = row * stride - pads[0], column * stride - pads[1]
            seen = image[:, max(top, 0) : top + filter_size, max(left, 0) : left + filter_size].astype(
                np.int64
            )
            if code == "maximum":
                result[:, row, column] = seen.max((1, 2))
            else:
                total, count = seen.sum((1, 2)), seen.shape[1] * seen.shape[2]
                rounded = (np.abs(total) + count // 2) // count
                result[:, row, column] = np.where(total > 0, rounded, -rounded)
    return np.clip(result, 3, 63)


@pytest.mark.cases(12)
@pytest.mark.parametrize("code", ["average", "maximum"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(("size", "stride"), [((8, 8), 1), ((5, 9), 2), ((1, 7), 3), ((8, 8), 1 << 30)])
@pytest.mark.parametrize("filter_size", LARGE)
def test_pools_larger_than_their_image(
    code: str, dtype: str, size: tuple[int, int], stride: int, filter_size: int
) -> None:
    model = pool(code, dtype, size, filter_size, stride)
    image = np.random.default_rng(filter_size).integers(0, 256, (2, *size, 3)).astype(np.uint8).view(dtype)
    tracemalloc.start()
    [found] = outputs_of(model, [image])
    assert tracemalloc.get_traced_memory()[1] < 16 << 20  # the machine itself takes 10 MiB
    tracemalloc.stop()
    assert np.array_equal(found, direct(code, image, filter_size, stride))
    if filter_size < 1 << 16:  # LiteRT refuses larger ones
        assert np.array_equal(found, litert_outputs(model, [image])[0])


def test_a_pool_of_many_rows_takes_no_time() -> None:
    # 200,000 windows of 200,000 rows each, cut to the image: 4e10 steps one by one
    window = {"filter": [200_000, 1], "padding": [[99_999, 100_000], [0, 0]]}
    shape = (1, 200_000, 1, 1)
    image = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    seen = image[0, 1:, 0, 0].astype(np.int64)  # what window 100,000 sees: rows 1 to 200,000
    for name, expected in (("max_pool_2d", seen.max()), ("average_pool_2d", np.rint(seen.mean()))):
        call = Call(given(name, **window), (codes(*shape),), (codes(*shape),), {})
        assert operator(name).broken_rule(call) is None
        [found] = operator(name).reference(call, [image])
        assert found[0, 100_000, 0, 0] == expected


def test_float_pools_see_the_image_only() -> None:
    window = {"filter": [30_000, 30_000], "padding": [[14_999, 15_000]] * 2}
    calls = {
        name: Call(given(name, **window), (reals(1, 4, 4, 1),), (reals(1, 4, 4, 1),), {})
        for name in ("max_pool_2d", "average_pool_2d")
    }
    image = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    image[0, 0, 0] = -np.inf
    [found] = operator("max_pool_2d").reference(calls["max_pool_2d"], [image])
    assert found.ravel().tolist() == [15.0] * 16
    image[0, 0, 0] = 8.0
    [found] = operator("average_pool_2d").reference(calls["average_pool_2d"], [image])
    assert found.ravel().tolist() == [8.0] * 16


@pytest.mark.cases(12)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("kind", ["conv", "depthwise"])
@pytest.mark.parametrize(
    ("size", "kernel", "dilation", "stride"),
    [
        ((8, 8), 3, 20_000, 1),
        ((8, 8), 3, 7, 1),
        ((8, 8), 3, 8, 1),
        ((8, 9), 5, 9, 1),
        ((6, 7), 4, 16_384, 1),
        ((6, 7), 2, 5, 1),
        ((1, 9), 200, 63, 1),
        ((8, 8), 3, 1, 32_767),
        ((9, 5), 7, 1, 30),
    ],
)
def test_convolutions_that_reach_beyond_their_image(
    kind: str, dtype: str, size: tuple[int, int], kernel: int, dilation: int, stride: int
) -> None:
    rng = np.random.default_rng(kernel)
    writer = ModelWriter("model")
    ifm = writer.input("x", TensorType(dtype, (1, *size, 3), per_tensor(0.1, 3)))
    shape = (1, kernel, kernel, 3) if kind == "depthwise" else (2, kernel, kernel, 3)
    taps = rng.integers(0, 256, shape).astype(np.uint8).view(dtype)
    weights = writer.constant("w", taps, per_tensor(0.01, 0 if dtype == "int8" else 120))
    bias = writer.constant(
        "b", rng.integers(-99, 99, shape[3 if kind == "depthwise" else 0]).astype(np.int32)
    )
    call = writer.depthwise_conv_2d if kind == "depthwise" else writer.conv_2d
    options: Any = {"strides": (stride, stride), "dilations": (dilation, dilation), "padding": "same"}
    model = writer.finish([call(ifm, weights, bias, per_tensor(0.3, 5), **options)])
    image = rng.integers(0, 256, (1, *size, 3)).astype(np.uint8).view(dtype)
    tracemalloc.start()
    [found] = outputs_of(model, [image])
    assert tracemalloc.get_traced_memory()[1] < 16 << 20  # the machine itself takes 10 MiB
    tracemalloc.stop()
    assert np.array_equal(found, litert_outputs(model, [image])[0])


@pytest.mark.parametrize("field", ["strides", "dilations"])
def test_steps_that_litert_refuses(field: str) -> None:
    writer = ModelWriter("model")
    ifm = writer.input("x", TensorType("int8", (1, 4, 4, 1), per_tensor(0.1, 3)))
    weights = writer.constant("w", np.ones((1, 3, 3, 1), np.int8), per_tensor(0.01, 0))
    bias = writer.constant("b", np.zeros(1, np.int32))
    options: Any = {field: (1, 32_768)}
    model = writer.finish([writer.conv_2d(ifm, weights, bias, per_tensor(0.3, 5), **options)])
    name = {"strides": "StrideW", "dilations": "DilationWFactor"}[field]
    with pytest.raises(npusim.NpusimError, match=f"{name} is 32768, may be 1..32767"):
        tflite.parse(model, "model")


@pytest.mark.cases(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "avg_pool_filter_1073741824",
        "avg_pool_filter_30000",
        "conv_dilation_20000",
        "conv_dilation_2147483647",
    ],
)
def test_the_reproducers(shared: Path, name: str) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    code = "from npusim.cli.app import main; main()"
    words = [sys.executable, "-c", code, "run", str(shared / "repro" / f"{name}.tflite")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, preexec_fn=limit)
    if name == "conv_dilation_2147483647":
        assert done.returncode == 2
        assert done.stderr.endswith("DilationHFactor is 2147483647, may be 1..32767\n")
    else:
        assert (done.returncode, done.stderr) == (0, "")
