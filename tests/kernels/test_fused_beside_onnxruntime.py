"""The fused formulas beside ONNX Runtime's kernels, live: scales in tenths, whose ties show every step that rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.operator.operator import Call
from npusim.kernels.table import operator

from .calls import given

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

CPU = Path("/proc/cpuinfo")
fused_sums = pytest.mark.skipif(
    not (CPU.exists() and " avx2 " in CPU.read_text()),
    reason="ONNX Runtime adds without a fused multiply-add on this processor",
)

Scaled = tuple[float, int]
RUNS = 40


def by_runtime(name: str, arrays: list[Array], scales: list[Scaled], **attributes: Any) -> Array:
    """What a com.microsoft operator gives; `scales` of its operands, then of its result."""
    helper, numbers = onnx.helper, onnx.TensorProto
    dtype = numbers.UINT8 if arrays[0].dtype == np.uint8 else numbers.INT8
    names, constants = [], []
    for position, (scale, zero) in enumerate(scales):
        constants.append(helper.make_tensor(f"s{position}", numbers.FLOAT, [], [scale]))
        constants.append(helper.make_tensor(f"z{position}", dtype, [], [zero]))
        names += [f"x{position}"] * (position < len(arrays)) + [f"s{position}", f"z{position}"]
    node = helper.make_node(name, names, ["y"], domain="com.microsoft", **attributes)
    operands = [
        helper.make_tensor_value_info(f"x{place}", dtype, each.shape) for place, each in enumerate(arrays)
    ]
    result = helper.make_tensor_value_info("y", dtype, None)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "one", operands, [result], constants)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {f"x{place}": each for place, each in enumerate(arrays)}
    [found] = session.run(None, feeds)
    return np.asarray(found)


def by_npusim(name: str, arrays: list[Array], scales: list[Scaled], result: Array, **values: Any) -> Array:
    """What an operator of npusim gives."""
    kinds = [
        TensorType(each.dtype.name, each.shape, Quantization((scale,), (zero,)))
        for each, (scale, zero) in zip([*arrays, result], scales, strict=True)
    ]
    call = Call(given(name, rescale="fused", **values), tuple(kinds[:-1]), (kinds[-1],), {})
    entry = operator(name)
    assert entry.broken_rule(call) is None
    return entry.compute(call, arrays)[0]


def drawn(rng: np.random.Generator, dtype: str, *shape: int) -> Array:
    """Codes over the whole range."""
    low = np.iinfo(dtype).min
    return rng.integers(low, low + 256, shape).astype(dtype)


def tenths(rng: np.random.Generator, dtype: str, most: int) -> Scaled:
    """So many tenths, and any zero point."""
    low = np.iinfo(dtype).min
    return float(np.float32(rng.integers(1, most) * 0.1)), int(rng.integers(low, low + 256))


@fused_sums
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(
    ("first", "second", "swapped"),
    [
        ((384,), (384,), False),
        ((2, 3, 8, 8), (1, 3, 1, 1), False),
        ((1, 3, 1, 1), (2, 3, 8, 8), True),
        ((1, 1, 1, 8), (2, 3, 8, 8), False),
        ((2, 3, 8, 1), (1, 1, 1, 8), True),
    ],
)
def test_sums(first: tuple[int, ...], second: tuple[int, ...], swapped: bool, dtype: str) -> None:
    """The operand that is one number along the innermost axis is taken first, which the order of operands says."""
    rng = np.random.default_rng(len(first))
    for _ in range(RUNS):
        arrays = [drawn(rng, dtype, *first), drawn(rng, dtype, *second)]
        scales = [tenths(rng, dtype, 10), tenths(rng, dtype, 10), (float(rng.integers(1, 4)), 3)]
        expected = by_runtime("QLinearAdd", arrays, scales)
        if swapped:
            arrays, scales[:2] = arrays[::-1], scales[1::-1]
        assert np.array_equal(by_npusim("add", arrays, scales, expected), expected)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_products(dtype: str) -> None:
    rng = np.random.default_rng(5)
    for _ in range(RUNS):
        arrays = [drawn(rng, dtype, 5, 77), drawn(rng, dtype, *((5, 77), (77,), (5, 1))[rng.integers(3)])]
        scales = [tenths(rng, dtype, 10), tenths(rng, dtype, 10), (float(rng.integers(1, 40)), 3)]
        expected = by_runtime("QLinearMul", arrays, scales)
        assert np.array_equal(by_npusim("mul", arrays, scales, expected), expected)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_averages(dtype: str) -> None:
    rng = np.random.default_rng(6)
    for _ in range(RUNS):
        image = drawn(rng, dtype, 2, 3, *rng.integers(1, 9, 2).tolist())
        scales = [tenths(rng, dtype, 10), tenths(rng, dtype, 10)]
        whole = by_runtime("QLinearGlobalAveragePool", [image], scales, channels_last=0)
        axes = {"axes": (2, 3), "keep_dims": True}
        assert np.array_equal(by_npusim("mean", [image], scales, whole, **axes), whole)
        size = tuple(int(rng.integers(1, extent + 1)) for extent in image.shape[2:])
        pads = [int(rng.integers(0, extent)) for extent in (*size, *size)]
        padding = ((pads[0], pads[2]), (pads[1], pads[3]))
        counted, steps = bool(rng.integers(2)), tuple(rng.integers(1, 4, 2).tolist())
        how = {"kernel_shape": size, "pads": pads, "strides": steps, "count_include_pad": int(counted)}
        pooled = by_runtime("QLinearAveragePool", [image], scales, **how).transpose(0, 2, 3, 1)
        ours = {
            "filter": size,
            "padding": padding,
            "strides": steps,
            "counted": padding if counted else ((0, 0),) * 2,
        }
        found = by_npusim(
            "average_pool_2d", [np.ascontiguousarray(image.transpose(0, 2, 3, 1))], scales, pooled, **ours
        )
        assert np.array_equal(found, pooled)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_softmax(dtype: str) -> None:
    """Logarithms of small numbers as scales: quotients of exponentials are small numbers too, and codes halves."""
    rng = np.random.default_rng(7)
    for _ in range(RUNS):
        codes = np.clip(int(rng.integers(0, 100)) + rng.integers(0, 8, (30, int(rng.integers(1, 9)))), 0, 127)
        scale = float(
            np.float32((np.log(3), np.log(2) / rng.integers(1, 9), rng.random() + 0.01)[rng.integers(3)])
        )
        result = float(np.float32((1 / 256, 1 / rng.integers(50, 300))[rng.integers(2)]))
        scales = [(scale, 3), (result, int(np.iinfo(dtype).min))]
        expected = by_runtime("QLinearSoftmax", [codes.astype(dtype)], scales, axis=1, opset=13)
        assert np.array_equal(by_npusim("softmax", [codes.astype(dtype)], scales, expected, axis=1), expected)


@pytest.mark.parametrize("name", ["add", "mul", "average_pool_2d"])
def test_results_beyond_32_bits_are_refused(name: str) -> None:
    """The largest of codes 0..255 of scale 0.5 and zero point 127: 64, or products of 4096, or sums of 128."""
    largest = {"add": 128.0, "mul": 4096.0, "average_pool_2d": 64.0}[name]
    kind = TensorType("uint8", (1, 4, 4, 2), Quantization((0.5,), (127,)))
    fine = np.nextafter(np.float32(largest / 2.0**31), np.float32(1))

    def broken(scale: float) -> str | None:
        output = TensorType("uint8", (1, 4, 4, 2), Quantization((float(scale),), (0,)))
        pool = name == "average_pool_2d"
        how = operator(name).parameters(
            rescale="fused", **({"filter": (1, 1), "strides": (1, 1)} if pool else {})
        )
        operands = (kind,) if pool else (kind, kind)
        return operator(name).broken_rule(Call(how, operands, (output,), {}))

    assert broken(float(fine)) is None
    assert "the largest result is less than 2**31 output scales" in str(broken(largest / 2.0**31))
