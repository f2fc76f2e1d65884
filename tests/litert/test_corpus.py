"""Public files with int16 activations and int8 weights beside LiteRT: layers of SEANet of `../shared/corpus`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npusim.frontends.tflite import reader as tflite
from npusim.isa.hardware.file import hardware
from npusim.machine.system import execute
from npusim.scheduler import compile_graph
from npusim.session.api import host_functions

from .live import by_litert, difference, needs_litert
from .rows import inputs_of

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
FILES = sorted(CORPUS.glob("*conv*.tflite"))


@needs_litert
@pytest.mark.skipif(not FILES, reason=f"{CORPUS} with public models is not there")
def test_layers_of_a_public_network_have_the_bytes_of_litert() -> None:
    for path in FILES:
        data = path.read_bytes()
        graph = tflite.parse(data, path.name)
        types = [graph.tensors[index].type for index in graph.inputs]
        size = np.array(
            graph.tensors[graph.outputs[0]].type.shape, np.int32
        )  # a transposed convolution takes it
        values = inputs_of([(each.dtype, each.shape) for each in types], 1)
        inputs = [size if each.dtype == "int32" else data for each, data in zip(types, values, strict=True)]
        program = compile_graph(graph, hardware("edge-128"))
        outputs = execute(program, inputs, host_functions=host_functions(program)).outputs
        assert outputs is not None
        wrong = difference(list(outputs), by_litert(data, inputs))
        assert wrong is None, f"{path.name}: {wrong}"
