"""Whole networks, byte by byte: 14 TFLite models against the outputs of the LiteRT reference kernels.

Every model runs compiled on the preset edge-128 and on the same machine with hardly more scratchpad than its
largest smallest tile needs, so that everything is cut, streamed and evicted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from npusim.frontends.frontend import read
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.interpreter import interpret
from npusim.kernels.graph.graph import Graph
from npusim.machine.system import execute
from npusim.scheduler import compile_graph
from npusim.session.api import host_functions

from ..graphs import with_all_outputs
from ..races import races, unwritten_reads

SMALL_KIB = {
    "coral_deeplabv3_mnv2_dm05_pascal_quant": 192,
    "coral_mobilenet_v1_0.25_128_quant": 16,
    "coral_mobilenet_v2_1.0_224_quant": 96,
    "coral_split_concat": 8,
    "coral_tf2_mobilenet_v2_1.0_224_ptq": 96,
    "edgetpu_ssd_mnv1_head": 8,
    "mlperf_ad01_int8": 12,
    "mlperf_kws_int8": 8,
    "mlperf_resnet8_int8": 16,
    "mlperf_vww96_int8": 12,
    "tflm_hello_world_int8": 8,
    "tflm_micro_speech_int8": 24,
    "tflm_mnist_lstm_int8": 8,
    "tflm_person_detect_int8_patched": 12,
}
"""The models, and the small scratchpad of each."""

SLOW = tuple(name for name, size in SMALL_KIB.items() if size >= 96)
"""Models of seconds per inference: one input is enough on the small scratchpad."""

NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in SMALL_KIB]


def edge(size_kib: int | None) -> Hardware:
    """edge-128, or the same with another scratchpad."""
    preset = hardware("edge-128")
    return (
        preset
        if size_kib is None
        else change(preset, {"scratchpad.size_kib": size_kib, "scratchpad.banks": 1})
    )


def model(shared: Path, name: str) -> Graph:
    return read(shared / "models" / f"{name}.tflite")


def run(graph: Graph, chosen: Hardware, inputs: Sequence[Sequence[Array]]) -> list[tuple[Array, ...]]:
    """The outputs of a graph on the machine, for several inputs."""
    program = compile_graph(graph, chosen)
    functions = host_functions(program)
    found = []
    for each in inputs:
        outputs = execute(program, each, host_functions=functions).outputs
        assert outputs is not None
        found.append(outputs)
    return found


def assert_same(found: Array, expected: Array, where: str) -> None:
    """Equal in type and shape, and in every byte; float32 that the host computed to 1e-6."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), where
    if found.dtype == np.float32:
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=where)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=where)


def test_every_golden_model_is_listed(shared: Path) -> None:
    stored = {file.name.removesuffix(".npz") for file in (shared / "golden").glob("*.npz")}
    assert {name for name in stored if not name.endswith(".mid")} == set(SMALL_KIB)


@pytest.mark.cases(1, each="name")
@pytest.mark.parametrize("small", [False, True], ids=["edge-128", "small"])
@pytest.mark.parametrize("name", NAMES)
def test_outputs(shared: Path, name: str, small: bool) -> None:
    graph = model(shared, name)
    samples = 1 if small and name in SLOW else 3
    with np.load(shared / "golden" / f"{name}.npz") as golden:
        inputs = [[golden[f"in{k}_{i}"] for i in range(len(graph.inputs))] for k in range(samples)]
        found = run(graph, edge(SMALL_KIB[name] if small else None), inputs)
        for k, outputs in enumerate(found):
            for i, output in enumerate(outputs):
                assert_same(output, golden[f"out{k}_{i}"], f"{name}: output {i} of sample {k}")


STORED = [name for name in SMALL_KIB if name not in SLOW]
"""Models whose intermediate tensors are stored."""


@pytest.mark.cases(8)
@pytest.mark.parametrize("small", [False, True], ids=["edge-128", "small"])
@pytest.mark.parametrize("name", STORED)
def test_intermediates(shared: Path, name: str, small: bool) -> None:
    graph = with_all_outputs(model(shared, name))
    golden, path = shared / "golden" / f"{name}.npz", shared / "golden" / f"{name}.mid.npz"
    with np.load(golden) as samples, np.load(path) as stored:
        inputs = [samples[f"in0_{i}"] for i in range(len(graph.inputs))]
        (outputs,) = run(graph, edge(SMALL_KIB[name] if small else None), [inputs])
        values = dict(zip(graph.outputs, outputs, strict=True))
        states = {state.after for state in graph.states}  # the stored values are those of the file's tensors
        assert {int(key[1:]) for key in stored.files} == set(values) - states
        for key in stored.files:
            tensor = graph.tensors[int(key[1:])].name
            assert_same(values[int(key[1:])], stored[key], f"{name}: tensor {key[1:]} ({tensor})")


@pytest.mark.cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_intermediates_by_checksum(shared: Path, name: str) -> None:
    import zlib

    graph = with_all_outputs(model(shared, name))
    entries = json.loads((shared / "golden" / f"{name}.json").read_text())["intermediates"]
    with np.load(shared / "golden" / f"{name}.npz") as samples:
        inputs = [samples[f"in0_{i}"] for i in range(len(graph.inputs))]
    (outputs,) = run(graph, edge(None), [inputs])
    values = dict(zip(graph.outputs, outputs, strict=True))
    compared = 0
    for entry in entries:
        if entry["tensor"] in values:
            found = values[entry["tensor"]]
            assert list(found.shape) == entry["shape"], entry["name"]
            assert zlib.crc32(found.tobytes()) == entry["crc32"], entry["name"]
            compared += 1
    assert compared >= len(graph.nodes)


@pytest.mark.cases(4)
@pytest.mark.parametrize("name", STORED)
def test_interpreter_and_timing(shared: Path, name: str) -> None:
    graph = model(shared, name)
    program = compile_graph(graph, edge(SMALL_KIB[name]))
    functions = host_functions(program)
    with np.load(shared / "golden" / f"{name}.npz") as golden:
        inputs = [golden[f"in0_{i}"] for i in range(len(graph.inputs))]
        for i, output in enumerate(interpret(program, inputs, functions)):
            assert_same(output, golden[f"out0_{i}"], f"{name}: output {i}")
    timed, first, second = (
        execute(program, data=False),
        execute(program, inputs, host_functions=functions),
        execute(program, inputs, host_functions=functions),
    )
    assert timed.cycles == first.cycles == second.cycles
    for other in (first, second):
        assert other.layer_actions == timed.layer_actions
        assert other.trace.transfers == timed.trace.transfers
        np.testing.assert_array_equal(other.trace.started, timed.trace.started)
        np.testing.assert_array_equal(other.trace.ended, timed.trace.ended)


@pytest.mark.cases(8)
@pytest.mark.parametrize("small", [False, True], ids=["edge-128", "small"])
@pytest.mark.parametrize("name", STORED)
def test_no_races(shared: Path, name: str, small: bool) -> None:
    program = compile_graph(model(shared, name), edge(SMALL_KIB[name] if small else None))
    assert races(program) == set()
    assert unwritten_reads(program) == []
