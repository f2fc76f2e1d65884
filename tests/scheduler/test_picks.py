"""Picks by indices in memory: bytes of the reference, instructions that do not grow with the rows, wrong indices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npusim.isa.base.errors import GraphError, SimulationError
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.table import decode_all
from npusim.isa.program.program import Program
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.reference import evaluate
from npusim.kernels.lowering.work import Move, Pick
from npusim.kernels.operators.movement.updating import ScatterNdParameters
from npusim.kernels.table import operator
from npusim.machine.system import execute
from npusim.scheduler import compile_graph
from npusim.scheduler.network.network import prepare
from npusim.session.api import host_functions

from ..graphs import Sketch, random_inputs

PRESET = hardware("edge-128")
SCALE = Quantization((0.5,), (3,))


def typed(dtype: str, shape: tuple[int, ...]) -> TensorType:
    return TensorType(dtype, shape, SCALE if dtype in ("int8", "uint8") else None)


def graph(op: str, values: TensorType, indices: Any, **parameters: Any) -> Graph:
    """One operator; `indices` is a type (of an input) or an array (a constant)."""
    builder = GraphBuilder(op)
    inputs = [builder.input("values", values)]
    if isinstance(indices, np.ndarray):
        inputs.append(builder.constant("indices", indices))
    else:
        inputs.append(builder.input("indices", indices))
    if op == "embedding_lookup":
        inputs.reverse()
    result = unshaped(values.dtype, values.quantization)
    return builder.graph(builder.node(op, inputs, [result], operator(op).parameters(**parameters)))


def numbers(limits: tuple[int, ...], kind: TensorType, seed: int = 0) -> Any:
    """Indices in range; `limits` has one number for all, or one per entry of the last axis."""
    return np.random.default_rng(seed).integers(0, limits, kind.shape).astype(kind.dtype)


def check(model: Graph, inputs: list[Any], chip: Hardware = PRESET) -> Program:
    """The machine gives the bytes of the reference, in as many cycles as without data; returns the program."""
    program = compile_graph(model, chip)
    run = execute(program, inputs, host_functions=host_functions(program))
    assert run.outputs is not None
    values = evaluate(model, inputs)
    for found, expected in zip(run.outputs, [values[number] for number in model.outputs], strict=True):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert found.tobytes() == expected.tobytes()
    assert execute(program, data=False).cycles == run.cycles
    return program


def mnemonics(program: Program) -> list[str]:
    return [each.mnemonic for each in decode_all(program.code)]


CASES = [
    ("gather", (50, 3), "int8", (7,), {"axis": 0}, (50,)),
    ("gather", (4, 50, 3), "float32", (2, 5), {"axis": 1}, (50,)),
    ("gather", (4, 6, 50), "bool", (3,), {"axis": 2}, (50,)),
    ("gather", (4, 2, 9, 3), "int32", (4, 5), {"axis": 2, "batch_dims": 1}, (9,)),
    ("gather", (3, 2, 9, 3), "int64", (3, 2), {"axis": 2, "batch_dims": 2}, (9,)),
    ("gather", (9, 3), "float16", (), {"axis": 0}, (9,)),
    ("gather_nd", (5, 6, 7), "uint8", (4, 2), {}, (5, 6)),
    ("gather_nd", (5, 6, 7, 2), "int16", (2, 3, 4), {}, (5, 6, 7, 2)),
    ("gather_nd", (5, 6), "float32", (3, 1), {}, (5,)),
    ("embedding_lookup", (50, 3, 4), "float32", (7,), {}, (50,)),
]


@pytest.mark.parametrize(("op", "shape", "dtype", "indices", "parameters", "limits"), CASES)
def test_indices_that_are_computed(
    op: str,
    shape: tuple[int, ...],
    dtype: str,
    indices: tuple[int, ...],
    parameters: dict[str, int],
    limits: tuple[int, ...],
) -> None:
    for index_type in ("int32", "int64"):
        if op == "embedding_lookup" and index_type == "int64":
            continue
        kind = TensorType(index_type, indices)
        values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        given = [values, numbers(limits, kind)]
        program = check(graph(op, typed(dtype, shape), kind, **parameters), given)
        assert mnemonics(program).count("dma.gather") == 1
        assert not program.host_calls


def test_a_list_that_is_longer_than_the_buffer_is_cut() -> None:
    """4 KiB hold 1024 indices: 5,000 rows are five gathers, and no more however wide they are."""
    kind = TensorType("int32", (5000,))
    model = graph("gather", typed("int8", (3, 300, 4)), kind, axis=1)
    values = np.arange(3600).reshape(3, 300, 4).astype(np.int8)
    program = check(model, [values, numbers((300,), kind)])
    assert mnemonics(program) == ["dma.gather"] * 5


def test_batches_share_a_gather_while_their_lists_fit() -> None:
    kind = TensorType("int64", (10, 200))
    model = graph("gather", typed("int8", (10, 20, 2)), kind, axis=1, batch_dims=1)
    values = np.arange(400).reshape(10, 20, 2).astype(np.int8)
    # 1,600 bytes each: two batches at a time
    assert mnemonics(check(model, [values, numbers((20,), kind)])) == ["dma.gather"] * 5


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        ([3, 4, 5, 6], ["dma.copy"]),
        ([8, 6, 4, 2], ["dma.copy"]),
        ([5, 5, 5], ["dma.copy"]),
        ([0, 1, 9, 8, 7, 4], ["dma.copy"] * 3),
        ([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6], ["dma.gather"]),
    ],
)
def test_known_indices_that_are_regular_are_plain_copies(indices: list[int], expected: list[str]) -> None:
    model = graph("gather", typed("float32", (2, 10, 3)), np.array(indices, np.int32), axis=1)
    values = np.arange(60).reshape(2, 10, 3).astype(np.float32)
    assert mnemonics(check(model, [values])) == expected


def test_without_a_burst_buffer_the_host_gathers() -> None:
    chip = change(PRESET, {"dma.burst_buffer_kib": 0})
    kind = TensorType("int32", (3,))
    values = np.arange(20).reshape(10, 2).astype(np.int8)
    program = check(
        graph("gather", typed("int8", (10, 2)), kind, axis=0), [values, numbers((10,), kind)], chip
    )
    [call] = program.host_calls
    assert (
        call.reason
        == "needs a burst buffer (dma.burst_buffer_kib) that holds the indices, unless these are constant and regular; "
        "edge-128 has none"
    )
    known = graph("gather", typed("int8", (10, 2)), np.array([1, 2], np.int32), axis=0)
    assert mnemonics(check(known, [values], chip)) == ["dma.copy"]


def test_a_constant_index_outside_is_a_fault_of_the_model() -> None:
    model = graph("gather", typed("int8", (10, 2)), np.array([1, 10], np.int32), axis=0)
    with pytest.raises(GraphError) as fault:
        compile_graph(model, PRESET)
    assert str(fault.value) == (
        'gather: gather "gather_0" breaks a rule: constant indices (input 1) are 0 or more, and less than the size of '
        "what they choose from"
    )


@pytest.mark.parametrize("buffer_kib", [4, 0])
def test_a_computed_index_outside_ends_the_run(buffer_kib: int) -> None:
    chip = change(PRESET, {"dma.burst_buffer_kib": buffer_kib})
    model = graph("gather", typed("int8", (10, 2)), TensorType("int32", (3,)), axis=0)
    program = compile_graph(model, chip)
    given = [np.zeros((10, 2), np.int8), np.array([4, 10, 0], np.int32)]
    with pytest.raises(SimulationError) as fault:
        execute(program, given, host_functions=host_functions(program))
    assert str(fault.value) == (
        "gather_0: index 1 of the list is 10; it may be 0..9"
        if buffer_kib
        else "gather_0: index 10 at [1] of input 1: may be 0..9"
    )


def test_a_table_may_be_what_a_layer_before_computes() -> None:
    """Rows of a map that is in the scratchpad, by constant indices, into one that the next layer reads."""
    sketch = Sketch("between")
    source = sketch.conv(sketch.input(1, 8, 8, 4), 8)
    indices = sketch.add_tensor(TensorType("int32", (6,)), np.array([3, 1, 4, 1, 5, 0], np.int32))
    chosen = sketch.node(
        "gather", (source, indices), unshaped("int8", sketch.type_of(source).quantization), axis=1
    )
    model = sketch.graph([sketch.conv(chosen, 8)])
    program = check(model, random_inputs(model, 1))
    assert not program.host_calls


def updated(op: str, shape: tuple[int, ...], places: Any, update: tuple[int, ...], **how: Any) -> Graph:
    """One operator that writes an update of a shape into data of another, all of them inputs of int16."""
    builder = GraphBuilder(op)
    data, values = (
        builder.input(name, TensorType("int16", sizes))
        for name, sizes in (("data", shape), ("update", update))
    )
    known = isinstance(places, np.ndarray)
    at = builder.constant("places", places) if known else builder.input("places", places)
    inputs = [data, values, at] if op == "dynamic_update_slice" else [data, at, values]
    return builder.graph(builder.node(op, inputs, [unshaped("int16")], operator(op).parameters(**how)))


@pytest.mark.parametrize(
    ("shape", "places", "update", "how", "limits"),
    [
        ((9, 5), (4, 1), (4, 5), {}, (9,)),
        ((3, 9, 5), (2, 2), (2, 5), {}, (3, 9)),
        ((2, 9, 5), (2, 4, 1), (2, 4, 5), {"axis": 1, "batch_dims": 1}, (9,)),
        ((2, 3, 9, 5), (2, 1, 1), (2, 3, 1, 5), {"axis": 2, "batch_dims": 1}, (9,)),
        ((2, 3, 9), (4, 1), (2, 3, 4), {"axis": 2}, (9,)),
    ],
)
def test_updates_at_places_that_a_run_gives(
    shape: tuple[int, ...],
    places: tuple[int, ...],
    update: tuple[int, ...],
    how: dict[str, int],
    limits: tuple[int, ...],
) -> None:
    """scatter_nd is a copy of the data and one scatter; numpy's reference gives the bytes, of repeated places too."""
    kind = TensorType("int64", places)
    model = updated("scatter_nd", shape, kind, update, **how)
    data, new = (np.arange(np.prod(sizes), dtype=np.int16).reshape(sizes) for sizes in (shape, update))
    program = check(model, [data, -new, numbers(limits, kind)])
    assert mnemonics(program) == ["dma.copy", "dma.gather"]


