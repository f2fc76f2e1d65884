"""Which operations between DequantizeLinear and QuantizeLinear compute on codes, and what they then give."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import npusim
from npusim.frontends import frontend
from npusim.isa.base.errors import NpusimError
from npusim.kernels.graph.graph import Graph
from tests.npusim.frontends.onnx.small_models import beside, model, onnx, saved

RANDOM = np.random.default_rng(12)
S1, S3, SW = np.float32(0.02137), np.float32(0.05339), np.float32(0.01193)
"""No sum of theirs is half a code, where the order in which float32 are added would decide."""
SC = np.array([0.01193, 0.02239, 0.03331, 0.01487], np.float32)
SCALES = {
    "s1": S1, "s2": np.float32(0.03171), "s3": S3, "sw": SW, "sc": SC, "sxw": S1 * SC,
    "z": np.uint8(120), "zu": np.uint8(0), "z16": np.uint16(30000), "zb": np.int32(0),
    "zc": np.zeros(4, np.int8), "zbc": np.zeros(4, np.int32), "six": np.float32(6), "nought": np.float32(0),
}  # fmt: skip
CONSTANTS = {
    "w": RANDOM.integers(-127, 128, (4, 4, 3, 3)).astype(np.int8),
    "w_flat": RANDOM.integers(-127, 128, (4, 36)).astype(np.int8),
    "fw": RANDOM.uniform(-1.2, 1.2, (4, 4, 3, 3)).astype(np.float32),
    "b": RANDOM.integers(-9000, 9000, 4).astype(np.int32),
    "fb": RANDOM.normal(size=4).astype(np.float32),
    "m": RANDOM.integers(-127, 128, (5, 4)).astype(np.int8),
    "flat": np.array([2, -1], np.int64),
    "wide": np.array([4, 4, 3, 3], np.int64),
}


pytestmark = pytest.mark.filterwarnings("ignore::npusim.frontends.frontend.ModelWarning")


class Case(NamedTuple):
    """A graph on the codes x [2, 4, 5, 5] or v [3, 5], and the operators that it must become, in order."""

    text: str
    operators: str
    note: str = ""
    outputs: tuple[str, ...] = ("y",)
    opset: int = 21


DX = "dx = DequantizeLinear(x, s1, z)"
DW = "dw = DequantizeLinear(w, sc, zc) axis=0"
DB = "db = DequantizeLinear(b, sxw, zbc) axis=0"
Y = "y = QuantizeLinear({}, s3, z)"
CONV = f"{DX}\n{DW}\n{DB}\nc = Conv(dx, dw, db)\n"

CASES = {
    "one input": Case(f"{DX}\nr = Sigmoid(dx)\n{Y.format('r')}", "logistic"),
    "several inputs": Case(f"{DX}\nds = DequantizeLinear(x, s2, z)\nr = Add(dx, ds)\n{Y.format('r')}", "reshape add"),
    "a convolution": Case(CONV + Y.format("c"), "conv_2d"),
    "Relu between": Case(f"{CONV}r = Relu(c)\n{Y.format('r')}", "conv_2d"),
    "Relu between, where no code is below": Case(
        f"{CONV}r = Relu(c)\ny = QuantizeLinear(r, s3, zu)", "conv_2d"
    ),
    "Clip between, as an activation": Case(f"{CONV}r = Clip(c, nought, six)\n{Y.format('r')}", "conv_2d"),
    "two bounds": Case(f"{CONV}r = Relu(c)\nq = Clip(r, nought, six)\n{Y.format('q')}", "conv_2d relu6"),
    "attributes of Clip": Case(f"{CONV}r = Relu(c)\n{Y.format('r')}", "conv_2d", opset=13),
    "several QuantizeLinear": Case(
        f"{CONV}{Y.format('c')}\ny2 = QuantizeLinear(c, s3, z)", "conv_2d reshape", outputs=("y", "y2")
    ),
    "several QuantizeLinear, of different scales": Case(
        f"{CONV}{Y.format('c')}\ny2 = QuantizeLinear(c, s2, z)",
        "conv_2d dequantize quantize quantize",
        'node "c" (Conv): no group, because the result is quantized in different ways',
        outputs=("y", "y2"),
    ),
    "read as floating-point values": Case(
        f"{CONV}{Y.format('c')}\nr = Sigmoid(c)",
        "conv_2d dequantize quantize logistic",
        'node "c" (Conv): no group, because the result is also read as floating-point values',
        outputs=("y", "r"),
    ),
    "an output too": Case(
        f"{CONV}{Y.format('c')}",
        "conv_2d dequantize quantize",
        'node "c" (Conv): no group, because the result is an output too',
        outputs=("y", "c"),
    ),
    "no QuantizeLinear": Case(
        f"{DX}\nr = Sigmoid(dx)\ny = Tanh(r)",
        "dequantize logistic tanh",
        'node "r" (Sigmoid): no group, because no QuantizeLinear follows',
    ),
    "a scale per channel behind": Case(
        f"{DX}\nr = Sigmoid(dx)\ny = QuantizeLinear(r, sc, zc)",
        "dequantize logistic quantize",
        "the result is not quantized to 8 or 16 bits by one constant scale",
    ),
    "weights through Reshape": Case(
        f"{DX}\nd = DequantizeLinear(w_flat, sc, zc) axis=0\ndw = Reshape(d, wide)\nc = Conv(dx, dw)\n{Y.format('c')}",
        "conv_2d",
    ),
    "weights that the graph quantises": Case(
        f"{DX}\nq = QuantizeLinear(fw, sc, zc) axis=0\ndw = DequantizeLinear(q, sc, zc) axis=0\n"
        f"c = Conv(dx, dw)\n{Y.format('c')}",
        "conv_2d",
    ),
    "weights that two share": Case(
        f"{DX}\n{DW}\na = Conv(dx, dw)\nb2 = Conv(dx, dw) pads=[1,1,1,1]\n"
        f"{Y.format('a')}\ny2 = QuantizeLinear(b2, s2, z)",
        "conv_2d conv_2d",
        outputs=("y", "y2"),
    ),
    "a real bias": Case(
        f"{DX}\n{DW}\nc = Conv(dx, dw, fb)\n{Y.format('c')}", "conv_2d dequantize add quantize"
    ),
    "a bias of another scale": Case(
        f"{DX}\n{DW}\ndb = DequantizeLinear(b, sw, zb)\nc = Conv(dx, dw, db)\n{Y.format('c')}",
        "conv_2d dequantize add quantize",
    ),
    "scales along what is summed up": Case(
        f"{DX}\ndw = DequantizeLinear(w, sc, zc) axis=1\nc = Conv(dx, dw)\n{Y.format('c')}",
        "dequantize conv_2d quantize",
        "the weights have scales along an axis that is summed up",
    ),
    "a move": Case(f"{DX}\nr = Transpose(dx) perm=[0,2,3,1]\ny = QuantizeLinear(r, s1, z)", "transpose"),
    "a move to other codes": Case(
        f"{DX}\nr = Transpose(dx) perm=[0,2,3,1]\n{Y.format('r')}", "transpose quantize"
    ),
    "a move behind which nothing is quantised": Case(
        f"{DX}\nr = Reshape(dx, flat)\ny = Sigmoid(r)", "reshape dequantize logistic"
    ),
    "moves between operation and QuantizeLinear": Case(
        f"{CONV}t = Transpose(c) perm=[0,2,3,1]\nr = Reshape(t, flat)\n{Y.format('r')}",
        "conv_2d reshape reshape",
    ),
    "codes to other codes": Case(f"{DX}\n{Y.format('dx')}", "quantize"),
    "codes to the same codes": Case(f"{DX}\ny = QuantizeLinear(dx, s1, z)", "reshape"),
    "an identity between": Case(f"{CONV}i = Identity(c)\n{Y.format('i')}", "conv_2d"),
    "Relu on codes that others read too": Case(
        f"{CONV}{Y.format('c')}\nd = DequantizeLinear(y, s3, z)\nr = Relu(d)\ny2 = QuantizeLinear(r, s3, z)",
        "conv_2d relu",
        outputs=("y", "y2"),
    ),
    "Relu on codes that nobody else reads": Case(
        f"{CONV}q = QuantizeLinear(c, s3, z)\nd = DequantizeLinear(q, s3, z)\nr = Relu(d)\n{Y.format('r')}",
        "conv_2d",
    ),
    "several operations on one value": Case(
        f"{DX}\ne = Div(dx, six)\nf = Erf(e)\n{Y.format('f')}", "look_up"
    ),
    "a GELU in parts": Case(
        f"{DX}\ne = Div(dx, six)\nf = Erf(e)\ng = Add(f, six)\nh = Mul(dx, g)\ni = Mul(h, s2)\n{Y.format('i')}",
        "look_up",
    ),
    "parts of a table that others read": Case(
        f"{DX}\ne = Sigmoid(dx)\nf = Mul(dx, e)\n{Y.format('f')}",
        "dequantize logistic look_up",
        outputs=("y", "e"),
    ),
    "several operations on two values": Case(
        f"{DX}\nd2 = DequantizeLinear(x, s2, z)\ne = Sigmoid(dx)\nf = Mul(d2, e)\n{Y.format('f')}",
        "reshape dequantize logistic mul",
        'node "e" (Sigmoid): no group, because no QuantizeLinear follows',
    ),
    "several operations on 16 bits": Case(
        f"{DX}\nq = QuantizeLinear(dx, s2, z16)\nd = DequantizeLinear(q, s2, z16)\n"
        f"e = Sigmoid(d)\nf = Mul(d, e)\n{Y.format('f')}",
        "quantize dequantize logistic mul",
        'node "e" (Sigmoid): no group, because no QuantizeLinear follows',
    ),
    "a real bias of 16 bits": Case(
        f"{DX}\nq = QuantizeLinear(dx, s2, z16)\nd = DequantizeLinear(q, s2, z16)\n{DW}\n"
        f"c = Conv(d, dw, fb)\n{Y.format('c')}",
        "quantize dequantize conv_2d quantize",
        'node "c" (Conv): no group, because the bias is floating-point',
    ),
    "a convolution that stays real": Case(f"{DX}\n{DW}\ny = Conv(dx, dw, fb)", "conv_2d dequantize add"),
    "a product that stays real": Case(
        f"{DX}\ndm = DequantizeLinear(m, sw)\nr = MatMul(dx, dm)\ny = Sigmoid(r)",
        "fully_connected dequantize logistic",
    ),
    "a product with scales by column": Case(
        f"{DX}\ndm = DequantizeLinear(m, sc) axis=1\ny = MatMul(dx, dm)", "fully_connected dequantize"
    ),
    "a transposed convolution that stays real": Case(
        f"{DX}\ndw = DequantizeLinear(w, sc, zc) axis=1\ny = ConvTranspose(dx, dw, fb)",
        "transpose_conv dequantize add",
    ),
    "Constant nodes": Case(
        "s = Constant() value_float=0.02\nk = Identity(s)\n"
        f"dx = DequantizeLinear(x, k, z)\nr = Sigmoid(dx)\n{Y.format('r')}",
        "logistic",
    ),
    "com.microsoft": Case(
        "dx = ms.DequantizeLinear(x, s1, z)\nr = Sigmoid(dx)\ny = ms.QuantizeLinear(r, s3, z16)", "logistic"
    ),
    "a chain, group by group": Case(
        f"{DX}\na = Sigmoid(dx)\nqa = QuantizeLinear(a, s2, z)\nda = DequantizeLinear(qa, s2, z)\n"
        f"r = Mul(dx, da)\n{Y.format('r')}",
        "logistic mul",
    ),
}  # fmt: skip


def made(case: Case, folder: Path) -> tuple[Any, Path, Graph]:
    """The model of a case, its file and its graph."""
    proto = model(
        case.text, SCALES | CONSTANTS, {"x": ("uint8", (2, 4, 5, 5))}, case.outputs, opset=case.opset
    )
    path = saved(proto, folder)
    return proto, path, frontend.read(path)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_becomes_of_groups(case: Case, tmp_path: Path) -> None:
    _, _, graph = made(case, tmp_path)
    operators = [node.op for node in graph.nodes]
    turned = [op for op in operators if op != "transpose" or "transpose" in case.operators.split()]
    assert " ".join(turned) == case.operators
    assert (case.note in " ".join(graph.notes)) if case.note else not graph.notes


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_groups_give_what_onnx_runtime_gives(case: Case, tmp_path: Path) -> None:
    proto, path, _ = made(case, tmp_path)
    x = RANDOM.integers(0, 256, (2, 4, 5, 5)).astype(np.uint8)
    outputs = npusim.run(path, inputs=[x]).outputs
    assert outputs is not None
    for found, wanted in zip(outputs, beside(proto, [x]), strict=True):
        assert found.dtype == wanted.dtype
        if found.dtype == np.float32:
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "lines",
    [
        "y = QuantizeLinear()",
        f"{DX}\ny = Relu()",
        f"{DX}\nd = DequantizeLinear(sc, sc, zc)\nt = Transpose(d) perm=[3,1]\ny = Conv(dx, t)",
        f"{DX}\nd = DequantizeLinear(b, sc, zbc) axis=0\nt = Unsqueeze(d, wide)\ny = MatMul(dx, t)",
        f"{DX}\nd = DequantizeLinear(s1, sc, zc)\nc = Conv(dx, d)\n{Y.format('c')}",
    ],
)
def test_what_is_malformed_is_refused(lines: str, tmp_path: Path) -> None:
    inputs = {"x": ("uint8", (2, 4, 5, 5))}
    with pytest.raises(NpusimError):
        frontend.read(saved(model(lines, SCALES | CONSTANTS, inputs, ["y"]), tmp_path))


def test_an_input_keeps_its_name_where_its_transpose_moves_nothing(tmp_path: Path) -> None:
    lines = "t = Transpose(i) perm=[0,3,1,2]\nr = Relu(t)\ny = Transpose(r) perm=[0,2,3,1]"
    graph = frontend.read(saved(model(lines, {}, {"i": ("float32", (1, 5, 6, 3))}, ["y"]), tmp_path))
    assert [graph.tensors[number].name for number in (*graph.inputs, *graph.outputs)] == ["i", "y"]


@pytest.mark.parametrize("chosen", [True, False, None])
def test_groups_in_branches(chosen: bool | None, tmp_path: Path) -> None:
    """Scales are constants of the graph around them, and what a branch reads was dequantised outside."""
    helper, kinds = onnx.helper, onnx.TensorProto
    yes = [
        helper.make_node("Conv", ["dx", "dw", "db"], ["c"], "c"),
        helper.make_node("Relu", ["c"], ["r"], "r"),
        helper.make_node("QuantizeLinear", ["r", "s3", "z"], ["yes"], "yes"),
    ]
    no = [
        helper.make_node("Slice", ["dx", "from", "to"], ["part"], "part"),
        helper.make_node("Sigmoid", ["part"], ["g"], "g"),
        helper.make_node("QuantizeLinear", ["g", "s3", "z"], ["no"], "no"),
    ]
    results = {name: [helper.make_empty_tensor_value_info(name)] for name in ("yes", "no")}
    proto = model(
        f"{DX}\n{DW}\n{DB}",
        {**SCALES, **CONSTANTS, "from": np.array([0, 0, 1, 1]), "to": np.array([2, 4, 4, 4])},
        {"x": ("uint8", (2, 4, 5, 5)), "which": ("bool", ())},
        ["y"],
    )
    bodies = {
        "then_branch": helper.make_graph(yes, "a", [], results["yes"]),
        "else_branch": helper.make_graph(no, "b", [], results["no"]),
    }
    proto.graph.node.append(helper.make_node("If", ["which"], ["y"], "y", **bodies))
    if chosen is not None:
        proto.graph.input.pop()
        proto.graph.initializer.append(helper.make_tensor("which", kinds.BOOL, [], [chosen]))
    path = saved(proto, tmp_path)
    operators = [node.op for node in frontend.read(path).nodes if node.op != "transpose"]
    made = {
        True: "conv_2d",
        False: "strided_slice logistic",
        None: "conv_2d strided_slice logistic select_v2",
    }
    assert [op for op in operators if op != "reshape"] == made[chosen].split()
    x = RANDOM.integers(0, 256, (2, 4, 5, 5)).astype(np.uint8)
    for which in (True, False) if chosen is None else (chosen,):
        inputs = [x] if chosen is not None else [x, np.array(which)]
        (found,) = npusim.run(path, inputs=inputs).outputs or ()
        np.testing.assert_array_equal(found, beside(proto, inputs)[0])
