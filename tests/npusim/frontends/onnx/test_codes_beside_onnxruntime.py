"""Operators on codes give the bytes that ONNX Runtime gives, whatever their shapes, scales and zero points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import npusim
from npusim.frontends import frontend
from tests.examples import examples
from tests.npusim.frontends.onnx.small_models import beside, model, saved

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

TOLERANCE = 1e-5
"""Of float results, relative: sums of floats depend on their order."""

FEW = settings(
    examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
SIZES = st.integers(1, 9)
SEEDS = st.integers(0, 1 << 30)
BYTES = st.sampled_from(["uint8", "int8"])
LIMITS = {dtype: (np.iinfo(dtype).min, np.iinfo(dtype).max) for dtype in ("int8", "uint8", "int16", "uint16")}


class Draw:
    """Operands of one example, all of a seed."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def codes(self, dtype: str, *shape: int) -> Any:
        """Codes over the whole range of their type, its ends often."""
        low, high = LIMITS[dtype]
        codes = self.random.integers(low, high + 1, shape)
        ends = self.random.choice([low, high], shape)
        return np.where(self.random.random(shape) < 0.1, ends, codes).astype(dtype)

    def weights(self, dtype: str, others: str, *shape: int) -> Any:
        """Codes to multiply with others: of 7 bits where processors without VNNI add products in 16 bits."""
        codes = self.codes(dtype, *shape)
        return codes >> 1 if (dtype, others) == ("int8", "uint8") else codes

    def scale(self, *shape: int, about: float = 0.05) -> Any:
        """Scales, a third of them powers of two so that ties are common."""
        scales = about * self.random.uniform(0.3, 3, shape)
        even = 2.0 ** np.round(np.log2(scales))
        return np.where(self.random.random(shape) < 0.34, even, scales).astype(np.float32)

    def zero(self, dtype: str, *shape: int) -> Any:
        return self.codes(dtype, *shape)


def compare(
    tmp_path: Path,
    text: str,
    constants: Mapping[str, Any],
    inputs: Mapping[str, Any],
    outputs: Sequence[str] = ("y",),
    opset: int = 21,
    four_bits: Sequence[str] = (),
) -> None:
    """What the machine gives for a model is what ONNX Runtime does."""
    kinds = {name: (value.dtype.name, value.shape) for name, value in inputs.items()}
    proto = model(text, constants, kinds, outputs, opset=opset, four_bits=four_bits)
    values = list(inputs.values())
    wanted = beside(proto, values)
    got = npusim.run(saved(proto, tmp_path), inputs=values).outputs
    assert got is not None
    for name, mine, theirs in zip(outputs, got, wanted, strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape), name
        if theirs.dtype.kind == "f":
            np.testing.assert_allclose(mine, theirs, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)
        else:
            np.testing.assert_array_equal(mine, theirs, err_msg=name)


@pytest.mark.slow
@FEW
@given(SEEDS, st.sampled_from(list(LIMITS)), st.sampled_from(["one", "axis", "blocks"]), st.booleans())
def test_quantizelinear_and_dequantizelinear(
    tmp_path: Path, seed: int, dtype: str, spread: str, constant: bool
) -> None:
    """Of any type, by tensor, axis or block, constant or computed before: back and forth."""
    draw = Draw(seed)
    shape = (2, 10, 3)
    size = {"one": (), "axis": (10,), "blocks": (2, 4, 3)}[spread]
    x = (draw.random.normal(size=shape) * 8).astype(np.float32)
    scales = {"s": draw.scale(*size), "z": draw.zero(dtype, *size)}
    how = {"one": "", "axis": "axis=1", "blocks": "axis=1 block_size=3"}[spread]
    text = f"y = QuantizeLinear(x, s, z) {how}\nr = DequantizeLinear(y, s, z) {how}"
    inputs = {"x": x}
    compare(
        tmp_path,
        text,
        scales if constant else {},
        inputs if constant else inputs | scales,
        outputs=("y", "r"),
    )


