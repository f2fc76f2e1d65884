"""The reference material of QDQ models: operator cases of ONNX Runtime, and whole models under the definition."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.frontends import frontend
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.file import hardware
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.reference import evaluate
from npusim.scheduler import compile_graph
from tests.npusim.frontends.onnx.cases import cases, families, outcome

SHARED = Path(__file__).parents[5] / "shared"
pytestmark = [
    pytest.mark.skipif(not (SHARED / "onnx").exists(), reason="../shared/onnx is not there"),
    pytest.mark.filterwarnings("ignore::npusim.frontends.frontend.ModelWarning"),
]

FLOAT_SUMS = {
    "qdq.Conv.16bit": 5,
    "qdq.Conv.int4w": 4,
    "qdq.LayerNormalization": 1,
    "qdq.Swish": 1,
}
"""Values where float32 numbers that ONNX Runtime adds up, or its functions, round to another code than exact ones: all
by
one code. Two of a million are of 8 bits; those of int4 weights here have scales whose products are half codes.
"""

MODELS = {
    "resnet8_qdq_s8s8_pc": 17,
    "ppocr_cls_qdq_u8s8_pc": 148,
    "ppocrv6_tiny_det_qdq_s8s8_pc": 210,
    "ultraface_320_qdq_s8s8": 89,
    "bert_tiny_qdq_u16s8": 80,
    "smart_turn_v3_2": 78,
}
"""How many code tensors of the file the graph has; those of ppocrv6 that it has not are before a Relu that the
convolution does.
"""


@pytest.mark.slow
@pytest.mark.cases(8)
@pytest.mark.parametrize(
    "family",
    [name for name in (families(SHARED) if (SHARED / "onnx").exists() else ()) if name.startswith("qdq.")],
)
def test_family(family: str) -> None:
    wrong, differing = {}, 0
    for case in cases(SHARED, family):
        text, values = outcome(case)
        differing += values
        if text and not (family in FLOAT_SUMS and values):
            wrong[case.name] = text
    assert not wrong
    assert differing <= FLOAT_SUMS.get(family, 0)


def golden(name: str) -> Mapping[str, Array]:
    """The inputs of a model and its outputs under the definition."""
    found = {}
    for file in (f"{name}.npz", f"{name}.def.npz"):
        with np.load(SHARED / "onnx/golden" / file) as archive:
            wanted = "out" if ".def." in file else "in"
            found |= {key: archive[key] for key in archive.files if key.startswith(wanted)}
    return found


def read(name: str) -> tuple[Graph, Mapping[str, Array]]:
    """The graph of a model, with the sizes of its golden inputs."""
    arrays = golden(name)
    sizes = {key[4:]: array.shape for key, array in arrays.items() if key.startswith("in0_")}
    return frontend.read(SHARED / f"onnx/models/{name}.onnx", sizes), arrays


def same(found: Any, wanted: Any) -> None:
    """Codes are equal, reals nearly."""
    assert found.dtype == wanted.dtype
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.slow
@pytest.mark.cases(2)
@pytest.mark.parametrize("name", MODELS)
def test_model(name: str) -> None:
    graph, arrays = read(name)
    for k in range(3):
        values = evaluate(graph, [arrays[f"in{k}_{graph.tensors[number].name}"] for number in graph.inputs])
        for number in graph.outputs:
            same(values[number], arrays[f"out{k}_{graph.tensors[number].name}"])
        if k == 0:
            assert compared_codes(graph, values, name) == MODELS[name]


def compared_codes(graph: Graph, values: Any, name: str) -> int:
    """How many code tensors are as the definition has them; an assertion fails at the first that is not."""
    said = json.loads((SHARED / f"onnx/golden/{name}.def.json").read_text())["crc32_codes_input0"]
    compared = set()
    for number, tensor in enumerate(graph.tensors):
        if tensor.name in said and (data := values[number]) is not None:
            orders = [data, data.transpose(0, 3, 1, 2)] if data.ndim == 4 else [data]
            sums = [zlib.crc32(np.ascontiguousarray(each).tobytes()) for each in orders]
            assert said[tensor.name] in sums, tensor.name
            compared.add(tensor.name)
    return len(compared)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet8_qdq_s8s8_pc", "ppocr_cls_qdq_u8s8_pc", "bert_tiny_qdq_u16s8"])
def test_model_on_the_machine(name: str) -> None:
    arrays = golden(name)
    inputs = {key[4:]: array for key, array in arrays.items() if key.startswith("in1_")}
    run = npusim.run(SHARED / f"onnx/models/{name}.onnx", inputs=inputs)
    wanted = [array for key, array in arrays.items() if key.startswith("out1_")]
    for found, each in zip(run.outputs or (), wanted, strict=True):
        same(found, each)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "resnet8_qdq_s8s8_pc",
        "ppocr_cls_qdq_u8s8_pc",
        "ppocrv6_tiny_det_qdq_s8s8_pc",
        "ultraface_320_qdq_s8s8",
    ],
)
def test_networks_of_8_bits_are_the_npus_but_for_their_input(name: str) -> None:
    graph, _ = read(name)
    program = compile_graph(graph, hardware("edge-128"))
    assert [layer.op for layer in program.layers if layer.unit == "host"] == ["quantize"]


def test_resnet8_takes_what_its_twin_of_tensorflow_lite_takes() -> None:
    """The nine convolutions are the same ones; scales of 4 bytes, not 5, and no ReLU in those that are added up."""
    runs = [
        npusim.run(SHARED / path, timing_only=True)
        for path in ("onnx/models/resnet8_qdq_s8s8_pc.onnx", "models/mlperf_resnet8_int8.tflite")
    ]
    ours, theirs = (
        sum(layer.cycles for layer in run.layers if layer.op in ("conv_2d", "add", "fully_connected"))
        for run in runs
    )
    assert 0.9 < ours / theirs < 1.02
