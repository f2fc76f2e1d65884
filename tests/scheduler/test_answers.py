"""Equal calls are asked once, unless the answer depends on the data of a constant."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.hardware.file import hardware
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.parameters import Parameters
from npusim.kernels.table import operator
from npusim.scheduler.network.network import Answers, prepare


class Clamp(Parameters):
    """The bounds of a clamp."""

    low: float = 0.0


KIND = TensorType("int8", (2,), Quantization((0.5,), (0,)))


def call(*constants: int, parameters: Clamp | None = None) -> Call:
    data = {position: np.array([value, value], np.int8) for position, value in enumerate(constants)}
    return Call(parameters or Clamp(), (KIND, KIND), (KIND,), data)


def asked(
    calls: list[Call], question: Callable[[Call], object], ops: tuple[str, ...] = ("clamp",)
) -> list[object]:
    """The answers, in the order of the calls."""
    answers = Answers()
    return [answers.about(op, each).of("which", question) for op in ops for each in calls]


def test_equal_calls_are_asked_once() -> None:
    seen: list[Call] = []
    assert asked([call(), call(), call()], lambda each: seen.append(each) or len(seen)) == [1, 1, 1]


def test_calls_of_other_types_operators_or_parameters_are_others() -> None:
    seen: list[Call] = []
    calls = [call(), call(1), call(1, 2), call(parameters=Clamp(low=-0.0))]
    found = asked(calls, lambda each: seen.append(each) or len(seen), ("clamp", "relu"))
    assert found == list(range(1, 9))


def test_an_answer_that_reads_a_constant_is_not_kept() -> None:
    calls = [call(1), call(2), call(1)]
    assert asked(calls, lambda each: int(np.sum(each.constants[0]))) == [2, 4, 2]
    assert asked(calls, lambda each: [int(np.sum(data)) for data in each.constants.values()]) == [
        [2],
        [4],
        [2],
    ]


def test_whether_an_operand_is_constant_is_no_reading() -> None:
    seen: list[bool] = []
    asked([call(1), call(2)], lambda each: seen.append(0 in each.constants and 1 not in each.constants))
    assert seen == [True]


def test_equal_layers_share_a_work_unless_it_has_constants() -> None:
    builder = GraphBuilder("equal")
    x = builder.input("x", KIND)
    for _ in range(2):
        (x,) = builder.node("add", (x, x), [KIND], operator("add").parameters())
    for _ in range(2):
        (x,) = builder.node("tanh", (x,), [KIND])  # a table
    network = prepare(builder.graph([x]), hardware("edge-128"))
    first, second, third, fourth = (item.body for item in network.items)
    assert first is second
    assert third is not fourth
