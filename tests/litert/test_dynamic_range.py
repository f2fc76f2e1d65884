"""Operators with float32 activations and int8 weights, live: every bit of random models is LiteRT's.

Rows of activations are quantized at run time. A seed is a model, as in `test_operators.py`, which has the machines.
NPUSIM_EXAMPLES=300 tries that many of each operator, `make nightly` 150.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from npusim.frontends.tflite import reader as tflite
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.file import hardware
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Graph
from npusim.machine.system import execute
from npusim.scheduler import compile_graph
from npusim.session.api import host_functions
from npusim.verification.litert import LiteRTError
from tests.examples import tried

from .live import by_litert, difference, needs_litert
from .rows import inputs_of, model
from .test_operators import MOST_REFUSED, compiled

SEEDS = tried(6, 150)
WHOLE, BOTH = ("dynamic",), ("dynamic", "dynamic int4")
CODES: dict[str, tuple[str, ...]] = {
    "CONV_2D": BOTH,
    "DEPTHWISE_CONV_2D": WHOLE,
    "FULLY_CONNECTED": BOTH,
    "BATCH_MATMUL": WHOLE,
    "EMBEDDING_LOOKUP": BOTH,
    "SVDF": WHOLE,
    "RNN": WHOLE,
    "UNIDIRECTIONAL_SEQUENCE_RNN": WHOLE,
    "BIDIRECTIONAL_SEQUENCE_RNN": WHOLE,
    "LSTM": WHOLE,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": WHOLE,
    "BIDIRECTIONAL_SEQUENCE_LSTM": WHOLE,
}
"""LiteRT takes weights of 4 bits for some of them only."""
PUBLIC = Path(__file__).parents[3] / "shared" / "corpus" / "kws_ref_model_float32.tflite"


def drawn(data: bytes, name: str, seed: int) -> tuple[Graph, list[Array]]:
    """The graph of a file, and random inputs."""
    graph = tflite.parse(data, name)
    types = [graph.tensors[number].type for number in graph.inputs]
    return graph, inputs_of([(each.dtype, each.shape) for each in types], seed)


def run(program: Program, inputs: list[Array]) -> list[Array]:
    """The outputs on the machine."""
    outputs = execute(program, inputs, host_functions=host_functions(program)).outputs
    assert outputs is not None
    return list(outputs)


@needs_litert
@pytest.mark.parametrize(("code", "kind"), [(code, kind) for code, kinds in CODES.items() for kind in kinds])
def test_machine_gives_the_bits_of_litert(code: str, kind: str) -> None:
    refused = 0
    for seed in range(SEEDS):
        data = model(code, kind, seed)
        graph, inputs = drawn(data, code, seed)
        program = compiled(graph, small=seed % 2 == 1)
        try:
            expected = by_litert(data, inputs)
        except LiteRTError:
            expected = []
        if program is None or not expected:
            refused += 1
            continue
        wrong = difference(run(program, inputs), expected)
        assert wrong is None, f"model({code!r}, {kind!r}, {seed}): {wrong}"
    assert refused <= MOST_REFUSED * SEEDS


@needs_litert
@pytest.mark.parametrize("code", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL"])
def test_float_units_give_the_bits_of_litert(code: str) -> None:
    """They compute all but the scales of asymmetric rows, and products of matrices in batches."""
    on_npu = 0
    for seed in range(SEEDS):
        data = model(code, "dynamic", seed)
        graph, inputs = drawn(data, code, seed)
        try:
            program, expected = compile_graph(graph, hardware("edge-128-float")), by_litert(data, inputs)
        except (GraphError, LiteRTError):
            continue
        wrong = difference(run(program, inputs), expected)
        assert wrong is None, f"model({code!r}, 'dynamic', {seed}): {wrong}"
        by_host = [layer for layer in program.layers if layer.unit == "host"]
        on_npu += all("/row_scales" in layer.name for layer in by_host)
    assert on_npu


@needs_litert
@pytest.mark.skipif(not PUBLIC.exists(), reason=f"{PUBLIC}, a public model, is not there")
@pytest.mark.parametrize("preset", ["edge-128", "edge-128-float"])
def test_a_public_network_is_close_to_litert(preset: str) -> None:
    """Its convolutions have int8 weights. Its depthwise ones are float32, whose sums LiteRT rounds tap by tap."""
    data = PUBLIC.read_bytes()
    graph, inputs = drawn(data, PUBLIC.name, 1)
    dynamic = [node.op for node in graph.nodes if node.parameters.rescale == "dynamic"]
    assert dynamic == ["conv_2d"] * 5
    program = compile_graph(graph, hardware(preset))
    assert difference(run(program, inputs), by_litert(data, inputs), tolerance=1e-5) is None
