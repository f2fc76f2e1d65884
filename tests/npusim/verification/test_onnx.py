"""npusim verify beside ONNX Runtime: networks that are equal, codes that its float sums round, and faults put in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import npusim
from npusim.cli.typer_app import app
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.verification import exact, onnx_runtime, peers, verification
from npusim.verification.verdicts import Verdict

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'npusim[onnx]'")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: pip install 'npusim[onnx]'")

helper: Any = onnx.helper
FLOAT, INT8 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT8


def saved(path: Path, nodes: Sequence[Any], constants: dict[str, Array], batch: int | str = 1) -> Path:
    """x [batch, 4, 4, 4] -> y, both float32; every axis of the image has as many elements."""
    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info("x", FLOAT, [batch, 4, 4, 4])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return path


def of_floats(path: Path, batch: int | str = 1) -> Path:
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["conv"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"], name="relu"),
        helper.make_node("Transpose", ["relu"], ["turned"], name="turn", perm=[0, 3, 1, 2]),
        helper.make_node("Softmax", ["turned"], ["y"], name="soft"),
    ]
    weights = {"w": rng.normal(0, 1, (4, 4, 3, 3)), "b": rng.normal(0, 1, 4)}
    return saved(path, nodes, {name: array.astype(np.float32) for name, array in weights.items()}, batch)


def of_codes(path: Path) -> Path:
    """x -> QuantizeLinear -> QLinearConv -> DequantizeLinear -> y."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["codes"], name="codes"),
        helper.make_node(
            "QLinearConv",
            ["codes", "s", "z", "w", "t", "zw", "s", "z"],
            ["conv"],
            name="conv",
            pads=[1, 1, 1, 1],
        ),
        helper.make_node("DequantizeLinear", ["conv", "s", "z"], ["y"], name="reals"),
    ]
    constants: dict[str, Array] = {
        "s": np.array(0.02, np.float32),
        "z": np.array(3, np.int8),
        "w": rng.integers(-127, 128, (4, 4, 3, 3), np.int8),
        "t": np.array([0.001, 0.002, 0.003, 0.004], np.float32),
        "zw": np.zeros(4, np.int8),
    }
    return saved(path, nodes, constants)


def verdicts(path: Path, **how: Any) -> dict[str, Verdict]:
    return {row.layer: row.verdict for row in npusim.verify(path, **how).tensors}


def test_chains_of_float16_are_close(tmp_path: Path) -> None:
    """ONNX Runtime computes them in float32 and rounds at the end, npusim after every operator."""
    rng = np.random.default_rng(1)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["conv"], name="conv"),
        helper.make_node("Sigmoid", ["conv"], ["gate"], name="gate"),
        helper.make_node("Mul", ["conv", "gate"], ["y"], name="gated"),
    ]
    kinds = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT16, [1, 8, 9, 9]) for name in "xy"]
    weights = onnx.numpy_helper.from_array(rng.normal(0, 0.3, (8, 8, 1, 1)).astype(np.float16), "w")
    graph = helper.make_graph(nodes, "net", kinds[:1], kinds[1:], [weights])
    path = tmp_path / "halves.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    assert set(verdicts(path).values()) <= {"equal", "close"}
    assert "close" in verdicts(path).values()


def test_small_constants_beside_the_file(tmp_path: Path) -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"], name="flat")]
    path = saved(tmp_path / "net.onnx", nodes, {"shape": np.array([1, -1])})
    onnx.save(
        onnx.load(str(path)), str(path), save_as_external_data=True, location="net.bin", size_threshold=0
    )
    assert verdicts(path) == {"flat": "equal"}


def test_a_network_in_floats_is_close(tmp_path: Path) -> None:
    path = of_floats(tmp_path / "net.onnx", "batch")
    done = CliRunner().invoke(app, ["verify", str(path), "--shape", "batch=1", "--inputs", "3"])
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("net on edge-128 and in ONNX Runtime ")
    assert lines[0].endswith(" (graph optimizations disabled), 3 sets of inputs")
    assert "within 1e-5 of the largest" in lines[1]
    assert lines[-1] == "equal"