@pytest.mark.parametrize(
    ("shape", "update", "starts"),
    [
        ((4, 9, 5), (4, 2, 5), [0, 3, 0]),
        ((4, 9, 5), (4, 2, 5), [7, 99, -3]),  # moved to where it fits
        ((4, 9, 5), (1, 3, 5), [-1, 2, 4]),
        ((4, 9, 5), (4, 9, 5), [1, 1, 1]),
        ((4, 9, 5), (4, 9, 2), [0, 0, 2]),
    ],
)
def test_a_slice_is_written_where_litert_writes_it(
    shape: tuple[int, ...], update: tuple[int, ...], starts: list[int]
) -> None:
    data, new = (np.arange(np.prod(sizes), dtype=np.int16).reshape(sizes) for sizes in (shape, update))
    at = np.array(starts, np.int32)
    program = check(
        updated("dynamic_update_slice", shape, TensorType("int32", (3,)), update), [data, -new, at]
    )
    assert mnemonics(program) == ["dma.copy", "dma.gather"]
    program = check(updated("dynamic_update_slice", shape, at, update), [data, -new])
    assert set(mnemonics(program)) == {"dma.copy"}


def test_an_update_that_is_cut_into_pieces_is_the_hosts() -> None:
    kind = TensorType("int32", (3,))
    data, new = np.zeros((4, 9, 5), np.int16), np.ones((2, 3, 5), np.int16)
    program = check(
        updated("dynamic_update_slice", (4, 9, 5), kind, (2, 3, 5)),
        [data, new, np.array([1, 2, 0], np.int32)],
    )
    [call] = program.host_calls
    assert call.reason.startswith("on the NPU the update has one element along each axis from the first")


