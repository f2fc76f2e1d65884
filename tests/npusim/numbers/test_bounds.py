"""What the lower bound counts: bytes once, and vector work without what an instruction adds to it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from npusim.isa.base.elements import Workload
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.instruction import Context, Instruction
from npusim.isa.instructions.region import Space
from npusim.isa.program.program import Layer, MemoryImage
from npusim.numbers.bounds import LowerBound, compulsory_bytes, needed_cycles

from ..machine.handmade import bench, bytes_at, load, program, store

# DRAM of the cases: an input at 0..100, an output at 100..200, constants at 1000..2000, feature maps elsewhere.
INPUT, OUTPUT, WEIGHTS, MAP = 0, 100, 1000, 4000

COUNTED = [
    ("weights, once", [(0, load(WEIGHTS, 0, 64)), (1, load(WEIGHTS, 0, 64))], [64, 0]),
    ("what is new of a load belongs to it", [(0, load(WEIGHTS, 0, 64)), (1, load(WEIGHTS + 48, 0, 64))], [64, 48]),
    ("a hole that is filled later", [(1, load(WEIGHTS + 20, 0, 10)), (0, load(WEIGHTS, 0, 50))], [40, 10]),
    ("rows of the input with their overlap", [(0, load(INPUT, 0, 60)), (1, load(INPUT + 40, 0, 60))], [60, 40]),
    ("results of the network, written", [(1, store(0, OUTPUT, 100))], [0, 100]),
    ("no feature map", [(0, store(0, MAP, 64)), (1, load(MAP, 0, 64))], [0, 0]),
    ("no result read back", [(0, load(OUTPUT, 0, 64))], [0, 0]),
    ("nothing inside the scratchpad", [(0, Copy(size=64, target=128))], [0, 0]),
    (
        "every second run of four bytes, then all",
        [
            (0, Copy(source_space=Space.DRAM, source=WEIGHTS, count2=4, size=4, source_stride2=8)),
            (1, load(WEIGHTS, 0, 40)),
        ],
        [20, 20],
    ),
    (
        "a run that is repeated counts once",
        [(0, Copy(source_space=Space.DRAM, source=WEIGHTS, count2=4, size=4, target_stride2=4))],
        [4, 0],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("why", "instructions", "expected"), COUNTED, ids=[case[0] for case in COUNTED])
def test_compulsory_bytes(
    why: str, instructions: Sequence[tuple[int, Instruction]], expected: list[int]
) -> None:
    layer = Layer("layer", "identity", "dma", Workload("move"))
    image = replace(
        program(
            [each for _, each in instructions],
            bench(),
            inputs=[bytes_at("in", INPUT, 100)],
            outputs=[bytes_at("out", OUTPUT, 100)],
        ),
        constants=bytes(1000),
        images=(MemoryImage(WEIGHTS, 1000),),
        layers=(layer, layer),
        layer_of=np.array([layer for layer, _ in instructions], np.uint32),
    )
    costs = [each.cost(Context(image.hardware)) for _, each in instructions]
    assert compulsory_bytes(image, costs).tolist() == expected


@pytest.mark.parametrize(
    ("bound", "cycles", "bound_by"),
    [
        (LowerBound({"mac": 0, "vector": 0, "dram": 0, "host": 0}), 0, "none"),
        (LowerBound({"mac": 5, "vector": 5, "dram": 4, "host": 3}), 5, "mac"),
        (LowerBound({"mac": 1, "vector": 2, "dram": 3, "host": 0}), 3, "dram"),
        (LowerBound({"mac": 0, "vector": 2, "dram": 0, "host": 0}), 2, "vector"),
        (LowerBound({"mac": 1, "vector": 1, "dram": 1, "host": 9}), 9, "host"),
    ],
)
def test_the_largest_resource_sets_the_bound(bound: LowerBound, cycles: int, bound_by: str) -> None:
    assert (bound.cycles, bound.bound_by) == (cycles, bound_by)


def test_dram_cycles_are_rounded_up() -> None:
    assert needed_cycles(np.array([0, 1, 8, 9]), "dram", bench()).tolist() == [0, 1, 1, 2]


def test_each_resource_of_a_bound_is_an_attribute() -> None:
    bound = LowerBound({"mac": 5, "vector": 4, "dram": 3, "host": 2})
    assert (bound.mac, bound.vector, bound.dram, bound.host) == (5, 4, 3, 2)
    assert pickle.loads(pickle.dumps(bound)) == bound
    with pytest.raises(AttributeError, match="'LowerBound' object has no attribute 'gpu'"):
        _ = bound.gpu