def test_a_network_in_codes_is_equal(tmp_path: Path) -> None:
    found = verdicts(of_codes(tmp_path / "net.onnx"), samples=5)
    assert {found[name] for name in ("codes", "conv", "y")} == {"equal"}


def test_inputs_may_be_given(tmp_path: Path) -> None:
    path = of_codes(tmp_path / "net.onnx")
    np.savez(tmp_path / "in.npz", x=np.ones((1, 4, 4, 4), np.float32))
    words = ["verify", str(path), "--input", str(tmp_path / "in.npz"), "--json", str(tmp_path / "f.json")]
    assert CliRunner().invoke(app, words).exit_code == 0
    found = json.loads((tmp_path / "f.json").read_text())
    assert (found["other"], found["equal"], found["samples"]) == ("ONNX Runtime", True, 1)
    done = CliRunner().invoke(app, [*words, "--inputs", "2"])
    assert (done.exit_code, done.stderr) == (
        2,
        "npusim: --inputs 2: draws inputs at random; --input gives one set\n",
    )


def test_a_layer_that_differs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One code of an operation on codes: there is nothing that ONNX Runtime could round on the way."""
    path = of_codes(tmp_path / "net.onnx")
    with_codes(monkeypatch, "conv", 1)
    found = npusim.verify(path)
    assert found.first is not None
    assert (found.first.layer, found.first.place, found.first.differing) == ("conv", "layer", 1)
    assert abs(found.first.npusim - found.first.other) == 1
    assert [row.layer for row in found.tensors if row.verdict == "different"] == ["conv"]
    done = CliRunner().invoke(app, ["verify", str(path)])
    assert done.exit_code == 1
    assert "npusim gives" in done.stdout
    assert "ONNX Runtime " in done.stdout.splitlines()[-1]


def with_codes(monkeypatch: pytest.MonkeyPatch, name: str, more: int) -> None:
    """A value of ONNX Runtime's with other bits in one element."""
    real = _RUN

    def run(self: onnx_runtime.Session, inputs: Sequence[Array]) -> dict[str, Array]:
        values: dict[str, Any] = dict(real(self, inputs))
        values[name] = values[name].copy()
        values[name].reshape(-1)[7] ^= more
        return values

    monkeypatch.setattr(onnx_runtime.Session, "run", run)


