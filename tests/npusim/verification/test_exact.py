"""Who is off where npusim and ONNX Runtime differ: the exact value says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.cli.verify import lines
from npusim.isa.base.tensor import Array
from npusim.verification import onnx_runtime, verification
from npusim.verification.verdicts import TensorVerdict, Verification, nearer, right

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'npusim[onnx]'")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: pip install 'npusim[onnx]'")

helper: Any = onnx.helper
FLOAT, UINT8 = onnx.TensorProto.FLOAT, onnx.TensorProto.UINT8
NO_SATURATION = "ONNX Runtime does not saturate 255 x 127 + 255 x 127 on this processor"
_RUN = onnx_runtime.Session.run


def saved(path: Path, nodes: Sequence[Any], x: Any, constants: dict[str, Array]) -> Path:
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    y = helper.make_tensor_value_info(nodes[-1].output[0], FLOAT, None)
    graph = helper.make_graph(list(nodes), "net", [x], [y], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def gated(path: Path) -> Path:
    """x -> depthwise convolution -> sigmoid, both between DequantizeLinear and QuantizeLinear.

    Sums are multiplied by 0.002, so that one of 500 is a half away from an integer but for what float32 makes of the
    scales; and sigmoid of step 46 is 125.499987 steps.
    """
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "x_scale", "zero"], ["codes"]),
        node("DequantizeLinear", ["codes", "x_scale", "zero"], ["real"]),
        node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["weights"]),
        node("Conv", ["real", "weights"], ["conv"], name="conv", group=32, pads=[1] * 4),
        node("QuantizeLinear", ["conv", "s_scale", "zero"], ["sums"]),
        node("DequantizeLinear", ["sums", "s_scale", "zero"], ["gate_in"]),
        node("Sigmoid", ["gate_in"], ["gate"], name="gate"),
        node("QuantizeLinear", ["gate", "y_scale", "y_zero"], ["gated"]),
        node("DequantizeLinear", ["gated", "y_scale", "y_zero"], ["y"]),
    ]
    scales = {"x_scale": 0.02, "w_scale": 0.01193, "s_scale": 0.1193, "y_scale": 1 / 255}
    constants: dict[str, Array] = {
        **{name: np.array(value, np.float32) for name, value in scales.items()},
        **{name: np.array(value, np.int8) for name, value in (("zero", 3), ("w_zero", 0), ("y_zero", -128))},
        "w": np.random.default_rng(0).integers(-127, 128, (32, 1, 3, 3), np.int8),
    }
    return saved(path, nodes, helper.make_tensor_value_info("x", FLOAT, [1, 32, 40, 40]), constants)


def by_tensor(found: Verification) -> dict[str, TensorVerdict]:
    return {row.tensor: row for row in found.tensors}


def with_value(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Array], None]) -> None:
    """Change a value of ONNX Runtime's in place."""

    def run(self: onnx_runtime.Session, inputs: Sequence[Array]) -> dict[str, Array]:
        values: dict[str, Any] = dict(_RUN(self, inputs))
        values[name] = values[name].copy()
        change(values[name].reshape(-1))
        return values

    monkeypatch.setattr(onnx_runtime.Session, "run", run)


def test_sums_that_onnx_runtime_rounds_the_other_way(tmp_path: Path) -> None:
    """Also live: however many they are on this processor, npusim has the exact value of each."""
    found = npusim.verify(gated(tmp_path / "net.onnx"), samples=2)
    assert found.equal, found.first
    assert {row.off for row in found.tensors if row.verdict == "rounded"} <= {"other"}
    assert by_tensor(found)["sums"].elements == 2 * 32 * 40 * 40


