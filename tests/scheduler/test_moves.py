"""Moves as copies: every byte once and in its place, and never slower than straight through."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npusim
from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Placement, TensorType
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.region import Space
from npusim.isa.instructions.table import decode_all, encode_all
from npusim.isa.program.interpreter import interpret
from npusim.isa.program.program import Layer, Program
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.reference import evaluate
from npusim.kernels.lowering.work import Move
from npusim.machine.system import execute
from npusim.scheduler import compile_graph
from npusim.scheduler.emit.moves import plan_move

from ..examples import examples
from ..graphs import Sketch, random_inputs, with_leading_transpose
from ..races import races

SPACES = [(Space.DRAM, Space.SCRATCHPAD), (Space.SCRATCHPAD, Space.DRAM), (Space.SCRATCHPAD, Space.SCRATCHPAD),
          (Space.DRAM, Space.DRAM)]  # fmt: skip
PRESETS = ("edge-128", "mobile-1024", "mobile-4096", "edge-512")
FAR = 256 * 1024
"""Where destinations begin, in both memories; behind them the code."""


def gather(shape: tuple[int, ...], order: tuple[int, ...], steps: tuple[int, ...]) -> Move:
    """A tensor of bytes with every `steps`-th element of each axis, from its end if it is negative, in another order of
    its axes.
    """
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    sizes = [-(-size // abs(step)) for size, step in zip(shape, steps, strict=True)]
    first = sum(
        (size - 1) * stride for size, stride, step in zip(shape, strides, steps, strict=True) if step < 0
    )
    counts = [sizes[axis] for axis in order]
    targets = tuple(prod(counts[place + 1 :]) for place in range(len(counts)))
    sources = tuple(strides[axis] * steps[axis] for axis in order)
    return Move(("out", 0), 0, (*counts, 1), targets, ("in", 0), first, sources)


def scatter(move: Move) -> Move:
    """The way back."""
    return Move(("out", 0), 0, move.counts, move.source_strides, ("in", 0), 0, move.target_strides)


def program(copies: list[Any], chip: Hardware) -> Program:
    """Copies on one channel, one behind the other."""
    instructions: list[Instruction] = list(copies)
    place = Placement("in", TensorType("uint8", (2 * FAR,)), 0)
    return Program(
        name="moves", hardware=chip, code=encode_all(instructions), constants=b"",
        dram_size_bytes=2 * FAR + len(copies) * 128, code_address=2 * FAR, inputs=(place,), outputs=(place,),
        layers=(Layer("layer", "identity", "dma", Workload("move")),),
        layer_of=np.zeros(len(copies), np.uint32), host_calls=(),
    )  # fmt: skip


def cycles(move: Move, spaces: tuple[Space, Space], chip: Hardware) -> int:
    """What the machine takes for the copies that are planned."""
    found = plan_move(move, spaces, chip)
    copies = [piece.copy(0, spaces, (move.source_offset, FAR)) for piece in found.pieces]
    return execute(program(copies, chip), data=False).cycles


def without_buffer(chip: Hardware) -> Hardware:
    return change(chip, {"dma.burst_buffer_kib": 0})


shapes = st.tuples(*[st.one_of(st.integers(1, 8), st.integers(1, 150))] * 3).filter(
    lambda shape: prod(shape) <= 60_000
)
gathers = st.builds(
    gather,
    shapes,
    st.permutations([0, 1, 2]).map(tuple),
    st.tuples(*[st.sampled_from([1, 1, 1, 2, 3])] * 3),
)
backwards = st.builds(
    gather,
    shapes,
    st.permutations([0, 1, 2]).map(tuple),
    st.tuples(*[st.sampled_from([1, -1, -2])] * 3),
)
moves = st.one_of(gathers, gathers.map(scatter), backwards)
chips = st.builds(
    lambda preset, kib, port: change(
        hardware(preset), {"dma.burst_buffer_kib": kib, "dma.port_bytes_per_cycle": port}
    ),
    st.sampled_from(PRESETS), st.sampled_from([1, 4, 8, 64]), st.sampled_from([4, 8, 32, 64]),
)  # fmt: skip


@pytest.mark.slow
@given(moves, st.sampled_from(SPACES), chips)
@examples(150)
def test_every_byte_is_moved_once(move: Move, spaces: tuple[Space, Space], chip: Hardware) -> None:
    def elements(offset: int, counts: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
        found = np.array([offset])
        for count, stride in zip(counts, (*strides, 1), strict=True):
            found = (found[:, None] + np.arange(count) * stride).ravel()
        return found

    pairs = [
        [
            elements(offset, piece.counts, strides)
            for offset, strides in zip(piece.offsets, piece.strides, strict=True)
        ]
        for piece in plan_move(move, spaces, chip).pieces
    ]
    sources, targets = (np.concatenate(side) for side in zip(*pairs, strict=True))
    order = np.argsort(targets, kind="stable")
    expected = elements(0, move.counts, move.source_strides), elements(0, move.counts, move.target_strides)
    wanted = np.argsort(expected[1], kind="stable")
    np.testing.assert_array_equal(targets[order], expected[1][wanted])
    np.testing.assert_array_equal(sources[order], expected[0][wanted])


@pytest.mark.slow
@given(moves, st.sampled_from(SPACES), chips)
@examples(80)
def test_a_burst_buffer_makes_no_move_slower(move: Move, spaces: tuple[Space, Space], chip: Hardware) -> None:
    """Within what estimates miss of small ones."""
    assert cycles(move, spaces, chip) <= cycles(move, spaces, without_buffer(chip)) + 8


@pytest.mark.slow
@given(moves, st.sampled_from(SPACES), st.sampled_from(PRESETS))
@examples(60)
def test_a_larger_burst_buffer_makes_no_move_slower(
    move: Move, spaces: tuple[Space, Space], preset: str
) -> None:
    """Within what estimates miss of small ones."""
    chip = hardware(preset)
    more = change(chip, {"dma.burst_buffer_kib": 2 * chip.dma.burst_buffer_kib})
    assert cycles(move, spaces, more) <= 1.01 * cycles(move, spaces, chip) + 8


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("spaces", SPACES[:3])
@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((3, 224, 224), (1, 2, 0)),  # the first layer of what PyTorch exports
        ((1, 49, 1280), (0, 2, 1)),
        ((1, 784, 64), (0, 2, 1)),
        ((784, 2, 58), (0, 2, 1)),  # a shuffle of channels
    ],
)
def test_a_transpose_passes_both_memories_at_a_good_rate(
    preset: str, spaces: tuple[Space, Space], shape: tuple[int, ...], order: tuple[int, ...]
) -> None:
    chip = hardware(preset)
    size = prod(shape)
    taken = cycles(gather(shape, order, (1, 1, 1)), spaces, chip)
    if Space.DRAM in spaces:
        rate = min(chip.dram_bytes_per_cycle, chip.dma.port_bytes_per_cycle)
        # A block of 4 KiB of 49 rows in runs of 512 bytes opens a DRAM row for each: 25 cycles beside 34 or 17.
        assert taken <= 2.8 * size / rate + 1500
    else:
        # A port word in and a port word out, in the same cycle; blocks have ends.
        assert taken <= 1.3 * size / chip.dma.port_bytes_per_cycle + 500


@pytest.mark.parametrize("spaces", SPACES)
def test_long_runs_go_straight_through(spaces: tuple[Space, Space]) -> None:
    rows = Move(("out", 0), 0, (20, 64), (80,), ("in", 0), 0, (64,))
    assert [piece.block for piece in plan_move(rows, spaces, hardware("edge-128")).pieces] == [0]


def test_without_a_buffer_everything_goes_straight_through() -> None:
    chip = without_buffer(hardware("mobile-1024"))
    for spaces in SPACES:
        (piece,) = plan_move(gather((3, 50, 50), (1, 2, 0), (1, 1, 1)), spaces, chip).pieces
        assert piece.block == 0
    program = compile_graph(transposes(), chip)
    assert not any(getattr(each, "block", 0) for each in decode_all(program.code))


def transposes() -> Graph:
    """Transposes in all memories: of the input, between works, of the output."""
    sketch = Sketch("transposes", seed=3)
    image = sketch.transpose(sketch.input(1, 6, 20, 18), (0, 2, 3, 1))
    image = sketch.conv(image, 16, padding=((1, 1), (1, 1)))
    turned = sketch.transpose(image, (0, 3, 1, 2))
    sketch.transpose(sketch.conv(turned, 8, (1, 1)), (0, 3, 2, 1))
    return sketch.graph()


def columns() -> Graph:
    """Moves of few bytes at a time: split, concatenation and padding along the channels."""
    sketch = Sketch("columns", seed=4)
    first, second = sketch.split(sketch.input(1, 24, 20, 5), 3, (2, 3))
    wide = sketch.pad(sketch.concat([second, first, second], 3), [(0, 0), (1, 0), (0, 1), (1, 2)])
    pieces = sketch.split(sketch.conv(wide, 12, (1, 1)), 3, (1, 4, 7))
    sketch.concat([pieces[2], pieces[0]], 3)
    sketch.transpose(pieces[1], (0, 3, 2, 1))
    return sketch.graph()


@pytest.mark.cases(12)
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("size_kib", [8, 24, 512])
@pytest.mark.parametrize("network", [transposes, columns])
def test_networks_of_moves(network: Callable[[], Graph], size_kib: int, preset: str) -> None:
    graph = network()
    base = hardware(preset)
    room = base.scratchpad.model_copy(update={"size_kib": size_kib, "banks": 1})
    chip = base.model_copy(update={"scratchpad": room})
    inputs = random_inputs(graph, seed=size_kib)
    program = compile_graph(graph, chip)
    found = execute(program, inputs)
    values = evaluate(graph, inputs)
    assert found.outputs is not None
    for tensor, output in zip(graph.outputs, found.outputs, strict=True):
        np.testing.assert_array_equal(output, values[tensor])
    assert races(program) == set()
    assert execute(program, data=False).cycles == found.cycles
    for output, expected in zip(found.outputs, interpret(program, inputs), strict=True):
        np.testing.assert_array_equal(output, expected)
    if preset == "mobile-1024":
        assert any(getattr(each, "block", 0) for each in decode_all(program.code))
    if size_kib == 512:
        straight = execute(compile_graph(graph, without_buffer(chip)), data=False).cycles
        assert found.cycles <= straight


def test_tiles_of_a_feature_map_share_beats() -> None:
    """A tile of 4 of 16 channels: 896 runs of 4 bytes, 16 apart, to a DRAM that takes them faster than one per cycle.

    On mobile-4096 four of them lie within the 64 bytes of a port word.
    """
    tile = Move(("out", 0), 0, (16, 56, 4), (56 * 16, 16), ("in", 0), 0, (56 * 4, 4))
    chip = hardware("mobile-4096")
    assert cycles(tile, SPACES[1], without_buffer(chip)) - cycles(tile, SPACES[1], chip) >= 200


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["mobile-1024", "edge-128"])
def test_a_network_with_nchw_input_costs_little_more(preset: str) -> None:
    """A TRANSPOSE in front of MobileNetV2: 150,528 bytes are read either way, and a tenth is what it may add."""
    plain = npusim.load("mobilenet_v2")
    before, after = (
        npusim.simulate(npusim.compile(graph, preset), timing_only=True).cycles
        for graph in (plain, with_leading_transpose(plain))
    )
    assert before < after <= 1.10 * before
