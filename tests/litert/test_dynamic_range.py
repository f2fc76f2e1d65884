"""Operators with float32 activations and int8 weights, live: every bit of random models is LiteRT's.

Rows of activations are quantized at run time. A seed is a model, as in `test_operators.py`, which has the machines.
NPUSIM_EXAMPLES=300 tries that many of each operator.
"""

from __future__ import annotations

import os

import pytest

from npusim.frontends.tflite import reader as tflite
from npusim.machine.system import execute
from npusim.session.api import host_functions
from npusim.verification.litert import LiteRTError

from .live import by_litert, difference, needs_litert
from .rows import inputs_of, model
from .test_operators import compiled

SEEDS = int(os.environ.get("NPUSIM_EXAMPLES", "20"))
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
MOST_REFUSED = 0.05


@needs_litert
@pytest.mark.parametrize("code", CODES)
def test_machine_gives_the_bits_of_litert(code: str) -> None:
    refused = 0
    for seed in range(SEEDS):
        data = model(code, "dynamic", seed)
        graph = tflite.parse(data, code)
        inputs = inputs_of(
            [(graph.tensors[each].type.dtype, graph.tensors[each].type.shape) for each in graph.inputs], seed
        )
        try:
            expected = by_litert(data, inputs)
        except LiteRTError:
            refused += 1
            continue
        program = compiled(graph, small=seed % 2 == 1)
        if program is None:
            refused += 1
            continue
        outputs = execute(program, inputs, host_functions=host_functions(program)).outputs
        assert outputs is not None
        wrong = difference(list(outputs), expected)
        assert wrong is None, f"model({code!r}, 'dynamic', {seed}): {wrong}"
    assert refused <= MOST_REFUSED * SEEDS