@pytest.mark.parametrize("tensor", ["sums", "gated"])
def test_one_step_more_in_many_elements_is_rounded(
    tensor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as one in 512, which is more than float sums were ever found to give."""
    path = gated(tmp_path / "net.onnx")
    exact = _RUN(onnx_runtime.Session(path), [np.zeros((1, 32, 40, 40), np.float32)])[tensor].reshape(-1)

    def change(flat: Array) -> None:
        flat[:] = exact
        flat[::512] += np.where(flat[::512] < 127, 1, -1).astype(np.int8)

    with_value(monkeypatch, tensor, change)
    found = npusim.verify(path, inputs={"x": np.zeros((1, 32, 40, 40), np.float32)})
    row = by_tensor(found)[tensor]
    assert (row.verdict, row.differing, row.elements, row.off) == ("rounded", 100, 51200, "other")
    assert (
        "ONNX Runtime rounds 100 of 51 200 sums the other way; npusim has the exact value" in lines(found)[1]
    )


def test_npusim_off_by_one_step_is_different(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even in one element, which the other's sums in float32 do not excuse."""
    real = verification.results

    def results(graph: Any, node: Any, values: Any) -> list[Array]:
        found = real(graph, node, values)
        if graph.tensors[node.outputs[0]].name == "sums" and node.op == "depthwise_conv_2d":
            found[0] = found[0].copy()
            found[0].reshape(-1)[77] ^= 1
        return found

    monkeypatch.setattr(verification, "results", results)
    found = npusim.verify(gated(tmp_path / "net.onnx"))
    row = by_tensor(found)["sums"]
    assert (row.verdict, row.differing, row.off) == ("different", 1, "npusim")
    assert found.first is not None
    assert (found.first.tensor, found.first.differing, found.first.index) == ("sums", 1, (0, 0, 2, 13))
    assert any(line.endswith('tensor "sums": npusim is off from the exact value') for line in lines(found))


def saturating(path: Path, dynamic: bool = False) -> Path:
    """x in uint8 by weights in int8, of which some pairs of products are beyond int16."""
    node = helper.make_node
    constants: dict[str, Array] = {
        "s": np.array(0.02, np.float32),
        "t": np.array([0.001, 0.002, 0.003, 0.004], np.float32),
        "ys": np.array(9.0, np.float32),
        "z": np.array(0, np.uint8),
        "zw": np.zeros(4, np.int8),
    }
    rng = np.random.default_rng(0)
    if dynamic:
        constants = {"w": rng.integers(100, 128, (64, 16), np.int8), "unit": np.array(0.01, np.float32)}
        nodes = [
            node("DynamicQuantizeLinear", ["x"], ["codes", "scale", "shift"]),
            node("MatMulInteger", ["codes", "w", "shift"], ["sums"], name="sums"),
            node("Cast", ["sums"], ["wide"], to=FLOAT),
            node("Mul", ["scale", "unit"], ["both"]),
            node("Mul", ["wide", "both"], ["y"], name="reals"),
        ]
        return saved(path, nodes, helper.make_tensor_value_info("x", FLOAT, [1, 64]), constants)
    constants["w"] = rng.integers(100, 128, (4, 4, 3, 3), np.int8)
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["codes"]),
        node(
            "QLinearConv",
            ["codes", "s", "z", "w", "t", "zw", "ys", "z"],
            ["conv"],
            name="conv",
            pads=[1] * 4,
        ),
        node("DequantizeLinear", ["conv", "ys", "z"], ["y"]),
    ]
    return saved(path, nodes, helper.make_tensor_value_info("x", FLOAT, [1, 4, 8, 8]), constants)


@pytest.mark.skipif(not onnx_runtime.saturates(), reason=NO_SATURATION)
def test_sums_that_onnx_runtime_saturates_are_not_npusims_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saturating(tmp_path / "net.onnx")
    constants = {"x": np.linspace(0, 5.1, 256, dtype=np.float32).reshape(1, 4, 8, 8)}
    found = npusim.verify(path, inputs=constants)
    row = by_tensor(found)["conv"]
    assert (row.verdict, row.elements, row.off) == ("saturated", 256, "other")
    assert 0 < row.differing <= 256
    assert found.equal
    said = f"ONNX Runtime saturates {row.differing} of 256 sums on this processor (no VNNI); npusim has the exact value"
    assert said in lines(found)[1]
    assert lines(found)[-1] == "equal, except for the sums that ONNX Runtime saturates"
    # On a processor that does not saturate, the same values would have no explanation.
    monkeypatch.setattr(onnx_runtime, "saturates", lambda: False)
    found = npusim.verify(path, inputs=constants)
    assert (by_tensor(found)["conv"].verdict, by_tensor(found)["conv"].off) == ("different", "other")
    assert any(
        line.endswith("ONNX Runtime is off from the exact value; npusim has it") for line in lines(found)
    )


@pytest.mark.skipif(not onnx_runtime.saturates(), reason=NO_SATURATION)
def test_dynamically_quantized_products_saturate_too(tmp_path: Path) -> None:
    found = npusim.verify(
        saturating(tmp_path / "net.onnx", dynamic=True), inputs={"x": np.ones((1, 64), np.float32)}
    )
    assert found.equal, found.first
    assert "saturated" in {row.verdict for row in found.tensors}


