"""Element types: what an operator declares of them, its rows of lowerings, and float16 and int32 on the host."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.isa.base.elements import is_element
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, TensorType
from npusim.isa.hardware.cpu import ELEMENT_CYCLES, cpu_core
from npusim.isa.hardware.file import hardware
from npusim.kernels.graph.graph import Graph, Node, Tensor
from npusim.kernels.operator import rules
from npusim.kernels.operator.element_types import alike, entries, first_operand, fits, in_words, refusal
from npusim.kernels.operator.operator import Call, Lowering
from npusim.kernels.operator.parameters import Activated, Activation
from npusim.kernels.operator.rescale import REAL_RANGES
from npusim.kernels.operators.elementwise.sums_and_products import ADD
from npusim.kernels.table import operator, operators
from npusim.models.writer import per_tensor

from .calls import call_with, codes, reals

# What operators declare


EDGE = hardware("edge-128")


def of(dtype: str) -> TensorType:
    return TensorType(dtype, (1,))


def test_rows_name_element_types_that_there_are() -> None:
    for entry in operators():
        for row in entry.types:
            for side in entries(row):
                assert all(is_element(name) for choices in side for name in choices), (entry.name, row)


@pytest.mark.parametrize(
    ("inputs", "outputs", "fit"),
    [
        (("int8", "uint8", "int32"), ("int8",), True),
        (("int8", "uint8"), ("int8",), True),
        (("int8", None, "int32"), ("int8",), True),
        (("int8", "int16", "int32"), ("int8",), False),
        (("int8", "int8", "int32"), ("uint8",), False),
        (("int16", "int16", "int16", "int16"), ("bool", "bool"), True),
        (("int16", "int16", "int32"), ("bool",), False),
        (("int16", "int16", "int16", "float32"), ("bool",), False),
    ],
)
def test_a_row_speaks_of_each_operand_and_its_last_entry_of_the_rest(
    inputs: tuple[str | None, ...], outputs: tuple[str, ...], fit: bool
) -> None:
    rows = ("int8, int8|uint8, int32 -> int8", "int16*3 -> bool")
    types = tuple(None if name is None else of(name) for name in inputs)
    assert fits(rows, types, tuple(of(name) for name in outputs)) == fit


def test_rows_in_words() -> None:
    assert in_words(alike("int8")) == "operands are all int8"
    assert in_words(alike("int8", "int32", "bool")) == "operands are all int8, all int32 or all bool"
    assert in_words(operator("reshape").types) == "all operands have one element type"
    assert in_words(("int8|bool -> int32", "bool -> bool")) == (
        "element types are (int8|bool -> int32) or (bool -> bool)"
    )
    assert first_operand(("uint8|int8 -> int32", "bool -> bool")) == ("int8", "uint8", "bool")


# Rows of lowerings

FIRST = Lowering("vector", (rules.eight_bit, rules.same_shape), lambda call, hardware: ())
SECOND = Lowering("dma", (rules.per_tensor, rules.same_quantization), lambda call, hardware: ())
TWO_WAYS = replace(ADD, lowerings=(FIRST, SECOND))


@pytest.mark.parametrize(
    ("call", "row"),
    [
        (call_with([codes(2), codes(2)], [codes(2)], Activated()), FIRST),
        (call_with([codes(1), codes(2)], [codes(2)], Activated()), SECOND),
        (call_with([reals(2), reals(2)], [reals(2)], Activated()), SECOND),
        (call_with([codes(1), codes(2)], [codes(2, scale=2.0)], Activated()), None),
    ],
)
def test_the_first_lowering_whose_rules_hold_is_taken(call: Call, row: Lowering | None) -> None:
    assert TWO_WAYS.lowering(call, EDGE) is row


def test_a_way_for_other_element_types_says_nothing() -> None:
    call = call_with([reals(1), reals(2)], [codes(2, scale=2.0)], Activated())
    assert TWO_WAYS.host_reason(call, EDGE).words == "inputs and outputs have one scale and zero point"


def test_where_no_lowering_holds_what_each_lacks_is_said() -> None:
    call = call_with([codes(1), codes(2)], [codes(2, scale=2.0)], Activated())
    assert TWO_WAYS.host_reason(call, EDGE).words == (
        "input and output have one shape; inputs and outputs have one scale and zero point"
    )


# float16 and int32 on the host

OPERATIONS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


def elementwise(op: str, dtype: str, shape: tuple[int, ...], activation: Activation = "none") -> Graph:
    """x [shape] with y [last size of the shape] -> z [shape]."""
    types = (TensorType(dtype, shape), TensorType(dtype, shape[-1:]), TensorType(dtype, shape))
    tensors = tuple(Tensor(name, kind) for name, kind in zip("xyz", types, strict=True))
    parameters: dict[str, Any] = {"activation": activation} if operator(op).parameters is Activated else {}
    node = Node("node", op, (0, 1), (2,), operator(op).parameters(**parameters))
    return Graph("net", tensors, (node,), (0, 1), (2,))


def values(dtype: str, *shapes: tuple[int, ...]) -> list[Array]:
    """Values of all magnitudes, so that some sums and products overflow."""
    rng = np.random.default_rng(0)
    if dtype == "int32":
        magnitudes = [2.0 ** rng.integers(0, 32, shape) for shape in shapes]
        return [(rng.uniform(-1, 1, each.shape) * each).astype(np.int32) for each in magnitudes]
    return [(rng.normal(0, 1, shape) * 10.0 ** rng.integers(-6, 5, shape)).astype(dtype) for shape in shapes]


def expected(op: str, x: Array, y: Array, activation: Activation) -> Array:
    """Computed wider and then narrowed: whole numbers of 64 bits wrap, real ones of 32 are rounded once.

    float32 holds sums and products of two float16 well enough that its own rounding changes no result.
    """
    wide = np.int64 if x.dtype == np.int32 else np.float32
    with np.errstate(over="ignore", invalid="ignore"):
        found = OPERATIONS[op](x.astype(wide), y.astype(wide)).astype(x.dtype)
    return np.clip(found.astype(np.float64), *REAL_RANGES[activation]).astype(x.dtype)


@pytest.mark.parametrize("dtype", ["float16", "int32"])
@pytest.mark.parametrize("op", OPERATIONS)
def test_elementwise_operators_run_on_the_host(op: str, dtype: str, tmp_path: Path) -> None:
    activation: Activation = "relu6" if op == "add" else "none"
    program = npusim.compile(elementwise(op, dtype, (3, 40), activation))
    inputs = values(dtype, (3, 40), (40,))
    wanted = expected(op, *inputs, activation)
    assert len(np.unique(wanted)) >= 3
    npusim.save_program(program, tmp_path / "net.npu")
    for made in (program, npusim.load_program(tmp_path / "net.npu")):
        [found] = npusim.simulate(made, inputs).outputs
        assert (found.dtype, found.tobytes()) == (np.dtype(dtype), wanted.tobytes())
    [call] = program.host_calls
    assert call.parameters == ({"activation": "relu6"} if op == "add" else {})
    if dtype == "float16":  # the way over real lanes speaks, which is for these types
        assert (
            call.reason == "needs float lanes (vector.float16_lanes, vector.float32_lanes); edge-128 has none"
        )
    elif activation == "none":
        assert call.reason == "needs float lanes (vector.float32_lanes); edge-128 has none"
    else:
        assert call.reason.startswith(
            "the NPU computes on int8 and uint8 tensors with one scale and zero point; "
        )


@pytest.mark.parametrize(("dtype", "rates"), [("float16", "float32"), ("int32", "int8")])
def test_their_cost_is_that_of_their_elements_on_the_core(dtype: str, rates: Any) -> None:
    machine = hardware("edge-128")
    core = cpu_core(machine.host.core)
    shape = (64, 1000)
    [layer] = npusim.simulate(npusim.compile(elementwise("add", dtype, shape)), timing_only=True).layers
    element_bytes = np.dtype(dtype).itemsize
    moved_bytes = element_bytes * (2 * 64_000 + 1000)
    assert moved_bytes < core.last_level_kib * 1024  # nothing of it is fetched from memory
    # What is beyond the first cache counts in values of four bytes: codes of 32 bits, or what reals are computed in.
    values_beyond = (moved_bytes - core.data_cache_kib * 1024) / 4
    clock_mhz = machine.host.clock_mhz or core.clock_mhz
    cycles = 64_000 * ELEMENT_CYCLES[rates] + values_beyond * core.cycles_per_value
    computing_us = cycles / (machine.host.threads * clock_mhz)
    time_us = computing_us + core.operator_us + machine.host.handover_us
    assert layer.unit == "host"
    assert layer.cycles - layer.lost_cycles["start_up"] == ceil(time_us * machine.clock_mhz)
    assert layer.energy_uj > 0


@pytest.mark.parametrize("dtype", ["float16", "int32"])
def test_their_cost_grows_with_their_size(dtype: str) -> None:
    def cost(elements: int) -> tuple[int, float]:
        graph = elementwise("mul", dtype, (elements, 1000))
        [layer] = npusim.simulate(npusim.compile(graph), timing_only=True).layers
        return layer.cycles, layer.energy_uj

    sizes = [cost(elements) for elements in (1, 100, 1000, 4000)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == len(sizes)


def test_types_that_no_row_allows_are_refused() -> None:
    with pytest.raises(GraphError) as fault:
        npusim.compile(elementwise("add", "uint32", (2, 2)))
    assert str(fault.value) == (
        'net: add "node" breaks a rule: operands are '
        "all int8, all uint8, all int16, all int32, all int64, all float16 or all float32; "
        "it has (uint32, uint32 -> uint32), so convert the model with other element types"
    )


@pytest.mark.parametrize(
    ("types", "words"),
    [
        (
            ("int16", "int8", "int64"),
            "has int16 activations, which npusim lacks here; convert the model with int8 activations",
        ),
        (
            ("float32", "int8", "float32"),
            "has float32 activations and int8 weights (dynamic range quantization), which npusim lacks here; convert "
            "the float model without quantization, npusim quantize makes it int8",
        ),
    ],
)
def test_schemes_of_converters_are_named(types: tuple[str, ...], words: str) -> None:
    inputs = [TensorType(dtype, (1,), per_tensor(0.5, 0) if dtype != "float32" else None) for dtype in types]
    assert refusal(operator("conv_2d").types, inputs, inputs[:1]) == words
