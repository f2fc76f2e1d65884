"""ONNX files of floats to int8: by ONNX Runtime where an ONNX file is written, by npusim where another is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import npusim
from npusim.cli.typer_app import app
from npusim.isa.base.errors import NpusimError
from npusim.quantization import onnx as by_onnx_runtime
from npusim.quantization.quantization import quantize
from npusim.verification import onnx_runtime

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'npusim[onnx]'")
onnxruntime = pytest.importorskip(
    "onnxruntime", reason="ONNX Runtime is not installed: pip install 'npusim[onnx]'"
)

RNG = np.random.default_rng(0)
SAMPLES = RNG.uniform(-1, 1, (20, 3, 8, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """x [batch, 3, 8, 8] -> Conv, Relu, Sin, GlobalAveragePool, Flatten, Gemm."""
    helper: Any = onnx.helper
    weights = {"w": (8, 3, 3, 3), "b": (8,), "u": (10, 8), "c": (10,)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["conv"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"], name="relu"),
        helper.make_node("Sin", ["relu"], ["sin"], name="waves"),
        helper.make_node("GlobalAveragePool", ["sin"], ["mean"], name="mean"),
        helper.make_node("Flatten", ["mean"], ["flat"], name="flat"),
        helper.make_node("Gemm", ["flat", "u", "c"], ["y"], name="sum", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 10])],
        [
            onnx.numpy_helper.from_array(RNG.normal(0, 0.3, shape).astype(np.float32), name)
            for name, shape in weights.items()
        ],
    )
    path = tmp_path_factory.mktemp("onnx") / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_onnx_runtime_writes_the_onnx_file(form: Any, net: Path, tmp_path: Path) -> None:
    made = quantize(net, {"x": SAMPLES}, tmp_path / "out.onnx", sizes={"batch": 1}, form=form)
    (loss,) = made.losses
    assert (made.samples, loss.output, loss.top_1) == (20, "y", 1.0)
    assert loss.snr_db > 30
    assert "Sin" in {layer.op for layer in made.in_floats} or form == "qdq"
    written = onnx.load(str(tmp_path / "out.onnx"))
    kinds = {node.op_type for node in written.graph.node}
    assert ("QLinearConv" in kinds) == (form == "qoperator")
    scales = {each.name: each for each in written.graph.initializer}["w_scale"]
    assert list(scales.dims) == [8]  # a scale per channel
    options = onnxruntime.SessionOptions()
    if form == "qdq" and onnx_runtime.saturates():
        # Optimized, its products are of uint8 by int8, whose sums saturate on this processor; else of floats.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        str(tmp_path / "out.onnx"), options, providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {"x": SAMPLES[:1]})
    (ours,) = npusim.run(tmp_path / "out.onnx", inputs=[SAMPLES[:1]], sizes={"batch": 1}).outputs
    assert np.abs(ours - found).max() <= 1.01 * loss.range / 255  # a code


def test_npusim_writes_other_files(net: Path, tmp_path: Path) -> None:
    made = quantize(net, {"x": SAMPLES}, tmp_path / "out.tflite", sizes={"batch": 1})
    assert (made.form, made.losses[0].top_1) == ("TensorFlow Lite", 1.0)
    assert [layer.layer for layer in made.in_floats] == ["waves"]
    assert npusim.load(tmp_path / "out.tflite").tensors[0].type.shape == (1, 3, 8, 8)


def test_the_command(net: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "samples.npz", x=SAMPLES)
    words = ["quantize", str(net), "--data", str(tmp_path / "samples.npz"), "-o", str(tmp_path / "out.onnx")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0
    assert done.stdout.endswith(f"next: npusim run {tmp_path / 'out.onnx'}\n")
    done = CliRunner().invoke(app, [*words, "--shape", "batch=1", "--json", str(tmp_path / "out.json")])
    assert (done.exit_code, done.stderr) == (0, "")
    assert "net in int8 as ONNX (QDQ)" in done.stdout
    assert done.stdout.endswith(f"next: npusim run {tmp_path / 'out.onnx'} --shape batch=1\n")
    assert json.loads((tmp_path / "out.json").read_text())["samples"] == 20


def test_what_is_refused(net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"batch": 1}
    for how, fault in (
        ({"codes_outside": True}, "codes_outside: is not for ONNX files, which ONNX Runtime quantizes"),
        ({"every_channel": True}, "every_channel: is not for ONNX files"),
        ({"form": "q"}, "form 'q': may be qdq, qoperator"),
    ):
        with pytest.raises(NpusimError, match=fault):
            quantize(net, {"x": SAMPLES}, tmp_path / "out.onnx", sizes=sizes, **how)  # type: ignore[arg-type]
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"\x08\x07" + bytes(range(64)))
    with pytest.raises(NpusimError, match=r"broken\.onnx: ONNX Runtime refuses the model: "):
        quantize(broken, {"x": SAMPLES}, tmp_path / "out.onnx")
    with pytest.raises(NpusimError, match=r"out\.onnx: ONNX Runtime does not quantize it: |shape \[20, 8\]"):
        quantize(net, {"x": SAMPLES[:, 0, 0]}, tmp_path / "out.onnx", sizes=sizes)
    monkeypatch.setattr(by_onnx_runtime, "find_spec", lambda name: None)
    with pytest.raises(
        NpusimError, match=r"quantizing an ONNX file needs onnx, onnxruntime, which are not installed: pip"
    ):
        quantize(net, {"x": SAMPLES}, tmp_path / "out.onnx", sizes=sizes)
    assert not (tmp_path / "out.onnx").exists()