def test_steps_of_an_operation_are_not_its_value(tmp_path: Path) -> None:
    """MatMulInteger with a zero point that a run gives is several layers, all named after it: the last one counts."""
    path = saturating(tmp_path / "net.onnx", dynamic=True)
    model = onnx.load(str(path))
    small = np.random.default_rng(0).integers(-60, 60, (64, 16), np.int8)  # 2 x 255 x 60 is within int16
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(small, "w"))
    onnx.save(model, str(path))
    found = npusim.verify(path, samples=3)
    assert found.equal, found.first
    rows = [row.verdict for row in found.tensors if row.tensor == "sums"]
    assert rows == ["not kept", "not kept", "not kept", "not kept", "equal"]


@pytest.mark.parametrize("op", ["QLinearConv", "QLinearMatMul", "QGemm", "MatMulInteger"])
def test_exact_values_are_those_of_integers(op: str, tmp_path: Path) -> None:
    """Each operation on quantized values beside sums of int64."""
    from npusim.verification.exact import Evaluator

    rng = np.random.default_rng(1)
    x, w = rng.integers(0, 256, (3, 8), np.uint8), rng.integers(-128, 128, (8, 5), np.int8)
    bias = rng.integers(1 << 24, 1 << 25, 5).astype(np.int32)  # more bits than a float32 has
    scales = {"s": 0.02, "t": 0.003, "u": 70.0}
    values: dict[str, Array] = {
        **{name: np.array(value, np.float32) for name, value in scales.items()},
        "zx": np.array(7, np.uint8),
        "zw": np.array(-3, np.int8),
        "zy": np.array(9, np.uint8),
        "w": w,
        "b": bias,
    }
    sums = (x.astype(np.int64) - 7) @ (w.astype(np.int64) + 3)
    operands = {
        "QLinearConv": ["x", "s", "zx", "w", "t", "zw", "u", "zy", "b"],
        "QLinearMatMul": ["x", "s", "zx", "w", "t", "zw", "u", "zy"],
        "QGemm": ["x", "s", "zx", "w", "t", "zw", "b", "u", "zy"],
        "MatMulInteger": ["x", "w", "zx", "zw"],
    }[op]
    if op == "QLinearConv":  # 1 x 1, of images of one pixel
        values |= {"w": np.ascontiguousarray(w.T)[..., None, None]}
        x = x[..., None, None]
    domain = "com.microsoft" if op == "QGemm" else ""
    graph = helper.make_graph(
        [helper.make_node(op, operands, ["y"], domain=domain)],
        "net",
        [helper.make_tensor_value_info("x", UINT8, x.shape)],
        [helper.make_tensor_value_info("y", UINT8, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in values.items()],
    )
    onnx.save(helper.make_model(graph), str(tmp_path / "net.onnx"))
    dtype = np.int32 if op == "MatMulInteger" else np.uint8
    found = Evaluator(tmp_path / "net.onnx").value("y", {"x": x, "y": np.zeros(1, dtype)}, frozenset())
    assert found is not None
    assert found.may_saturate
    if "b" in operands:
        sums += bias
    unit = float(values["s"]) * float(values["t"]) / float(values["u"])
    expected = sums if op == "MatMulInteger" else np.clip(sums * unit + 9, 0, 255)
    assert np.allclose(found.array.reshape(3, 5), expected, rtol=1e-12, atol=0)
    assert op == "MatMulInteger" or len(np.unique(expected)) > 10  # not all are at the end of the range


def test_what_the_reference_evaluator_lacks_has_no_exact_value(tmp_path: Path) -> None:
    from npusim.verification.exact import Evaluator

    nodes = [helper.make_node("Unheard", ["x"], ["y"], domain="com.example")]
    path = tmp_path / "net.onnx"
    saved(path, nodes, helper.make_tensor_value_info("x", FLOAT, [4]), {})
    assert Evaluator(path).value("y", {"x": np.zeros(4, np.float32)}, frozenset()) is None
    assert Evaluator(path).value("z", {"x": np.zeros(4, np.float32)}, frozenset()) is None


def test_right_is_the_nearest_integer() -> None:
    value, exact = np.array([1, 1, 1, 2], np.int8), np.array([1.4, 1.6, 1.50001, 1.50001])
    assert right(value, exact, 0.0).tolist() == [True, False, True, True]
    assert nearer(value, value[::-1], exact).tolist() == [True, False, False, True]
    sums = np.array([10**6, 10**6 + 1], np.int32)  # of sums nothing is rounded
    assert right(sums, np.array([1e6, 1e6]), 0.0).tolist() == [True, False]
    reals = np.array([1.0, 1.1], np.float32)
    assert right(reals, np.array([1.0, 1.0]), 1e-5).tolist() == [True, False]
