"""Works with several outputs: an operator of a test, which the scheduler never heard of, gives two at once."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.interpreter import interpret
from npusim.kernels import table
from npusim.kernels.graph.graph import Graph
from npusim.kernels.lowering.elementwise_work import lower_selection
from npusim.kernels.lowering.work import Parts, Rows, Tile, TileAddresses, Work
from npusim.kernels.operator.operands import elementwise
from npusim.kernels.operator.operator import Call, Lowering, Operator
from npusim.kernels.operator.parameters import Activated
from npusim.machine.system import execute
from npusim.scheduler import compile_graph

from ..graphs import Sketch, random_inputs
from ..races import races


def _lower(call: Call, hardware: Hardware) -> Parts:
    """The larger codes and the smaller ones, two instructions over the same tiles of both inputs."""
    one = replace(call, outputs=call.outputs[:1])
    (largest,), (smallest,) = (lower_selection(one, name) for name in ("maximum", "minimum"))
    works = cast(Work, largest), cast(Work, smallest)
    first = works[0].output

    def emit(tile: Tile, at: TileAddresses) -> tuple[object, ...]:
        return tuple(
            work.emit(tile, replace(at, outputs=(written,)))
            for work, written in zip(works, at.outputs, strict=True)
        )

    outputs = first, Rows(("out", 1), first.count, first.row_bytes)
    return (replace(works[0], outputs=outputs, emit=emit, overwrites=()),)  # type: ignore[arg-type]


EXTREMES = Operator(
    name="extremes",
    types=(),
    rules=(),
    infer=lambda call: (call.inputs[0].shape,) * 2,  # type: ignore[union-attr]
    reference=lambda call, values: [np.maximum(*values), np.minimum(*values)],  # type: ignore[call-overload]
    workload=elementwise,
    lowerings=(Lowering("vector", (), _lower),),
    parameters=Activated,
)


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table._FILE_OF, "extremes", __name__)
    read = table._read
    monkeypatch.setattr(table, "_read", lambda name: EXTREMES if name == "extremes" else read(name))


def graph(read_on: bool) -> Graph:
    """Both outputs are results; or one is, and a layer reads the other."""
    sketch = Sketch("net")
    a, b = sketch.input(1, 40, 40, 10), sketch.input(1, 40, 40, 10)
    kind = sketch.type_of(a)
    larger = sketch.node("extremes", (a, b), (kind, kind))
    smaller = larger + 1
    return sketch.graph([larger, sketch.logistic(smaller) if read_on else smaller])


@pytest.mark.parametrize("read_on", [False, True])
@pytest.mark.parametrize("size_kib", [4, 16, 128])
def test_both_outputs_have_their_bytes(size_kib: int, read_on: bool) -> None:
    """16,000 bytes each: whole in 128 KiB, in tiles and stored tile by tile in less."""
    chosen = change(hardware("edge-128"), {"scratchpad.size_kib": size_kib, "scratchpad.banks": 1})
    net = graph(read_on)
    program = compile_graph(net, chosen)
    assert [layer.unit for layer in program.layers] == ["vector"] * (1 + read_on)
    assert races(program) == set()
    a, b = random_inputs(net)
    result = execute(program, [a, b])
    assert result.outputs is not None
    np.testing.assert_array_equal(result.outputs[0], np.maximum(a, b))
    if not read_on:
        np.testing.assert_array_equal(result.outputs[1], np.minimum(a, b))
    for by_machine, in_order in zip(result.outputs, interpret(program, [a, b]), strict=True):
        np.testing.assert_array_equal(by_machine, in_order)
    assert execute(program, data=False).cycles == result.cycles
