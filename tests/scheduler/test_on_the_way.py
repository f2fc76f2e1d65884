"""What an Ethos-U does on the way costs nothing there, where it can be done; no byte changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import npusim
from npusim.isa.base.errors import NpusimError
from npusim.isa.hardware.file import change, hardware
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.elementwise import Binary
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.mac import MacInstruction
from npusim.isa.instructions.table import decode_all
from npusim.isa.instructions.vector import Lookup

from ..graphs import Sketch

CHIP, EDGE = hardware("ethos-u55-128"), hardware("edge-128")
Draw = Callable[[Sketch, int], int]


def graph(draw: Draw) -> npusim.Graph:
    """A convolution to 24 channels, what is drawn behind it, and a convolution to end with."""
    sketch = Sketch("net", seed=7)
    x = conv(sketch, sketch.input(1, 12, 10, 5), 24)
    sketch.conv(draw(sketch, x), 8, (1, 1))
    return sketch.graph()


def conv(sketch: Sketch, x: int, channels: int) -> int:
    return sketch.conv(x, channels, (3, 3), padding=((1, 1), (1, 1)))


def instructions(model: npusim.Graph, kind: type[Instruction]) -> list[Instruction]:
    found = decode_all(npusim.compile(model, CHIP).code)
    return [each for each in found if isinstance(each, kind)]


def fused(sketch: Sketch, x: int) -> int:
    return sketch.logistic(x)


def shared(sketch: Sketch, x: int) -> int:
    return sketch.binary("add", x, sketch.logistic(x))


def twice(sketch: Sketch, x: int) -> int:
    return sketch.logistic(sketch.logistic(x))


@pytest.mark.parametrize(("draw", "wanted"), [(fused, [1]), (shared, [0]), (twice, [1, 0])])
def test_who_gives_an_operand_looks_it_up(draw: Draw, wanted: list[int]) -> None:
    """Only where the look-up is all that it is for, and once."""
    model = graph(draw)
    found = [each.fused for each in instructions(model, Lookup) if isinstance(each, Lookup)]
    assert found == wanted
    told = [
        each.looked_up for each in instructions(model, MacInstruction) if isinstance(each, MacInstruction)
    ]
    assert told == [wanted[0], 0]


def joined(sketch: Sketch, x: int) -> int:
    return sketch.concat([conv(sketch, x, 8), conv(sketch, x, 16)], 3)


def joined_with_its_source(sketch: Sketch, x: int) -> int:
    return sketch.concat([x, conv(sketch, x, 8)], 3)


def taken_apart(sketch: Sketch, x: int) -> int:
    first, second = sketch.split(x, 3, (8, 16))
    return sketch.binary("add", conv(sketch, first, 8), conv(sketch, second, 8))


def exchanged(sketch: Sketch, x: int) -> int:
    first, second = sketch.split(x, 3, (8, 16))
    return sketch.concat([second, first], 3)


@pytest.mark.parametrize(
    ("draw", "wanted"),
    [
        (joined, [1, 1]),
        # It is read elsewhere, too, as a tensor of its own.
        (joined_with_its_source, [0, 1]),
        (taken_apart, [1, 1]),
        # Both are looked at where they are, and have to be copied from there.
        (exchanged, [1, 1, 0, 0]),
    ],
)
def test_parts_are_reached_in_place(draw: Draw, wanted: list[int]) -> None:
    copies = [each for each in instructions(graph(draw), Copy) if isinstance(each, Copy)]
    assert [each.view for each in copies if each.source_space == each.target_space] == wanted


def added(sketch: Sketch, x: int) -> int:
    return sketch.binary("add", x, conv(sketch, x, 24))


def test_elementwise_functions_take_bricks() -> None:
    """24 channels are two bricks of 16: a third more."""
    (sum_,) = instructions(graph(added), Binary)
    assert isinstance(sum_, Binary)
    assert sum_.pixel == 24
    layers = {
        chip.name: layer.cycles
        for chip in (CHIP, change(CHIP, {"vector.brick_channels": 1, "name": "plain"}))
        for layer in npusim.simulate(npusim.compile(graph(added), chip), timing_only=True).layers
        if layer.op == "add"
    }
    start = CHIP.vector.startup_cycles
    assert (layers[CHIP.name] - start) * 24 == (layers["plain"] - start) * 32


DRAWN = [fused, shared, twice, joined, joined_with_its_source, taken_apart, exchanged, added]


@pytest.mark.parametrize("draw", DRAWN)
def test_no_byte_changes(draw: Draw) -> None:
    results = [npusim.simulate(npusim.compile(graph(draw), chip)).outputs for chip in (CHIP, EDGE)]
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("draw", DRAWN)
def test_other_machines_do_nothing_on_the_way(draw: Draw) -> None:
    for each in decode_all(npusim.compile(graph(draw), EDGE).code):
        assert not any(getattr(each, name, 0) for name in ("fused", "looked_up", "view", "pixel"))


def test_a_program_is_refused_where_nothing_is_done_on_the_way() -> None:
    for draw, key in ((fused, "vector.fused_lookup"), (joined, "dma.views")):
        program = npusim.compile(graph(draw), CHIP)
        with pytest.raises(NpusimError, match=key):
            npusim.simulate(program, hardware=change(CHIP, {key: False}))