def test_what_differs_is_counted_for_equal_operands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value before the layer changes many of its results; the layer itself computes one element otherwise."""
    path = of_codes(tmp_path / "net.onnx")

    def run(self: onnx_runtime.Session, inputs: Sequence[Array]) -> dict[str, Array]:
        other = inputs[0].copy()
        other.reshape(-1)[0] += 1.0
        values: dict[str, Any] = dict(_RUN(self, [other]))
        values["conv"] = values["conv"].copy()
        values["conv"].reshape(-1)[7] ^= 1
        return values

    monkeypatch.setattr(onnx_runtime.Session, "run", run)
    rows = {row.layer: (row.verdict, row.differing) for row in npusim.verify(path).tensors}
    assert rows["conv"] == ("different", 1)


_RUN = onnx_runtime.Session.run


def group(path: Path) -> Path:
    """A convolution between DequantizeLinear and QuantizeLinear."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["codes"], name="codes"),
        helper.make_node("DequantizeLinear", ["codes", "s", "z"], ["real"], name="real"),
        helper.make_node("DequantizeLinear", ["w", "t", "z0"], ["weights"], name="weights"),
        helper.make_node("Conv", ["real", "weights"], ["conv"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", ["conv", "s", "z"], ["sums"], name="sums"),
        helper.make_node("DequantizeLinear", ["sums", "s", "z"], ["y"], name="reals"),
    ]
    constants: dict[str, Array] = {
        "s": np.array(0.02, np.float32),
        "z": np.array(3, np.int8),
        "z0": np.array(0, np.int8),
        "w": rng.integers(-127, 128, (4, 4, 3, 3), np.int8),
        "t": np.array(0.002, np.float32),
    }
    return saved(path, nodes, constants)


def _no_value(*_: Any) -> Any:
    raise RuntimeError("the reference evaluator lacks an operation")


def test_codes_of_a_group_that_float_sums_round_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A code more in one element of a group is what ONNX Runtime's own sums give; two codes more are a difference."""
    path = group(tmp_path / "net.onnx")
    assert npusim.verify(path, samples=5).equal
    with_codes(monkeypatch, "sums", 1)
    found = npusim.verify(path)
    assert found.equal
    assert [(row.tensor, row.differing) for row in found.tensors if row.verdict == "rounded"] == [("sums", 1)]
    done = CliRunner().invoke(app, ["verify", str(path)])
    assert (
        "1 rounded (ONNX Runtime rounds 1 of 64 sums the other way; npusim has the exact value)"
        in done.stdout
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact.Evaluator, "_value", _no_value)
        done = CliRunner().invoke(app, ["verify", str(path)])
    assert "1 rounded (1 code one apart, where ONNX Runtime adds up in float32)" in done.stdout
    with_codes(monkeypatch, "sums", 4)
    assert not npusim.verify(path).equal


def test_values_are_taken_in_the_order_that_is_nearer() -> None:
    builder = GraphBuilder("net")
    graph = builder.graph([builder.input("x", TensorType("int8", (1, 2, 2, 2)))])
    value = np.arange(8, dtype=np.int8).reshape(1, 2, 2, 2)
    for ours in (value, value.transpose(0, 2, 3, 1)):
        assert np.array_equal(verification.by_number(graph, {"x": value}, {0: ours})[0], ours)
    assert verification.by_number(graph, {"x": value.astype(np.int16)}, {0: value}) == {}
    assert verification.by_number(graph, {0: value}, {0: value}) == {0: value}


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"\x08\x07" + bytes(range(64)))
    with pytest.raises(NpusimError, match=r"bad\.onnx: is no ONNX model"):
        npusim.verify(tmp_path / "bad.onnx")
    path = of_floats(tmp_path / "net.onnx", "batch")
    assert npusim.verify(path).compared_bytes > 0  # an open batch is 1 in both
    monkeypatch.setattr(onnx_runtime, "find_spec", lambda name: None)
    with pytest.raises(
        NpusimError, match="verifying an ONNX model needs onnx, onnxruntime, which are not installed"
    ):
        npusim.verify(path)
    monkeypatch.setattr(peers, "_OPENED", {})
    with pytest.raises(NpusimError, match="is a model of ONNX; verify takes those of"):
        npusim.verify(path)


@pytest.mark.slow
@pytest.mark.cases(3)
@pytest.mark.filterwarnings("ignore::npusim.frontends.frontend.ModelWarning")
@pytest.mark.parametrize(
    "name",
    [
        *("mnist_qop_u8s8", "mobilenetv2_050_128_qop_u8u8", "magika_v3_3_dynamic", "resnet8_qdq_s8s8_pc"),
        *("ppocr_cls_qdq_u8s8_pc", "ppocrv6_tiny_det_qdq_s8s8_pc", "ultraface_320_qdq_s8s8"),
        *("bert_tiny_qdq_u16s8", "gpt_int4_blocked"),
    ],
)
def test_published_networks_are_equal_layer_by_layer(name: str, shared: Path) -> None:
    """Networks of every kind of quantization. Codes of 16 bits have steps as fine as float32 sums; of 8 bits one code
    of the 11 million bytes here is one off.
    """
    with np.load(shared / "onnx" / "golden" / f"{name}.npz") as archive:
        inputs = {key.removeprefix("in0_"): archive[key] for key in archive.files if key.startswith("in0_")}
    sizes = {key: array.shape for key, array in inputs.items()}
    found = npusim.verify(shared / "onnx" / "models" / f"{name}.onnx", inputs=inputs, sizes=sizes)
    assert found.equal, found.first
    assert found.count("equal") + found.count("close") + found.count("follows") > 0.7 * len(found.tensors)
    rounded = [row.differing for row in found.tensors if row.verdict == "rounded" and row.dtype != "uint16"]
    assert sum(rounded) <= 2
