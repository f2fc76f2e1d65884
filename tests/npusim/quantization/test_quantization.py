"""Float networks to int8: which codes tensors get, what LiteRT makes of the file, what it costs, what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from npusim import models
from npusim.frontends.tflite import reader as tflite
from npusim.frontends.tflite.export import written
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.check import check
from npusim.kernels.graph.graph import Graph, Node
from npusim.kernels.graph.reference import evaluate
from npusim.kernels.operator.element_types import dequantize_values
from npusim.kernels.table import operator
from npusim.quantization.loss import losses
from npusim.quantization.quantization import ACTIVATIONS, SCHEMES, Scheme, quantize
from npusim.quantization.ranges import Range
from npusim.quantization.result import Quantized
from npusim.quantization.rules import INT16, NOT_INT8, RULES, RULES_INT16, Rule, Way
from npusim.quantization.scales import asymmetric, codes, symmetric

from ...command_line import command
from ...examples import NIGHT
from ...json_documents import faults
from ...litert.live import by_litert, difference, needs_litert
from ...litert.rows import ROWS, model
from ...litert.test_graphs import graph_of
from ...random_graphs import random_graph
from .floats import float_twin

RNG = np.random.default_rng(0)


def reals(*shape: int) -> Array:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


class Net:
    """A float network; `x` is [1, 8, 8, 4]."""

    def __init__(self) -> None:
        self.builder = GraphBuilder("net")
        self.x = self.builder.input("x", TensorType("float32", (1, 8, 8, 4)))

    def add(self, op: str, *operands: int | Array | None, name: str = "", **parameters: Any) -> int:
        """A layer with one result; arrays are constants."""
        numbers = [
            self.builder.constant(f"{name or op}_constant", one) if isinstance(one, np.ndarray) else one
            for one in operands
        ]
        how = operator(op).parameters(**parameters)
        return self.builder.node(op, numbers, [unshaped("float32")], how, name=name)[0]

    def graph(self, *outputs: int) -> Graph:
        return self.builder.graph(outputs)


def of(graph: Graph, samples: int = 5, **how: Any) -> Quantized:
    """The network quantized for samples between -2 and 2."""
    return quantize(graph, {"x": 2 * reals(samples, 8, 8, 4)}, **how)


def node(made: Quantized, name: str) -> Node:
    assert made.graph is not None
    return next(one for one in made.graph.nodes if one.name == name)


def scheme(made: Quantized, name: str) -> Quantization:
    """The codes of the first result of a layer."""
    assert made.graph is not None
    found = made.graph.tensors[node(made, name).outputs[0]].type
    assert found.dtype == "int8"
    assert found.quantization is not None
    return found.quantization


# Scales


@pytest.mark.parametrize(
    ("least", "most", "scale", "zero_point"),
    [
        (0.0, 255.0, 1.0, -128),
        (-1.0, 1.0, np.float32(2 / 255), -1),  # -128 + 127.5, rounded away from zero
        (-1.0, 3.0, np.float32(4 / 255), -64),  # -128 + 63.75
        (2.0, 5.1, np.float32(5.1 / 255), -128),  # widened to hold zero
        (-5.1, -2.0, np.float32(5.1 / 255), 127),
        (0.0, 0.0, 1.0, 0),
    ],
)  # fmt: skip
def test_codes_of_a_range(least: float, most: float, scale: float, zero_point: int) -> None:
    found = asymmetric(Range(least, most))
    assert found.scale == pytest.approx(float(scale), rel=1e-7)
    assert found.zero_point == zero_point


def test_codes_of_weights() -> None:
    weights = np.array([[-1.27, 0.5], [0.0, 0.0], [0.0635, 0.01]], np.float32)
    scales = symmetric(weights, 0)
    assert scales.tolist() == pytest.approx([0.01, 1.0, 0.0005], rel=1e-6)
    whole = Quantization(tuple(scales.tolist()), (0, 0, 0), 0)
    assert codes(weights, whole, "int8").tolist() == [[-127, 50], [0, 0], [127, 20]]
    assert symmetric(weights, None).tolist() == pytest.approx([0.01], rel=1e-6)
    half = Quantization((1.0,), (3,))
    assert codes(np.array([0.5, -0.5, 1.5, 900], np.float32), half, "int8").tolist() == [4, 2, 5, 127]


@pytest.mark.parametrize(("dtype", "table"), [("int8", RULES), ("int16", RULES_INT16)])
def test_every_operator_that_becomes_codes_is_one_of_litert(dtype: str, table: Mapping[str, Rule]) -> None:
    """The rows beside which npusim is compared with LiteRT live take the element type for each of them."""
    from npusim.frontends.tflite.operators import OPERATORS

    for op, rule in table.items():
        kinds = [kind for kind, row in OPERATORS.items() if row.op == op and kind in ROWS]
        assert any(dtype in ROWS[kind].dtypes for kind in kinds), op
        assert (rule.way is Way.FIXED) == (rule.fixed is not None)
        assert any(dtype in row.partition(" -> ")[0] for row in operator(op).types), op


# Which tensors share codes


def test_what_only_moves_has_the_codes_of_what_it_takes() -> None:
    net = Net()
    borders = ((0, 0), (1, 1), (1, 1), (0, 0))
    padded = net.add("pad", net.x, name="pad", paddings=borders)
    pooled = net.add("max_pool_2d", padded, name="pool", filter=(2, 2), strides=(2, 2))
    made = of(net.graph(net.add("reshape", pooled, name="flat", shape=(1, 100))))
    assert scheme(made, "pad") == scheme(made, "pool") == scheme(made, "flat")
    assert made.in_floats == ()
    assert made.graph is not None
    assert [one.op for one in made.graph.nodes] == ["quantize", "pad", "max_pool_2d", "reshape", "dequantize"]


def test_what_borders_hold_is_a_code() -> None:
    net = Net()
    padded = net.add("pad", net.x, name="pad", paddings=((0, 0), (1, 1), (0, 0), (0, 0)), pad_value=5.0)
    made = of(net.graph(padded))
    found = scheme(made, "pad")
    assert round(5.0 / found.scale) + found.zero_point == 127  # the largest of the range, which holds it
    assert node(made, "pad").parameters.pad_value == 127  # type: ignore[attr-defined]
    assert made.losses[0].largest < found.scale


def test_what_meets_in_a_concatenation_shares_its_codes_unless_these_are_fixed() -> None:
    net = Net()
    wide = net.add("mul", net.x, np.full((1,), 3, np.float32), name="wide")
    small = net.add("mul", net.x, np.full((1,), 0.5, np.float32), name="small")
    fixed = net.add("logistic", net.x, name="fixed")
    made = of(net.graph(net.add("concatenation", wide, small, fixed, name="all", axis=3)))
    assert scheme(made, "wide") == scheme(made, "small") == scheme(made, "all")
    assert scheme(made, "fixed") == Quantization((1 / 256,), (-128,))
    assert [one.op for one in made.graph.nodes if one.op == "quantize"] == [
        "quantize"
    ] * 2  # of x, and of fixed
    assert made.losses[0].snr_db > 40


@pytest.mark.parametrize(
    ("op", "expected"),
    [("softmax", (1 / 256, -128)), ("logistic", (1 / 256, -128)), ("tanh", (1 / 128, 0)),
     ("l2_normalization", (1 / 128, 0)), ("log_softmax", (16 / 256, 127))],
)  # fmt: skip
def test_codes_that_are_the_same_in_every_model(op: str, expected: tuple[float, int]) -> None:
    net = Net()
    made = of(net.graph(net.add("reshape", net.add(op, net.x, name="f"), name="moved", shape=(1, 256))))
    assert scheme(made, "f") == scheme(made, "moved") == Quantization(expected[:1], expected[1:])


def test_weights_have_a_scale_per_channel_and_biases_that_of_the_products() -> None:
    net = Net()
    x = net.add("conv_2d", net.x, reals(3, 1, 1, 4), reals(3), name="conv")
    x = net.add("depthwise_conv_2d", x, reals(1, 3, 3, 3), None, name="each")
    x = net.add("fully_connected", x, reals(5, 108), reals(5), name="sum")
    for every_channel in (False, True):
        made = of(net.graph(x), every_channel=every_channel)
        assert made.graph is not None
        kinds = {
            name: [made.graph.tensors[number or 0].type for number in node(made, name).inputs]
            for name in ("conv", "each", "sum")
        }
        found = {name: [kind.quantization for kind in kinds[name]] for name in kinds}
        assert [len(found[name][1].scales) for name in found] == [3, 3, 5 if every_channel else 1]  # type: ignore[union-attr]
        assert [found[name][1].axis for name in found] == [0, 3, 0 if every_channel else None]  # type: ignore[union-attr]
        assert [kinds[name][-1].dtype for name in ("conv", "sum")] == ["int32"] * 2
        data, weights, bias = found["conv"]
        assert data is not None and weights is not None and bias is not None  # noqa: PT018
        assert bias.scales == tuple(float(np.float32(data.scale * scale)) for scale in weights.scales)


def test_a_bias_that_32_bits_would_not_hold_widens_the_scale_of_the_weights() -> None:
    net = Net()
    weights = np.full((1, 1, 1, 4), 1e-9, np.float32)
    made = of(net.graph(net.add("conv_2d", net.x, weights, np.full(1, 30, np.float32), name="conv")))
    assert made.losses[0].largest < 0.13
    assert made.in_floats == ()


def test_batch_normalizations_and_activations_become_parts_of_layers() -> None:
    net = Net()
    x = net.add("conv_2d", net.x, reals(3, 1, 1, 4), reals(3), name="conv")
    variance = np.abs(reals(3)) + 0.5
    x = net.add("batch_normalization", x, reals(3), reals(3), reals(3), variance, name="normal", axis=3)
    x = net.add("relu6", x, name="last")
    made = of(net.graph(x))
    assert made.graph is not None
    assert [one.op for one in made.graph.nodes] == ["quantize", "conv_2d", "dequantize"]
    assert node(made, "conv").parameters.activation == "relu6"  # type: ignore[attr-defined]
    assert made.losses[0].snr_db > 35


def test_a_layer_that_tflite_has_in_floats_only_stays_between_conversions() -> None:
    net = Net()
    waves = net.add("sin", net.add("relu", net.x, name="before"), name="waves")
    made = of(net.graph(net.add("relu", waves, name="behind")))
    assert made.graph is not None
    assert [one.op for one in made.graph.nodes] == [
        "quantize", "relu", "dequantize", "sin", "quantize", "relu", "dequantize",
    ]  # fmt: skip
    assert [(layer.layer, layer.op, layer.reason) for layer in made.in_floats] == [("waves", "sin", NOT_INT8)]
    assert made.layers == 3


def test_weights_that_are_computed_stay_in_floats() -> None:
    net = Net()
    weights = net.add("reshape", net.x, name="weights", shape=(64, 4))
    made = of(net.graph(net.add("fully_connected", net.x, weights, None, name="product")))
    assert [layer.reason for layer in made.in_floats] == ["its weights or its bias are computed"]


def test_constants_that_are_not_finite_keep_their_layer_in_float() -> None:
    """Masks of attention hold -inf: no scale spans it."""
    net = Net()
    mask = np.array([0, -np.inf, 1, 2], np.float32)
    masked = net.add("maximum", net.x, mask, name="masked")
    made = of(net.graph(net.add("relu", masked, name="relu")))
    assert [(layer.layer, layer.reason) for layer in made.in_floats] == [
        ("masked", 'its constant "masked_constant" is not finite everywhere, so it has no range')
    ]
    assert node(made, "relu").op == "relu"


def test_a_rule_that_codes_break_leaves_the_layer_in_floats() -> None:
    net = Net()
    tiny = net.add("mul", net.x, np.full(1, 1e-30, np.float32), name="tiny")
    huge = net.add("mul", tiny, np.full(1, 1e30, np.float32), name="huge")
    made = of(net.graph(net.add("conv_2d", huge, reals(2, 1, 1, 4), None, name="conv")))
    assert {layer.layer for layer in made.in_floats} <= {"tiny", "huge"}
    assert all(layer.reason.startswith("in codes: ") for layer in made.in_floats)
    assert made.losses[0].snr_db > 30


def test_ends_are_reals_or_codes_and_keep_their_names() -> None:
    net = Net()
    graph = net.graph(net.add("relu", net.x, name="y"))
    for outside, dtype in ((False, "float32"), (True, "int8")):
        made = of(graph, codes_outside=outside).graph
        assert made is not None
        ends = [made.tensors[number] for number in (*made.inputs, *made.outputs)]
        assert [(end.name, end.type.dtype) for end in ends] == [("x", dtype), ("y", dtype)]
        assert len({tensor.name for tensor in made.tensors}) == len(made.tensors)


# Beside LiteRT


@pytest.mark.slow
@needs_litert
@pytest.mark.parametrize(("kind", "noise_db"), [("int8", 20), ("int16x8", 30)])
def test_random_networks_are_the_same_in_litert(kind: Scheme, noise_db: int) -> None:
    """Random networks in codes, as reals, quantized again: LiteRT computes the same bytes of the file."""
    compared = 0
    for seed in range(30):
        graph = graph_of(random_graph, seed)
        if any(one.op == "quantize" for one in graph.nodes):
            continue  # of which reals have none
        twin = float_twin(graph)
        types = [twin.tensors[number].type for number in twin.inputs]
        rng = np.random.default_rng(seed)
        data = {
            f"in{i}": rng.uniform(-4, 4, (3, *each.shape)).astype(np.float32) for i, each in enumerate(types)
        }
        made = quantize(twin, data, scheme=kind)
        assert made.graph is not None
        sample = [values[0] for values in data.values()]
        ours = evaluate(made.graph, sample)
        found = by_litert(written(made.graph), sample)
        assert difference([ours[number] for number in made.graph.outputs], found) is None, seed
        assert all(loss.snr_db > noise_db for loss in made.losses), seed
        compared += 1
    assert compared > 20


NOT_COMPARED = {"ELU", "DIV"}
"""LiteRT's reference kernels lack the one, and refuse to divide by the code of zero, which a random divisor has."""