@pytest.mark.parametrize("shape", [((1 << 20) + 8,), ()])
def test_an_update_that_one_instruction_cannot_write_is_the_hosts(shape: tuple[int, ...]) -> None:
    """dma.gather selects up to 2^20 consecutive rows, along an axis."""
    update = tuple(size - 4 for size in shape)
    model = updated("dynamic_update_slice", shape, TensorType("int32", (len(shape),)), update)
    place = np.full(len(shape), 3, np.int32)
    assert len(check(model, [np.zeros(shape, np.int16), np.ones(update, np.int16), place]).host_calls) == 1


def cache(later: bool) -> Graph:
    """A map that a layer computes, a column of it replaced; with `later`, another layer reads the old map, too."""
    sketch = Sketch("cache")
    source = sketch.conv(sketch.input(1, 8, 8, 4), 8)
    kind, height = unshaped("int8", sketch.type_of(source).quantization), sketch.shape(source)[1]
    column = sketch.builder.input("column", replace(kind, shape=(1, height, 1, 8)))
    place = sketch.builder.input("place", TensorType("int32", (1, 1)))
    written = sketch.node("scatter_nd", (source, place, column), kind, axis=2)
    return sketch.graph([sketch.conv(written, 8), *([sketch.conv(source, 8)] if later else [])])


