"""Float networks with int8 weights only: what becomes int8, that LiteRT computes the file's bytes, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.frontends.targets import TARGETS
from npusim.frontends.tflite import reader as tflite
from npusim.isa.base.errors import GraphError, NpusimError
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.reference import evaluate
from npusim.quantization.quantization import SCHEMES, quantize

from ...litert.live import by_litert, difference, needs_litert
from .test_quantization import Net, command

RNG = np.random.default_rng(5)


def reals(*shape: int, scale: float = 0.1) -> Any:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


@pytest.fixture(scope="module")
def network() -> Graph:
    """A convolution, a depthwise one, a small convolution, a fully connected layer."""
    net = Net()
    wide = net.add(
        "conv_2d", net.x, reals(32, 3, 3, 4), reals(32), padding=((1, 1), (1, 1)), activation="relu"
    )
    each = net.add("depthwise_conv_2d", wide, reals(1, 6, 6, 32), reals(32), padding=((2, 3), (2, 3)))
    small = net.add("conv_2d", each, reals(4, 1, 1, 32), reals(4), name="small")
    return net.graph(net.add("fully_connected", small, reals(10, 256), reals(10)))


def test_weights_become_int8_and_small_ones_stay(network: Graph, tmp_path: Path) -> None:
    """1,152 and 2,560 weights have a scale per channel or one; 128 are too few."""
    made = quantize(network, output=tmp_path / "net.tflite", scheme="dynamic")
    graph = tflite.parse((tmp_path / "net.tflite").read_bytes(), "net")
    scales = {}
    for node in graph.nodes:
        weights = graph.tensors[node.inputs[1] or 0].type
        scales[node.op, weights.dtype] = len(weights.quantization.scales) if weights.quantization else 0
    assert scales == {
        ("conv_2d", "int8"): 32,
        ("depthwise_conv_2d", "int8"): 32,
        ("conv_2d", "float32"): 0,
        ("fully_connected", "int8"): 1,
    }
    assert [(layer.layer, layer.reason) for layer in made.in_floats] == [
        ("small", "its weights have fewer than 1024 elements")
    ]
    assert (made.samples, made.losses) == (0, ())


@needs_litert
def test_litert_computes_the_same_file(tmp_path: Path) -> None:
    """No layer is left in float32, so that every bit is the same."""
    net = Net()
    wide = net.add(
        "conv_2d", net.x, reals(32, 3, 3, 4), reals(32), padding=((1, 1), (1, 1)), activation="relu6"
    )
    graph = net.graph(net.add("fully_connected", wide, reals(10, 2048), reals(10)))
    for number, every_channel in enumerate((False, True)):
        path = tmp_path / f"{number}.tflite"
        quantize(graph, output=path, scheme="dynamic", every_channel=every_channel)
        data = path.read_bytes()
        read = tflite.parse(data, "net")
        x = reals(1, 8, 8, 4, scale=2.0)
        values = evaluate(read, [x])
        assert difference([values[number] for number in read.outputs], by_litert(data, [x])) is None


def test_samples_say_what_it_costs(network: Graph) -> None:
    made = quantize(network, {"x": reals(6, 1, 8, 8, 4, scale=1.0)}, scheme="dynamic")
    assert made.samples == 6
    assert made.losses[0].snr_db > 30


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"scheme": "int16"}, "scheme 'int16': may be int8, int16x8, dynamic"),
        ({"scheme": "int16x8"}, "data: the scheme int16x8 needs samples"),
        ({}, "data: the scheme int8 needs samples, an npz file or arrays by input; dynamic needs none"),
        ({"scheme": "dynamic", "codes_outside": True}, "codes_outside: is not for the scheme dynamic"),
        ({"scheme": "dynamic", "output": "net.onnx"}, "net.onnx: ONNX has no dynamic range operators"),
    ],
)
def test_what_does_not_go_together_is_refused(network: Graph, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(NpusimError) as fault:
        quantize(network, **arguments)
    assert str(fault.value).startswith(words)


def test_a_quantized_network_is_refused(network: Graph) -> None:
    made = quantize(network, scheme="dynamic").graph
    assert made is not None
    for scheme in SCHEMES:
        with pytest.raises(NpusimError, match=r"has int8 weights \(dynamic range\): it is quantized already"):
            quantize(made, {"x": reals(2, 1, 8, 8, 4)}, scheme=scheme)


@pytest.mark.parametrize("name", ["onnx", "nnef", "hal"])
def test_other_formats_are_refused(network: Graph, name: str) -> None:
    """Their files would compute something else: the float network."""
    made = quantize(network, scheme="dynamic").graph
    assert made is not None
    [target] = [each for each in TARGETS if each.name == name]
    with pytest.raises(GraphError, match=f"^layers .*: {target.title} has no int8 weights"):
        target.written(made, f"net.{name}")


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from npusim.frontends.tflite.export import written

    net = Net()
    graph = net.graph(net.add("conv_2d", net.x, reals(32, 3, 3, 4), reals(32), name="conv"))
    (tmp_path / "net.tflite").write_bytes(written(graph))
    monkeypatch.chdir(tmp_path)
    status, output, _ = command("quantize", "net.tflite", "--scheme", "dynamic")
    assert status == 0
    assert output.splitlines()[0].startswith("net_dynamic.tflite: net with int8 weights as TensorFlow Lite")
    assert "1 of 1 have int8 weights" in output
    status, _, fault = command("quantize", "net.tflite")
    assert status == 2
    assert "--scheme int8 needs samples, --data F.npz" in fault