@pytest.mark.slow
@needs_litert
@pytest.mark.parametrize("kind", SCHEMES[:2])
def test_every_operator_of_floats_is_the_same_in_litert(kind: Scheme) -> None:
    """The random models in floats that npusim and LiteRT compute live, quantized; some stay in floats."""
    rules = ACTIVATIONS[kind].rules
    in_codes = set()
    for code, row in ROWS.items():
        if "float32" not in row.dtypes or code in NOT_COMPARED:
            continue
        for seed in range(5 if NIGHT else 2):
            graph = check(tflite.parse(model(code, "float32", seed), code))
            if graph.states or not any(
                graph.tensors[number].type.dtype == "float32" for one in graph.nodes for number in one.outputs
            ):
                continue
            rng = np.random.default_rng(seed)
            data: dict[str, Any] = {}
            for position, number in enumerate(graph.inputs):
                held = graph.tensors[number].type
                shape = (3, *held.shape)
                drawn = rng.uniform(0.1, 2, shape) if held.real else rng.integers(0, 2, shape)
                data[f"in{position}"] = drawn.astype(held.dtype)
            made = quantize(graph, data, scheme=kind)
            assert made.graph is not None
            if made.in_floats:
                assert all(layer.op not in rules for layer in made.in_floats), code
                continue
            sample = [values[0] for values in data.values()]
            ours = evaluate(made.graph, sample)
            found = by_litert(written(made.graph), sample)
            assert difference([ours[number] for number in made.graph.outputs], found) is None, (code, seed)
            in_codes.add(code)
    assert len(in_codes) > {"int8": 60, "int16x8": 50}[kind]


