"""Every operator, live: random models of one operator on the machine against LiteRT's reference kernels.

Types, shapes, scales, zero points, attributes and values are drawn over their whole ranges; a seed is a model, so a
failure says how to make it again. Half of the models run on the preset edge-128, half on the same with 4 KiB of
scratchpad, where they are cut into tiles. NPUSIM_EXAMPLES=1000 tries that many of each operator and type.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache

import pytest

from npusim.frontends.tflite import reader as tflite
from npusim.frontends.tflite.operators import OPERATORS as TFLITE_OPERATORS
from npusim.isa.base.errors import CompileError, GraphError
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Graph
from npusim.kernels.table import NAMES
from npusim.machine.system import execute
from npusim.scheduler import compile_graph
from npusim.session.api import host_functions
from npusim.verification.litert import LiteRTError
from tests.examples import scaled, tried

from .live import by_litert, difference, needs_litert
from .rows import ROWS, UNDEFINED, inputs_of, model

SEEDS = tried(2, 6)
"""Models of each operator and type."""


def test_every_operator_has_a_row() -> None:
    in_files = {code: row.op for code, row in TFLITE_OPERATORS.items() if row.op in NAMES}
    assert {code: row.op for code, row in ROWS.items()} == in_files


def test_there_are_300_models() -> None:
    assert SEEDS * sum(len(row.dtypes) for row in ROWS.values()) >= 300


def test_a_seed_is_a_model() -> None:
    assert model("CONV_2D", "int8", 3) == model("CONV_2D", "int8", 3) != model("CONV_2D", "int8", 4)


@cache
def machines() -> tuple[Hardware, Hardware]:
    preset = hardware("edge-128")
    return preset, change(preset, {"scratchpad.size_kib": 4, "scratchpad.banks": 1})


MOST_REFUSED = 0.15
"""How many of the models of an operator may be refused, by npusim or by LiteRT, for scales that no network has."""


def compiled(graph: Graph, small: bool) -> Program | None:
    """The graph for the small machine if wanted and if it fits there, otherwise for the preset; None if undefined."""
    preset, tight = machines()
    try:
        if small:
            with suppress(CompileError):
                return compile_graph(graph, tight)
        return compile_graph(graph, preset)
    except GraphError as refusal:
        if not UNDEFINED.search(str(refusal)):
            raise
        return None


def compare(code: str, dtypes: Sequence[str], seeds: int) -> None:
    """Check that the machine gives the outputs of LiteRT for random models of an operator."""
    row, refused = ROWS[code], 0
    for dtype in dtypes:
        for seed in range(seeds):
            where = f"model({code!r}, {dtype!r}, {seed})"
            data = model(code, dtype, seed)
            graph = tflite.parse(data, where)
            types = [graph.tensors[index].type for index in graph.inputs]
            inputs = inputs_of([(each.dtype, each.shape) for each in types], seed)
            program = compiled(graph, small=seed % 2 == 1)
            if program is None:  # LiteRT need not refuse such a model: it may abort the process
                refused += 1
                continue
            try:
                expected = row.defined(by_litert(data, inputs, row.optimized))
            except LiteRTError:
                refused += 1
                continue
            outputs = execute(program, inputs, host_functions=host_functions(program)).outputs
            assert outputs is not None
            wrong = difference(row.defined(list(outputs)), expected, row.tolerance)
            assert wrong is None, f"{where}: {wrong}"
    assert refused <= MOST_REFUSED * seeds * len(dtypes)


@needs_litert
@pytest.mark.parametrize("code", ROWS)
def test_machine_gives_the_bytes_of_litert(code: str) -> None:
    compare(code, ROWS[code].dtypes, SEEDS)


@needs_litert
@pytest.mark.slow
@pytest.mark.parametrize("code", [code for code, row in ROWS.items() if "int16" in row.dtypes])
def test_machine_gives_the_bytes_of_litert_for_int16_values(code: str) -> None:
    """200 models by night: int16 has few networks in public that would find a fault."""
    compare(code, ("int16",), scaled(20))


def test_a_float_lstm_with_small_outputs_keeps_the_last_place_of_its_gates() -> None:
    """The two sum in another order: 7e-5 of the largest output, which is below 0.01, and 6e-7 of what gates reach."""
    code, seed = "UNIDIRECTIONAL_SEQUENCE_LSTM", 9000867
    data = model(code, "float32", seed)
    graph = tflite.parse(data, code)
    types = [graph.tensors[index].type for index in graph.inputs]
    inputs = inputs_of([(each.dtype, each.shape) for each in types], seed)
    program = compiled(graph, small=False)
    assert program is not None
    outputs = execute(program, inputs, host_functions=host_functions(program)).outputs
    assert outputs is not None
    expected = by_litert(data, inputs)
    assert max(abs(each).max() for each in expected) < 0.01
    assert difference(list(outputs), expected, ROWS[code].tolerance) is None
    assert all(abs(ours - theirs).max() < 1e-6 for ours, theirs in zip(outputs, expected, strict=True))
