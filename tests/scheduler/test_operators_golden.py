"""Single operators, byte by byte: TFLite models of one operator against the outputs of the LiteRT reference kernels.

Each model is read, compiled and run on the machine: on the preset edge-128, and on the same with 4 KiB of
scratchpad, where few fit without being cut.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from npusim.frontends.tflite import reader as tflite
from npusim.isa.base.errors import CompileError
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.file import change, hardware
from npusim.kernels.graph.graph import Graph
from npusim.machine.system import execute
from npusim.scheduler import compile_graph
from npusim.session.api import host_functions

CASES = 40
"""Cases of an operator and a type."""

FEWER_CASES = {"DIV": 26, "MIRROR_PAD": 36}

ON_HOST = {
    "ABS": 0,
    "ADD": 0,
    "ARG_MAX": 0,
    "ARG_MIN": 0,
    "AVERAGE_POOL_2D": 0,
    "BATCH_MATMUL": 0,
    "BATCH_TO_SPACE_ND": 0,
    "CONCATENATION": 0,
    "CONV_2D": 0,
    "DEPTHWISE_CONV_2D": 0,
    "DEPTH_TO_SPACE": 0,
    "DEQUANTIZE": 0,
    "DIV": 0,
    "EQUAL": 0,
    "FULLY_CONNECTED": 0,
    "GATHER": 0,
    "GELU": 0,
    "GREATER": 0,
    "GREATER_EQUAL": 0,
    "HARD_SWISH": 0,
    "L2_NORMALIZATION": 0,
    "LEAKY_RELU": 0,
    "LESS": 0,
    "LESS_EQUAL": 0,
    "LOGISTIC": 0,
    "LOG_SOFTMAX": 0,
    "MAXIMUM": 0,
    "MAX_POOL_2D": 0,
    "MEAN": 0,
    "MINIMUM": 0,
    "MIRROR_PAD": 0,
    "MUL": 0,
    "NOT_EQUAL": 0,
    "PAD": 0,
    "PADV2": 0,
    "PRELU": 0,
    "QUANTIZE": 18,  # of float32
    "REDUCE_MAX": 0,
    "REDUCE_MIN": 0,
    "RELU": 0,
    "RELU6": 0,
    "RESIZE_BILINEAR": 0,
    "RESIZE_NEAREST_NEIGHBOR": 0,
    "RSQRT": 0,
    "SLICE": 0,
    "SOFTMAX": 0,
    "SPACE_TO_BATCH_ND": 0,
    "SPACE_TO_DEPTH": 0,
    "SQUARED_DIFFERENCE": 0,
    "STRIDED_SLICE": 0,
    "SUB": 0,
    "SUM": 0,
    "TANH": 0,
    "TILE": 0,
    "TRANSPOSE": 0,
    "TRANSPOSE_CONV": 0,
}
"""The operators that npusim has, and how many cases of each the host runs: all others run on the NPU."""

UINT8_ON_HOST = {
    "LOG_SOFTMAX": CASES,  # LiteRT computes it in float32
    "RESIZE_BILINEAR": 21,  # with results at or near ties, which LiteRT rounds as float32 has them
}
"""Of uint8, where it is not as many."""

REFUSED = {
    "ADD": 2,
    "FULLY_CONNECTED": 4,
    "MAXIMUM": 2,
    "MINIMUM": 2,
    "MUL": 2,
    "SUB": 2,
}
"""How many cases may not fit 4 KiB at all."""


def cases(shared: Path, name: str) -> Iterator[tuple[str, Graph, list[Array], list[Array]]]:
    """(name, graph, inputs, expected outputs) of every case of an operator and type."""
    stem = shared / "ops_litert_ref" / name
    with np.load(f"{stem}.npz") as arrays:
        for entry in json.loads(Path(f"{stem}.json").read_text())["cases"]:
            tensors = entry["tensors"]
            graph = tflite.parse(arrays[f"c{entry['case']}_model"].tobytes(), f"{name}[{entry['case']}]")
            inputs = [arrays[tensors[i]["key"]] for i in entry["inputs"] if tensors[i]["role"] == "input"]
            yield graph.name, graph, inputs, [arrays[tensors[i]["key"]] for i in entry["outputs"]]


ONE_TYPE = {
    **dict.fromkeys(("ABS", "BATCH_MATMUL", "RSQRT", "SQUARED_DIFFERENCE"), ("int8",)),
    "SUM": ("uint8",),
}
"""Operators of which there are cases of one type only."""


@pytest.mark.cases(12)
@pytest.mark.parametrize(
    ("operator", "dtype"),
    [(name, dtype) for name in ON_HOST for dtype in ONE_TYPE.get(name, ("int8", "uint8"))],
)
def test_machine_gives_the_bytes_of_litert(shared: Path, operator: str, dtype: str) -> None:
    preset = hardware("edge-128")
    tight = change(preset, {"scratchpad.size_kib": 4, "scratchpad.banks": 1})
    count = on_host = refused = 0
    for name, graph, inputs, expected in cases(shared, f"{operator}.{dtype}"):
        count += 1
        for chosen in (preset, tight):
            try:
                program = compile_graph(graph, chosen)
            except CompileError:
                if chosen is preset:
                    raise
                refused += 1
                continue
            on_host += len(program.host_calls) if chosen is preset else 0
            outputs = execute(program, inputs, host_functions=host_functions(program)).outputs
            assert outputs is not None
            for found, wanted in zip(outputs, expected, strict=True):
                assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), name
                assert found.tobytes() == wanted.tobytes(), f"{name} with {chosen.scratchpad.size_kib} KiB"
    assert count == FEWER_CASES.get(operator, CASES)
    expected_on_host = UINT8_ON_HOST if dtype == "uint8" else {}
    assert on_host == expected_on_host.get(operator, ON_HOST[operator])
    assert refused <= REFUSED.get(operator, 0)