@pytest.fixture(scope="module")
def digits() -> tuple[Graph, Array, Array]:
    """The built-in classifier in floats, its 200 test images as reals, and their labels."""
    graph = npusim.load("digits_cnn")
    images, labels = models.digits_test()
    kind = graph.tensors[graph.inputs[0]].type
    return float_twin(graph), dequantize_values(images.reshape(-1, *kind.shape[1:]), kind), labels


@pytest.mark.slow
def test_a_classifier_classifies_as_before(digits: tuple[Graph, Array, Array], tmp_path: Path) -> None:
    graph, images, labels = digits
    made = npusim.quantize(graph, {"in0": images[:50]}, tmp_path / "digits.tflite")
    (loss,) = made.losses
    assert made.in_floats == ()
    assert (made.samples, made.form) == (50, "TensorFlow Lite")
    assert loss.top_1 == 1.0
    assert loss.snr_db > 40
    assert loss.cosine > 0.9999
    assert loss.mean <= loss.largest < 0.03
    before, after = made.constant_bytes
    assert 3.5 < before / after < 4
    assert made.file_bytes == (tmp_path / "digits.tflite").stat().st_size
    program = npusim.compile(npusim.load(tmp_path / "digits.tflite"))
    right = sum(
        int(npusim.simulate(program, [image[None]]).outputs[0].argmax()) == label
        for image, label in zip(images[:40], labels[:40], strict=True)
    )
    assert right >= 38


