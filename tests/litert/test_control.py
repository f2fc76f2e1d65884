"""IF and WHILE of TFLite files: bytes as LiteRT's."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

import npusim
from npusim.frontends.tflite import reader
from npusim.isa.base.errors import FormatError, GraphError
from npusim.isa.program.executable import Executable
from npusim.kernels.graph.check import check
from npusim.kernels.graph.reference import evaluate

from ..npusim.frontends.tflite_builder import Builder, Table, int32, serialize, table
from .live import by_litert, needs_litert

SHAPE = [1, 4]
X = np.array([[-128, -3, 4, 100]], np.int8)


@dataclass
class Part(Builder):
    """A subgraph; `whole` has the buffers and operator codes of the file, which all subgraphs share."""

    name: str = ""
    subgraphs: list[Table] = field(default_factory=list)

    def part(self, name: str) -> Part:
        return Part(codes=self.codes, buffers=self.buffers, name=name, subgraphs=self.subgraphs)

    def codes_of(self, name: str, data: np.ndarray | None = None) -> int:
        return self.tensor(name, SHAPE, data=data)

    def flags(self, name: str, count: int, data: np.ndarray | None = None) -> int:
        return self.tensor(name, [count], "BOOL", data, scales=None, zero_points=None)

    def add(self, a: int, b: int) -> int:
        found = self.codes_of(f"sum{len(self.tensors)}")
        self.operator("ADD", [a, b], [found], table("AddOptions"), version=2)
        return found

    def cut(self, flags: int, begin: int, size: int) -> int:
        found = self.flags(f"cut{len(self.tensors)}", size)
        operands = [flags, self.constant(begin), self.constant(size)]
        self.operator("SLICE", operands, [found], table("SliceOptions"), version=2)
        return found

    def shifted(self, flags: int, count: int) -> int:
        found = self.flags(f"shifted{len(self.tensors)}", count)
        none = self.flags("none", 1, np.zeros(1, bool))
        parts = [self.cut(flags, 1, count - 1), none]
        self.operator("CONCATENATION", parts, [found], table("ConcatenationOptions", Axis=0))
        return found

    def done(self, inputs: list[int], outputs: list[int]) -> None:
        self.subgraphs.append(
            table(
                "SubGraph",
                Name=self.name,
                Tensors=self.tensors,
                Inputs=int32(*inputs),
                Outputs=int32(*outputs),
                Operators=self.operators,
            )
        )

    def whole(self) -> bytes:
        rows = {"OperatorCodes": self.codes, "Subgraphs": self.subgraphs, "Buffers": self.buffers}
        return serialize(table("Model", Version=3, **rows))


def looping(count: int = 10, options: Table | None = None) -> bytes:
    """x + 1 as often as flags hold, twice the result; between two layers that decide nothing."""
    main = Part(name="main")
    x, flags = main.codes_of("x"), main.flags("flags", count)
    y, rest = main.codes_of("y"), main.flags("rest", count)
    doubled = main.add(x, x)
    chosen = table("WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2)
    main.operator("WHILE", [doubled, flags], [y, rest], options or chosen)
    main.done([x, flags], [main.add(y, x), rest])
    test = main.part("test")
    a, held = test.codes_of("a"), test.flags("held", count)
    test.done([a, held], [test.cut(held, 0, 1)])
    turn = main.part("turn")
    b, left = turn.codes_of("b"), turn.flags("left", count)
    one = turn.codes_of("one", np.full(SHAPE, 1, np.int8))
    turn.done([b, left], [turn.add(b, one), turn.shifted(left, count)])
    return main.whole()


def choosing() -> bytes:
    """relu(x) or x + 1, as the flag says."""
    main = Part(name="main")
    flag, x, y = main.flags("flag", 1), main.codes_of("x"), main.codes_of("y")
    main.operator("IF", [flag, x], [y], table("IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2))
    main.done([flag, x], [main.add(y, y)])
    then = main.part("then")
    a, positive = then.codes_of("a"), then.codes_of("positive")
    then.operator("RELU", [a], [positive], version=2)
    then.done([a], [positive])
    otherwise = main.part("otherwise")
    b = otherwise.codes_of("b")
    one = otherwise.codes_of("one", np.full(SHAPE, 1, np.int8))
    otherwise.done([b], [otherwise.add(b, one)])
    return main.whole()


@needs_litert
@pytest.mark.parametrize("turns", [0, 1, 7, 9])
def test_a_while_has_the_bytes_of_litert(turns: int) -> None:
    data = looping()
    inputs = [X, np.arange(10) < turns]
    expected = by_litert(data, inputs)
    made = npusim.compile(check(reader.parse(data, "looping")))
    assert isinstance(made, Executable)
    result = npusim.simulate(made, inputs)
    assert result.decisions == (("looping/y", turns),)
    for found, wanted in zip(result.outputs, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@needs_litert
@pytest.mark.parametrize("flag", [True, False])
def test_an_if_has_the_bytes_of_litert(flag: bool) -> None:
    data = choosing()
    inputs = [np.array([flag]), X]
    result = npusim.simulate(npusim.compile(check(reader.parse(data, "choosing"))), inputs)
    np.testing.assert_array_equal(result.outputs[0], by_litert(data, inputs)[0])


def test_the_reference_is_that_of_the_graph() -> None:
    graph = check(reader.parse(looping(), "looping"))
    values = evaluate(graph, [X, np.arange(10) < 3])
    doubled = np.clip(X.astype(int) * 2, -128, 127)
    expected = np.clip(np.clip(doubled + 3, -128, 127) + X, -128, 127)
    np.testing.assert_array_equal(values[graph.outputs[0]], expected)


@pytest.mark.parametrize(
    ("test", "turn", "fault", "message"),
    [
        (3, 2, FormatError, "test: subgraph 3, the model has 3"),
        (-1, 2, FormatError, "test: subgraph -1, the model has 3"),
        (0, 2, FormatError, "test: subgraph 0 is a body of itself"),
        (2, 2, GraphError, "the condition is int8"),
    ],
)
def test_bodies_that_cannot_be(test: int, turn: int, fault: type[Exception], message: str) -> None:
    data = looping(options=table("WhileOptions", CondSubgraphIndex=test, BodySubgraphIndex=turn))
    with pytest.raises(fault, match=f'^layer "y" \\(.*{message}'):
        check(reader.parse(data, "looping"))


def nested(levels: int, twice: bool = False) -> bytes:
    """IFs inside one another, each branch of each the next subgraph."""
    main = Part(name="level 0")
    part = main
    for level in range(levels + 1):
        flag, x, y = part.flags("flag", 1), part.codes_of("x"), part.codes_of("y")
        if level == levels:
            part.operator("RELU", [x], [y], version=2)
        else:
            options = table("IfOptions", ThenSubgraphIndex=level + 1, ElseSubgraphIndex=level + 1)
            part.operator("IF", [flag, flag, x], [y], options)
            if twice:
                again = part.codes_of("again")
                part.operator("IF", [flag, flag, y], [again], options)
                y = again
        part.done([flag, x], [y])
        part = part.part(f"level {level + 1}")
    return main.whole()


def test_bodies_inside_bodies() -> None:
    made = npusim.compile(check(reader.parse(nested(3), "nested")))
    result = npusim.simulate(made, [np.array([True]), X])
    assert result.decisions == (("nested/y", 1), ("nested/y/then/y", 1), ("nested/y/then/y/then/y", 1))
    np.testing.assert_array_equal(result.outputs[0], np.maximum(X, 0))


@pytest.mark.parametrize(("levels", "twice"), [(17, False), (14, True), (300, False)])
def test_a_file_whose_bodies_have_no_end(levels: int, twice: bool) -> None:
    with pytest.raises(FormatError, match=r"nested too deep or too often, may be 16 deep and 4096 bodies$"):
        reader.parse(nested(levels, twice), "nested")