@pytest.mark.parametrize(("later", "bodies"), [(False, [Pick]), (True, [Move, Pick])])
def test_old_values_that_nobody_needs_are_not_copied(later: bool, bodies: list[type]) -> None:
    model = cache(later)
    image, column = random_inputs(model, 1)[:2]
    check(model, [image, column, np.array([[5]], np.int32)])
    assert [type(item.body) for item in prepare(model, PRESET).items if item.node == 1] == bodies


def test_an_update_with_rows_of_what_it_replaces_is_a_copy() -> None:
    """Rows 0, 1, 2 go to rows 1, 2, 5 in two copies; in place, the second one would read what the first one wrote."""
    builder = GraphBuilder("own rows")
    whole = builder.layer("relu", [builder.input("x", TensorType("float32", (6, 4)))])
    halves = operator("split").parameters(axis=0, sizes=(3, 3))
    upper, _ = builder.node("split", [whole], [unshaped("float32"), unshaped("float32")], halves)
    places = builder.constant("places", np.array([[1], [2], [5]], np.int32))
    model = builder.graph([builder.layer("scatter_nd", [whole, places, upper])])
    check(model, [np.arange(24, dtype=np.float32).reshape(6, 4)])


def test_the_old_value_of_a_state_is_read_behind_the_update() -> None:
    """A reshape of the state has another reader after the update in place, so it is a copy."""
    builder = GraphBuilder("late reader")
    before = builder.state("cache", TensorType("float32", (6, 4)))
    row, place = (
        builder.input("row", TensorType("float32", (1, 4))),
        builder.input("at", TensorType("int32", (2,))),
    )
    old = builder.layer("reshape", [before], shape=(6, 4))
    builder.keep(before, builder.layer("dynamic_update_slice", [old, row, place]))
    model = builder.graph([builder.layer("relu", [old])])
    check(model, [np.ones((1, 4), np.float32), np.array([2, 0], np.int32)])


@pytest.mark.parametrize(
    ("size", "shown", "folded"),
    [([5], False, True), ([5], True, False), ([[5], [5], [5]], False, False)],
)
def test_indices_are_counted_from_the_end_by_who_takes_them(
    size: list[Any], shown: bool, folded: bool
) -> None:
    """Where nothing else takes the parts, and one size stands for the only axis of the table."""
    builder = GraphBuilder("from the end")
    values = builder.input("values", TensorType("float32", (5, 4)))
    index = builder.input("index", TensorType("int32", (3, 1)))
    nothing = builder.constant("nothing", np.array([0], np.int32))
    less = builder.layer("less", [index, nothing], dtype="bool")
    wrapped = builder.layer("add", [index, builder.constant("size", np.array(size, np.int32))])
    chosen = builder.layer("select_v2", [less, wrapped, index], dtype="int32")
    model = builder.graph([builder.layer("gather_nd", [values, chosen]), *([less] if shown else [])])
    given = [np.arange(20, dtype=np.float32).reshape(5, 4), np.array([[-1], [2], [-5]], np.int32)]
    assert (mnemonics(check(model, given)) == ["dma.gather"]) is folded


def test_a_state_gets_new_rows_in_place() -> None:
    """Three runs write three rows of a state; a run moves no more of a longer state."""
    costs = {}
    for length in (4, 400):
        builder = GraphBuilder("cache")
        before = builder.state("cache", TensorType("int8", (2, length, 8), SCALE))
        place = builder.input("place", TensorType("int64", (1, 1)))
        row = builder.input("row", TensorType("int8", (2, 1, 8), SCALE))
        [after] = builder.node(
            "scatter_nd", [before, place, row], [unshaped("int8", SCALE)], ScatterNdParameters(axis=1)
        )
        builder.keep(before, after)
        model = builder.graph([after])
        program = compile_graph(model, PRESET)
        assert mnemonics(program) == ["dma.gather"]
        expected, states = np.full((2, length, 8), 3, np.int8), None
        for step in (2, 0, 3):
            given = np.full((2, 1, 8), step, np.int8)
            expected[:, step] = given[:, 0]
            run = execute(program, [np.array([[step]]), given], states=states)
            states = run.states
            assert run.outputs is not None
            assert run.outputs[0].tobytes() == expected.tobytes()
        [scatter] = decode_all(program.code)
        costs[length] = scatter.cost(Context(PRESET))
    assert (costs[4].cycles, costs[4].actions) == (costs[400].cycles, costs[400].actions)