@pytest.mark.slow
@needs_litert
def test_its_file_is_the_same_in_litert_layer_by_layer(
    digits: tuple[Graph, Array, Array], tmp_path: Path
) -> None:
    graph, images, _ = digits
    for outside in (False, True):
        quantize(graph, {"in0": images[:10]}, tmp_path / "digits.tflite", codes_outside=outside)
        assert npusim.verify(tmp_path / "digits.tflite", samples=3).equal


# Losses


def test_losses() -> None:
    floats = [np.array([[1.0, 2.0, 2.0]], np.float32), np.array([[0.0, 3.0, -1.0]], np.float32)]
    found = [np.array([[1.0, 2.0, 1.0]], np.float32), np.array([[0.0, 3.0, -1.0]], np.float32)]
    (loss,) = losses(["y"], [[each] for each in floats], [[each] for each in found])
    assert (loss.largest, loss.mean, loss.range) == (1.0, pytest.approx(1 / 6), 4.0)
    assert loss.snr_db == pytest.approx(10 * np.log10(19))  # 1 + 4 + 4 + 9 + 1 over 1
    assert loss.cosine == pytest.approx(17 / np.sqrt(19 * 16))
    assert loss.top_1 == 1.0
    (same,) = losses(["y"], [[floats[0]]], [[floats[0]]])
    assert (same.snr_db, same.cosine, same.to_dict()["snr_db"]) == (np.inf, pytest.approx(1.0), None)
    (image,) = losses(["y"], [[np.zeros((1, 2, 2, 3), np.float32)]], [[np.zeros((1, 2, 2, 3), np.float32)]])
    assert (image.top_1, image.cosine) == (None, 1.0)
    (wrong,) = losses(["y"], [[np.eye(3, dtype=np.float32)]], [[np.eye(3, dtype=np.float32)[[0, 2, 2]]]])
    assert wrong.top_1 == pytest.approx(2 / 3)