@pytest.mark.slow
@FEW
@given(SEEDS, st.sampled_from([0.0, 1.0, -3.0]), st.integers(1, 40))
def test_dynamicquantizelinear(tmp_path: Path, seed: int, shift: float, count: int) -> None:
    """Also of values that are all of one sign, and all 0."""
    draw = Draw(seed)
    spread = draw.random.choice([0.0, 1e-3, 5.0])
    x = (shift + draw.random.normal(size=(3, count)) * spread).astype(np.float32)
    compare(tmp_path, "y, s, z = DynamicQuantizeLinear(x)", {}, {"x": x}, outputs=("y", "s", "z"))


@FEW
@given(SEEDS, BYTES, BYTES, st.sampled_from(["plain", "depthwise", "groups", "row", "volume"]), st.booleans())
def test_qlinearconv(tmp_path: Path, seed: int, x: str, w: str, kind: str, biased: bool) -> None:
    """Zero points on both sides, per channel, strided, padded, dilated."""
    if (x, w) == ("int8", "uint8"):
        w = "int8"  # ONNX Runtime has none
    draw = Draw(seed)
    random = draw.random
    channels, units, group = {
        "plain": (3, 5, 1),
        "depthwise": (4, 8, 4),
        "groups": (4, 6, 2),
        "row": (3, 4, 1),
        "volume": (2, 3, 1),
    }[kind]
    space = {"row": (11,), "volume": (6, 7, 8)}.get(kind, (9, 10))
    kernel = tuple(int(size) for size in random.integers(1, 4, len(space)))
    per_channel = units if random.random() < 0.5 else 0
    scale = draw.scale(per_channel, about=0.01) if per_channel else draw.scale(about=0.01)
    zero = np.full(scale.shape, draw.zero(w), w)
    constants = {
        "sx": draw.scale(), "zx": draw.zero(x), "w": draw.weights(w, x, units, channels // group, *kernel),
        "sw": scale, "zw": zero, "sy": draw.scale(about=0.3), "zy": draw.zero(x),
        "b": random.integers(-20000, 20000, units).astype(np.int32),
    }  # fmt: skip

    def steps(most: int) -> str:
        return "[" + ",".join(str(int(number)) for number in random.integers(1, most, len(space))) + "]"

    pads = "[" + ",".join(str(int(number)) for number in random.integers(0, 2, 2 * len(space))) + "]"
    text = (
        f"y = QLinearConv(x, sx, zx, w, sw, zw, sy, zy{', b' if biased else ''}) "
        f"group={group} strides={steps(3)} dilations={steps(3)} pads={pads}"
    )
    compare(tmp_path, text, constants, {"x": draw.codes(x, 2, channels, *space)})


@FEW
@given(SEEDS, BYTES, st.booleans())
def test_convinteger(tmp_path: Path, seed: int, w: str, known: bool) -> None:
    """The zero point of the image is a constant, or follows from data."""
    draw = Draw(seed)
    constants = {"w": draw.weights(w, "uint8", 4, 3, 3, 3), "zw": draw.zero(w)}
    zx = {"zx": draw.zero("uint8")}
    inputs = {"x": draw.codes("uint8", 2, 3, 7, 8)}
    compare(
        tmp_path,
        "y = ConvInteger(x, w, zx, zw) pads=[1,0,1,2] strides=[2,1]",
        constants | (zx if known else {}),
        inputs if known else inputs | zx,
    )


@FEW
@given(
    SEEDS,
    BYTES,
    BYTES,
    st.sampled_from(["constant", "computed", "batch"]),
    st.sampled_from("01n"),
    st.booleans(),
)
def test_matmulinteger(
    tmp_path: Path, seed: int, a: str, b: str, weights: str, zeros: str, known: bool
) -> None:
    """Zero points: none, one, or one for each column; constant or not."""
    draw = Draw(seed)
    batch = (2,) if weights == "batch" else ()
    x, y = draw.codes(a, *batch, 5, 12), draw.weights(b, a, *batch, 12, 7)
    said = (
        {}
        if zeros == "0"
        else {"za": draw.zero(a), "zb": draw.zero(b, *((7,) if zeros == "n" and not batch else ()))}
    )
    text = "y = MatMulInteger(a, b, za, zb)" if said else "y = MatMulInteger(a, b)"
    constants = {"b": y} if weights == "constant" else {}
    inputs = {"a": x} if weights == "constant" else {"a": x, "b": y}
    if known or weights == "constant":
        compare(tmp_path, text, constants | said, inputs)
    else:
        compare(tmp_path, text, constants, inputs | said)


@FEW
@given(SEEDS, BYTES, BYTES, st.sampled_from(["constant", "columns", "computed", "vector"]))
def test_qlinearmatmul(tmp_path: Path, seed: int, a: str, b: str, weights: str) -> None:
    """By constant weights with scales for each column, and by computed ones."""
    if (a, b) == ("int8", "uint8"):
        b = "int8"  # ONNX Runtime has none
    draw = Draw(seed)
    columns = (7,) if weights == "columns" else ()
    x = draw.codes(a, 12) if weights == "vector" else draw.codes(a, 5, 12)
    y = draw.weights(b, a, 12, 7)
    constants = {
        "sa": draw.scale(), "za": draw.zero(a), "sb": draw.scale(*columns, about=0.02),
        "zb": np.full(columns, draw.zero(b), b), "sy": draw.scale(about=0.4), "zy": draw.zero(a),
    }  # fmt: skip
    text = "y = QLinearMatMul(a, sa, za, b, sb, zb, sy, zy)"
    if weights == "computed":
        compare(tmp_path, text, constants, {"a": x, "b": y})
    else:
        compare(tmp_path, text, constants | {"b": y}, {"a": x})


def test_qlinearmatmul_of_scales_that_follow_from_data(tmp_path: Path) -> None:
    """Nothing is known before it runs; and scales of float16."""
    draw = Draw(8)
    inputs = {
        "a": draw.codes("uint8", 5, 12), "sa": draw.scale(), "za": draw.zero("uint8"), "b": draw.codes("uint8", 12, 7),
        "sb": draw.scale(about=0.02), "zb": draw.zero("uint8"), "sy": draw.scale(about=0.4), "zy": draw.zero("uint8"),
    }  # fmt: skip
    text = "y = QLinearMatMul(a, sa, za, b, sb, zb, sy, zy)"
    compare(tmp_path, text, {}, inputs)
    halves = {name: value.astype(np.float16) if name[0] == "s" else value for name, value in inputs.items()}
    results = []
    for cast in (np.float16, np.float32):
        one = {name: value.astype(cast) if name[0] == "s" else value for name, value in halves.items()}
        a = one.pop("a")
        results.append(
            npusim.run(saved(model(text, one, {"a": ("uint8", a.shape)}, ["y"]), tmp_path), inputs=[a])
        )
    assert results[0].outputs is not None
    assert results[1].outputs is not None
    np.testing.assert_array_equal(results[0].outputs[0], results[1].outputs[0])


def test_older_files_are_read(tmp_path: Path) -> None:
    """Version 10 of QLinearMatMul is that of today, Softmax is along all axes from one on."""
    draw = Draw(9)
    constants = {"s": np.float32(0.5), "z": np.uint8(3), "t": np.float32(99), "b": draw.codes("uint8", 4, 3)}
    text = "y = QLinearMatMul(a, s, z, b, s, z, t, z)"
    compare(tmp_path, text, constants, {"a": draw.codes("uint8", 2, 4)}, opset=10)
    x = draw.random.normal(size=(2, 3, 4)).astype(np.float32)
    compare(tmp_path, "y = Softmax(x)", {}, {"x": x}, opset=10)


@FEW
@given(SEEDS, BYTES, BYTES, st.booleans(), st.booleans(), st.booleans(), st.sampled_from(["1.0", "0.7"]))
def test_qgemm(
    tmp_path: Path, seed: int, a: str, b: str, codes: bool, turned: bool, columns: bool, alpha: str
) -> None:
    """To codes or floats, transposed on either side, with alpha."""
    if (a, b) == ("int8", "uint8"):
        b = "int8"  # ONNX Runtime has none
    draw = Draw(seed)
    wide = (6,) if columns else ()
    constants = {
        "sa": draw.scale(), "za": draw.zero(a), "b": draw.weights(b, a, *((6, 10) if turned else (10, 6))),
        "sb": draw.scale(*wide, about=0.02), "zb": np.full(wide, draw.zero(b), b),
        "c": draw.random.integers(-9000, 9000, 6).astype(np.int32), "sy": draw.scale(about=0.4), "zy": draw.zero(a),
    }  # fmt: skip
    text = (
        f"y = ms.QGemm(a, sa, za, b, sb, zb, c{', sy, zy' if codes else ''}) "
        f"alpha={alpha} transA={int(turned)} transB={int(turned)}"
    )
    compare(tmp_path, text, constants, {"a": draw.codes(a, *((10, 4) if turned else (4, 10)))})


@FEW
@given(
    SEEDS, BYTES, st.sampled_from(["Add", "Mul"]), st.sampled_from(["same", "one", "row", "first", "column"])
)
def test_qlinearadd_and_qlinearmul(tmp_path: Path, seed: int, dtype: str, op: str, shape: str) -> None:
    """Operands broadcast; which one repeats decides the order of a fused sum."""
    draw = Draw(seed)
    shapes = {
        "same": ((2, 3, 5), (2, 3, 5)), "one": ((2, 3, 5), (1,)), "row": ((2, 3, 5), (5,)),
        "first": ((1,), (2, 3, 5)), "column": ((2, 3, 1), (2, 3, 5)),
    }[shape]  # fmt: skip
    constants = {
        "sa": draw.scale(), "za": draw.zero(dtype), "sb": draw.scale(), "zb": draw.zero(dtype),
        "sy": draw.scale(), "zy": draw.zero(dtype),
    }  # fmt: skip
    inputs = {"a": draw.codes(dtype, *shapes[0]), "b": draw.codes(dtype, *shapes[1])}
    compare(tmp_path, f"y = ms.QLinear{op}(a, sa, za, b, sb, zb, sy, zy)", constants, inputs)


@FEW
@given(SEEDS, BYTES, st.sampled_from(["LeakyRelu", "Where", "Concat"]))
def test_functions_and_moves_of_codes(tmp_path: Path, seed: int, dtype: str, op: str) -> None:
    """Operands of the result's scale are copied, others take it."""
    draw = Draw(seed)
    constants = {"sy": draw.scale(), "zy": draw.zero(dtype)}
    same = draw.random.random() < 0.5
    constants |= {"sa": draw.scale(), "za": draw.zero(dtype)}
    constants |= (
        {"sb": constants["sy"], "zb": constants["zy"]}
        if same
        else {"sb": draw.scale(), "zb": draw.zero(dtype)}
    )
    inputs = {"a": draw.codes(dtype, 2, 3, 6), "b": draw.codes(dtype, 2, 3, 6)}
    if op == "LeakyRelu":
        text = "y = ms.QLinearLeakyRelu(a, sa, za, sy, zy) alpha=0.2"
        compare(tmp_path, text, constants, {"a": inputs["a"]})
    elif op == "Where":
        condition = draw.random.random((2, 1, 6)) < 0.5
        text = "y = ms.QLinearWhere(k, a, sa, za, b, sb, zb, sy, zy)"
        compare(tmp_path, text, constants, {"k": condition, **inputs})
    else:
        compare(tmp_path, "y = ms.QLinearConcat(sy, zy, a, sa, za, b, sb, zb) axis=1", constants, inputs)


@FEW
@given(SEEDS, BYTES, st.booleans(), st.booleans())
def test_pools(tmp_path: Path, seed: int, dtype: str, last: bool, whole: bool) -> None:
    """Averages of windows and of whole images, channels first or last."""
    draw = Draw(seed)
    constants = {"sx": draw.scale(), "zx": draw.zero(dtype), "sy": draw.scale(), "zy": draw.zero(dtype)}
    shape = (2, 8, 7, 5) if last else (2, 5, 8, 7)
    how = f"channels_last={int(last)}"
    if whole:
        text = f"y = ms.QLinearGlobalAveragePool(x, sx, zx, sy, zy) {how}"
    else:
        counted = int(draw.random.integers(2))
        text = (
            f"y = ms.QLinearAveragePool(x, sx, zx, sy, zy) {how} kernel_shape=[3,2] strides=[2,1] "
            f"pads=[1,0,1,1] count_include_pad={counted} ceil_mode={int(draw.random.integers(2))}"
        )
    compare(tmp_path, text, constants, {"x": draw.codes(dtype, *shape)})


@FEW
@given(SEEDS, BYTES, st.sampled_from([7, 13]), st.sampled_from([1, -1]))
def test_qlinearsoftmax(tmp_path: Path, seed: int, dtype: str, version: int, axis: int) -> None:
    """Along one axis, and before version 13 along all from one on."""
    draw = Draw(seed)
    constants = {
        "sx": draw.scale(about=0.1), "zx": draw.zero(dtype), "sy": np.float32(1 / 256),
        "zy": np.array(LIMITS[dtype][0], dtype),
    }  # fmt: skip
    text = f"y = ms.QLinearSoftmax(x, sx, zx, sy, zy) axis={axis} opset={version}"
    compare(tmp_path, text, constants, {"x": draw.codes(dtype, 3, 4, 6)})


@FEW
@given(SEEDS, BYTES, st.booleans(), st.booleans(), st.booleans())
def test_products_of_dynamic_models(
    tmp_path: Path, seed: int, dtype: str, columns: bool, biased: bool, dynamic: bool
) -> None:
    """DynamicQuantizeMatMul, and MatMulIntegerToFloat with what DynamicQuantizeLinear gives."""
    draw = Draw(seed)
    wide = (7,) if columns else ()
    constants = {
        "b": draw.weights(dtype, "uint8", 12, 7), "sb": draw.scale(*wide, about=0.02),
        "zb": np.full(wide, draw.zero(dtype), dtype), "c": draw.random.normal(size=7).astype(np.float32),
    }  # fmt: skip
    bias = ", c" if biased else ""
    if dynamic:
        text = f"y = ms.DynamicQuantizeMatMul(a, b, sb, zb{bias})"
    else:
        text = f"q, s, z = DynamicQuantizeLinear(a)\ny = ms.MatMulIntegerToFloat(q, b, s, sb, z, zb{bias})"
    compare(tmp_path, text, constants, {"a": draw.random.normal(size=(5, 12)).astype(np.float32)})


@FEW
@given(SEEDS, st.sampled_from([4, 8]), st.sampled_from([16, 32]), st.booleans(), st.integers(1, 70))
def test_matmulnbits(tmp_path: Path, seed: int, bits: int, size: int, zeros: bool, inner: int) -> None:
    """Weights of 4 and 8 bits in blocks; the last one may be short."""
    draw = Draw(seed)
    blocks = -(-inner // size)
    constants = {
        "b": draw.codes("uint8", 6, blocks, size * bits // 8), "s": draw.scale(6 * blocks),
        "z": draw.codes("uint8", 6, -(-blocks * bits // 8)),
    }  # fmt: skip
    text = f"y = ms.MatMulNBits(a, b, s{', z' if zeros else ''}) K={inner} N=6 bits={bits} block_size={size}"
    compare(tmp_path, text, constants, {"a": draw.random.normal(size=(2, inner)).astype(np.float32)})


@FEW
@given(SEEDS, st.sampled_from(["packed", "bytes", "int4"]), st.booleans())
def test_gatherblockquantized(tmp_path: Path, seed: int, kind: str, zeros: bool) -> None:
    """Two elements in a byte, one, or int4."""
    draw = Draw(seed)
    wide, dtype = (16, "uint8") if kind == "packed" else (32, "uint8" if kind == "bytes" else "int8")
    data, zero = draw.codes(dtype, 10, wide), draw.codes(dtype, 10, wide // 16)
    constants = {"d": data >> 4 if kind == "int4" else data, "s": draw.scale(10, 2)}
    constants |= {"z": zero >> 4 if kind == "int4" else zero} if zeros else {}
    text = (
        f"y = ms.GatherBlockQuantized(d, i, s{', z' if zeros else ''}) block_size=16 "
        f"bits={8 if kind == 'bytes' else 4} gather_axis=0 quantize_axis=1"
    )
    narrow = ("d", "z") if kind == "int4" else ()
    places = draw.random.integers(-10, 10, (2, 3))
    compare(tmp_path, text, constants, {"i": places}, four_bits=narrow)


def test_channels_last(tmp_path: Path) -> None:
    """Operators of com.microsoft that have them so, and products of 16 bits."""
    draw = Draw(5)
    constants = {
        "s": np.float32(0.05), "z": np.uint8(10), "t": np.float32(2), "w": draw.codes("uint8", 4, 3, 2, 2),
        "b": draw.codes("int16", 6, 5) >> 2,
    }  # fmt: skip
    x = {"x": draw.codes("uint8", 1, 7, 6, 3)}
    conv = "y = ms.QLinearConv(x, s, z, w, s, z, t, z) channels_last=1 strides=[2,1]"
    compare(tmp_path, conv, constants, x)
    compare(tmp_path, "y = ms.NhwcMaxPool(x) kernel_shape=[3,2] strides=[2,2] pads=[1,0,1,1]", {}, x)
    compare(tmp_path, "y = ms.MatMulInteger16(a, b)", constants, {"a": draw.codes("int16", 4, 6) >> 2})


BETWEEN = {
    "y = Relu(q)": "maximum",
    "y = Clip(q, low, high)": "minimum",
    "y = Max(q, other)": "maximum",
    "y = Gather(q, places)": "gather",
    "y = Transpose(q)": "transpose",
    "y = Concat(q, q) axis=0": "concatenation",
    "y = ReduceMax(q) axes=[1]": "reduce_max",
    "y = Cast(q) to=1": "cast",
    "y = Equal(q, other)": "equal",
    "y = ArgMax(q) axis=1": "arg_max",
    "y = Mul(q, other)": "mul",
    "r = DequantizeLinear(q, t, z)\ny = Sqrt(r)": "sqrt",
}
"""What may become of codes without being told their scale, and the operator that it is."""


@pytest.mark.parametrize("text", BETWEEN)
def test_codes_between_operators_are_whole_numbers(tmp_path: Path, text: str) -> None:
    """They keep their scale where they only move; a node that says another one reads the same bytes."""
    draw = Draw(2)
    constants = {
        "s": np.float32(0.5), "z": np.int8(1), "t": np.float32(0.25), "low": np.int8(-5), "high": np.int8(4),
        "other": np.int8(3), "places": np.array([2, 0]),
    }  # fmt: skip
    x = (3 * abs(draw.random.normal(size=(4, 6))) + 1).astype(np.float32)
    compare(tmp_path, f"q = QuantizeLinear(x, s, z)\n{text}", constants, {"x": x}, opset=17)
    assert BETWEEN[text] in {node.op for node in frontend.read(tmp_path / "small.onnx").nodes}


def test_nodes_come_in_any_order(tmp_path: Path) -> None:
    """A file may have them so that the first reads what the last makes."""
    text = "y = Add(d, x)\nq = QuantizeLinear(x, s, z)\nd = DequantizeLinear(q, s, z)"
    proto = model(text, {"s": np.float32(0.5), "z": np.uint8(3)}, {"x": ("float32", (4,))}, ["y"])
    x = np.array([0.2, 0.6, -7, 3], np.float32)
    got = npusim.run(saved(proto, tmp_path), inputs=[x]).outputs
    assert got is not None
    np.testing.assert_array_equal(got[0], np.array([0, 0.5, -1.5, 3], np.float32) + x)


def test_nodes_in_a_circle_are_refused(tmp_path: Path) -> None:
    """The message names the value that nobody can make first."""
    proto = model("y = Add(x, z)\nz = Mul(y, x)", {}, {"x": ("float32", (4,))}, ["y"])
    with pytest.raises(npusim.NpusimError, match='value "z" is read, and nothing before writes it'):
        npusim.run(saved(proto, tmp_path), inputs=[np.ones(4, np.float32)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("y = QuantizeLinear(x, three) axis=1", "has 3 scales for the 6 elements of axis 1"),
        ("y = QuantizeLinear(x, three) axis=7", "axis is 7, must be -2..1"),
        ("y = QuantizeLinear(x, s) output_dtype=17", "npusim has no quantized values of type float8e4m3fn"),
        (
            "y = QuantizeLinear(x, blocks) axis=1 block_size=4",
            r"scale \[4, 3\] does not fit \[4, 6\] in blocks of 4",
        ),
        ("y = QLinearConv(x, s, z, w, s, z, s, z)", "x is float32, not quantized"),
        ("y = ms.QLinearAdd(q, x, z, q, s, z, s, z)", "input A_scale decides shapes or parameters"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """With the node and what is wrong."""
    constants = {
        "s": np.float32(0.5), "z": np.uint8(3), "three": np.ones(3, np.float32), "q": np.ones((4, 6), np.uint8),
        "blocks": np.ones((4, 3), np.float32), "w": np.ones((2, 2, 1, 1), np.uint8),
    }  # fmt: skip
    proto = model(text, constants, {"x": ("float32", (4, 6))}, ["y"], opset=23)
    with pytest.raises(npusim.NpusimError, match=said):
        npusim.run(saved(proto, tmp_path), inputs=[np.ones((4, 6), np.float32)])


@pytest.mark.slow
@pytest.mark.parametrize(
    "operation", ["LayerNormalization(r, w, b)", "LayerNormalization(r, w)", "RMSNormalization(r, w)"]
)
def test_normalizations_of_rows(tmp_path: Path, operation: str) -> None:
    """Between codes they are one instruction. Sums that ONNX Runtime rounds differ once in 20,000 values."""
    draw = Draw(3)
    numbers = {"w": draw.random.normal(1, 0.2, 24), "b": draw.random.normal(0, 0.5, 24)}
    constants = {
        **{name: value.astype(np.float32) for name, value in numbers.items()},
        "s": draw.scale(),
        "z": draw.zero("uint8"),
        "t": draw.scale(about=0.02),
        "y0": np.int8(-3),
    }
    text = f"r = DequantizeLinear(x, s, z)\nn = {operation} epsilon=0.001\ny = QuantizeLinear(n, t, y0)"
    compare(tmp_path, text, constants, {"x": draw.codes("uint8", 4, 9, 24)}, opset=23)
    (node,) = [node for node in frontend.read(tmp_path / "small.onnx").nodes if "norm" in node.op]
    assert node.parameters.rescale == "float32"