# The command, and what is refused


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A float network as a file, and samples."""
    made = Net()
    x = made.add("conv_2d", made.x, reals(3, 1, 1, 4), reals(3), name="conv")
    x = made.add("sin", x, name="waves")
    mean = made.add("mean", x, name="mean", axes=(1, 2), keep_dims=False)
    (tmp_path / "net.tflite").write_bytes(written(made.graph(made.add("softmax", mean, name="classes"))))
    np.savez(tmp_path / "samples.npz", x=reals(6, 8, 8, 4))
    return tmp_path


@pytest.mark.slow
def test_the_command_says_what_it_costs_and_what_to_run_next(net: Path) -> None:
    words = ("quantize", net / "net.tflite", "--data", net / "samples.npz")
    status, said, errors = command(*words, "-o", net / "out.tflite", "--json", net / "out.json")
    assert (status, errors) == (0, "")
    lines = said.splitlines()
    assert lines[0].startswith(f"{net / 'out.tflite'}: net in int8 as TensorFlow Lite, ")
    assert lines[2] == "  layers     3 of 4 compute in int8"
    assert lines[3] == f'  in floats  sin "waves": {NOT_INT8}'
    assert lines[4].startswith('  output     "classes": off by ')
    assert lines[4].endswith("of 6 samples")
    run = npusim.run(net / "out.tflite", timing_only=True)
    ends = [layer for layer in (run.layers[0], run.layers[-1]) if layer.op in ("quantize", "dequantize")]
    assert len(ends) == 2
    share = sum(layer.time_us for layer in ends) / run.latency_ms / 10
    assert lines[5].startswith("  outside    float32 inputs and outputs: converting them takes ")
    assert lines[5].endswith(f" on edge-128 ({share:.1f} %); --io int8 leaves it out")
    assert lines[6] == f"next: npusim run {net / 'out.tflite'}"
    found = json.loads((net / "out.json").read_text())
    assert not faults("quantization", found)
    assert found["in_floats"] == [{"layer": "waves", "op": "sin", "reason": NOT_INT8}]
    assert found["losses"][0]["output"] == "classes"
    assert found["file_bytes"] == (net / "out.tflite").stat().st_size
    assert command("run", net / "out.tflite")[0] == 0
    status, said, _ = command(*words, "-o", net / "out.tgz", "--io", "int8")
    assert status == 0
    assert "outside" not in said
    again = npusim.load(net / "out.tgz")
    assert again.tensors[again.inputs[0]].type.dtype == "int8"


def test_int16_activations_are_symmetric_beside_int8_weights(
    net: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(net)
    words = ("quantize", "net.tflite", "--data", "samples.npz", "--scheme", "int16x8")
    status, said, _ = command(*words)
    assert status == 0
    lines = said.splitlines()
    assert lines[0].startswith(
        "net_int16x8.tflite: net with int16 activations and int8 weights as TensorFlow Lite"
    )
    assert lines[2] == "  layers     3 of 4 compute in int16"
    assert lines[3] == f'  in floats  sin "waves": {INT16.float_only}'
    assert lines[5].endswith("--io int16 leaves it out")
    graph = npusim.load("net_int16x8.tflite")
    [conv] = [each for each in graph.nodes if each.op == "conv_2d"]
    kinds = [graph.tensors[number or 0].type for number in (*conv.inputs, *conv.outputs)]
    assert [kind.dtype for kind in kinds] == ["int16", "int8", "int64", "int16"]
    assert all(kind.quantization and set(kind.quantization.zero_points) == {0} for kind in kinds)
    assert len(kinds[1].quantization.scales) == 3  # type: ignore[union-attr]
    status, said, _ = command(*words, "--io", "int16", "-o", "coded.tflite")
    assert status == 0
    coded = npusim.load("coded.tflite")
    assert {coded.tensors[number].type.dtype for number in (*coded.inputs, *coded.outputs)} == {"int16"}


def test_a_file_that_is_not_named_is_called_after_the_model(
    net: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(net)
    status, said, _ = command("quantize", "net.tflite", "--data", "samples.npz")
    assert (status, said.splitlines()[-1]) == (0, "next: npusim run net_int8.tflite")
    assert (net / "net_int8.tflite").exists()


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--io", "half"], "--io half: may be float, int8, int16"),
        (["--io", "int16"], "--io int16: is not for --scheme int8, whose activations are int8"),
        (["--scheme", "int16"], "--scheme int16: may be int8, int16x8, dynamic"),
        (["--form", "q"], "--form q: may be qdq, qoperator"),
        (["--form", "qoperator"], "form qoperator: is of ONNX files that become ONNX files"),
        (["--shape", "y=1"], 'no input and no size is named "y"; there are "x"'),
        (["-o", "net.tflite"], "give each a file of its own"),
    ],
)
def test_options_that_are_refused(
    words: list[str], fault: str, net: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(net)
    output = [] if "-o" in words else ["-o", "out.tflite"]
    status, _, said = command("quantize", "net.tflite", "--data", "samples.npz", *output, *words)
    assert status == 2
    assert fault in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("arrays", "fault"),
    [
        ({"x": reals(8, 8, 4)}, 'samples of "x": shape [8, 8, 4], n samples are [n, 1, 8, 8, 4] or [n, 8, 8, 4]: the '
         "first axis counts the samples"),
        ({"x": reals(3, 8, 4, 4)}, "n samples are [n, 1, 8, 8, 4] or [n, 8, 8, 4]"),
        ({"x": reals(0, 8, 8, 4)}, 'samples of "x": there is none'),
        ({"y": reals(3, 8, 8, 4)}, 'input "y": the model has no such input'),
        ({"x": np.zeros((3, 8, 8, 4), np.int8)}, 'samples of "x": values of int8, the model takes float32'),
        ({"x": np.full((1, 8, 8, 4), np.nan, np.float32)}, 'sample 0: "x" is not finite everywhere'),
    ],
)  # fmt: skip
def test_samples_that_do_not_fit(arrays: dict[str, Array], fault: str, net: Path) -> None:
    np.savez(net / "bad.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(NpusimError) as raised:
        quantize(net / "net.tflite", net / "bad.npz")
    assert fault in str(raised.value)
    with pytest.raises(NpusimError) as raised:
        quantize(net / "net.tflite", arrays)
    assert fault in str(raised.value)


def test_samples_may_have_a_batch_of_one_and_wider_reals(net: Path) -> None:
    values = reals(3, 8, 8, 4).astype(np.float64)
    one, two = (quantize(net / "net.tflite", {"x": each}) for each in (values, values[:, None]))
    assert one.to_dict() == two.to_dict()


def test_inputs_have_as_many_samples() -> None:
    builder = GraphBuilder("two")
    a, b = (builder.input(name, TensorType("float32", (1, 4))) for name in "ab")
    graph = builder.graph(builder.node("add", [a, b], [unshaped("float32")], operator("add").parameters()))
    with pytest.raises(NpusimError, match='samples: inputs have as many; here are "a" 3, "b" 2'):
        quantize(graph, {"a": reals(3, 4), "b": reals(2, 4)})


def test_networks_that_are_refused() -> None:
    with pytest.raises(NpusimError, match="computes in codes: it is quantized already"):
        quantize("digits_cnn", {"in0": reals(1, 8, 8, 1)})
    builder = GraphBuilder("whole")
    kind = TensorType("int32", (1, 4))
    (y,) = builder.node("add", [builder.input("a", kind)] * 2, [kind], operator("add").parameters())
    with pytest.raises(NpusimError, match="whole: computes nothing in float32"):
        quantize(builder.graph([y]), {"a": np.zeros((1, 4), np.int32)})
    sized = GraphBuilder("sized")
    x, w = sized.input("x", TensorType("float32", (1, 4))), sized.sized("w", TensorType("float32", (2, 4)))
    (y,) = sized.node(
        "fully_connected", [x, w, None], [unshaped("float32")], operator("fully_connected").parameters()
    )
    with pytest.raises(NpusimError, match='constant "w" is known by its size only'):
        quantize(sized.graph([y]), {"x": reals(1, 4)})
