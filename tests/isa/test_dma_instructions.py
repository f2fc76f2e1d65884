"""DMA: what lands where, and exact occupancy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npusim.isa.base.errors import ProgramError, SimulationError
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.dma import Copy, LoadWeights, Unpack
from npusim.isa.instructions.instruction import Context, Cost, Instruction
from npusim.isa.instructions.memory import Memory, commit
from npusim.isa.instructions.region import Region, Space, dense
from npusim.isa.program.start import memory_of

from .samples import program_of, tiny_hardware

CHIP = change(
    tiny_hardware(), {"dma.setup_cycles": 20, "dma.port_bytes_per_cycle": 8, "dma.decoder_bytes_per_cycle": 4}
)

COUNTING = bytes(range(1, 101))
"""1, 2, 3, ... from address 0 of both memories."""


def after(instruction: Instruction) -> Memory:
    memory = memory_of(program_of([instruction], constants=b""))
    for space in CHIP.spaces:
        memory.bytes_at(space, 0, 100)[:] = np.frombuffer(COUNTING, np.uint8)
    commit(instruction.execute(memory))
    return memory


def content(memory: Memory, address: int, size: int, space: Space = Space.SCRATCHPAD) -> list[int]:
    return [int(each) for each in memory.bytes_at(space, address, size)]


COPIES: list[tuple[str, Copy, int, list[int]]] = [
    ("dense", Copy(source=2, target=200, size=3), 199, [0, 3, 4, 5, 0]),
    ("two rows of a matrix of ten columns", Copy(
        source=12, target=200, count2=1, size=2, source_stride2=10, target_stride2=2), 200, [13, 14, 23, 24, 0]),
    ("rows laid apart", Copy(
        source=0, target=200, count2=2, size=2, source_stride2=2, target_stride2=3), 200, [1, 2, 0, 3, 4, 0, 5, 6]),
    ("a transpose of 2 x 3 single bytes", Copy(
        source=0, target=200, count1=2, count2=1, size=1, source_stride1=1, source_stride2=3, target_stride1=2,
        target_stride2=1), 200, [1, 4, 2, 5, 3, 6, 0]),
    ("four dimensions, 2 x 2 x 2 x 2 bytes of 40, 20, 5, 1", Copy(
        source=0, target=200, count0=1, count1=1, count2=1, size=2, source_stride0=40, source_stride1=20,
        source_stride2=5, target_stride0=8, target_stride1=4, target_stride2=2),
        200, [1, 2, 6, 7, 21, 22, 26, 27, 41, 42, 46, 47, 61, 62, 66, 67, 0]),
    ("a repeated source", Copy(
        source=5, target=200, count1=2, count2=1, size=2, source_stride2=0, source_stride1=10, target_stride2=2,
        target_stride1=4), 200, [6, 7, 6, 7, 16, 17, 16, 17, 26, 27, 26, 27, 0]),
    ("onto itself, upwards", Copy(source=0, target=2, size=6), 0, [1, 2, 1, 2, 3, 4, 5, 6, 9]),
    ("onto itself, downwards", Copy(source=2, target=0, size=6), 0, [3, 4, 5, 6, 7, 8, 7, 8, 9]),
    ("six bytes backwards", Copy(
        source=7, target=200, count2=5, size=1, source_stride2=1, target_stride2=1, backward=4), 200,
        [8, 7, 6, 5, 4, 3, 0]),
    ("rows of ten from the last one, each from its end, in pairs", Copy(
        source=28, target=200, count1=1, count2=1, size=2, source_stride1=10, source_stride2=8, target_stride1=4,
        target_stride2=2, backward=6), 200, [29, 30, 21, 22, 19, 20, 11, 12, 0]),
    ("a fill", Copy(fill=1, value=255, target=3, size=2), 2, [3, 255, 255, 6]),
    ("a fill of every third byte", Copy(
        fill=1, value=9, target=0, count2=2, size=1, target_stride2=3), 0, [9, 2, 3, 9, 5, 6, 9, 8]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("copy", "address", "expected"), [each[1:] for each in COPIES], ids=[each[0] for each in COPIES]
)
def test_copies(copy: Copy, address: int, expected: list[int]) -> None:
    assert content(after(copy), address, len(expected)) == expected


@pytest.mark.parametrize("source", CHIP.spaces)
@pytest.mark.parametrize("target", CHIP.spaces)
def test_copies_between_the_memories(source: Space, target: Space) -> None:
    memory = after(Copy(source_space=source, source=10, target_space=target, target=300, size=3))
    assert content(memory, 300, 3, target) == [11, 12, 13]
    for other in {*CHIP.spaces} - {target}:
        assert content(memory, 300, 3, other) == [0, 0, 0]


def test_regions_merge_what_is_contiguous() -> None:
    """Six bytes in rows of three: dense in the source, apart in the destination, one repetition of no matter."""
    copy = Copy(
        source=8, target=64, count0=0, count2=1, size=3, source_stride2=3, target_stride2=5, target_space=1
    )
    assert copy.regions(Context(CHIP)) == (
        (dense(Space.SCRATCHPAD, 8, 6),),
        (Region(Space.DRAM, 64, (2, 3), (5,)),),
    )
    assert replace(copy, fill=1).regions(Context(CHIP))[0] == ()


# Occupancy: 20 cycles of setup, then beats of 8 bytes.

READ, WRITE, NOC = "scratchpad_read_byte", "scratchpad_write_byte", "noc_byte"
ROWS = {"count2": 2, "size": 9}


@pytest.mark.parametrize(
    ("copy", "cycles", "actions"),
    [
        (Copy(size=64), 20 + 8, {READ: 64, WRITE: 64}),
        (Copy(size=65), 20 + 9, {READ: 65, WRITE: 65}),
        # Three rows of nine bytes: two beats each where they lie apart, 27 bytes in four beats where they touch.
        (Copy(**ROWS, source_stride2=9, target_stride2=9), 20 + 4, {READ: 27, WRITE: 27}),
        (Copy(**ROWS, source_stride2=9, target_stride2=16), 20 + 3 * 2, {READ: 27, WRITE: 27}),
        (Copy(**ROWS, source_stride2=16, target_stride2=9), 20 + 3 * 2, {READ: 27, WRITE: 27}),
        (Copy(**{**ROWS, "size": 8}, source_stride2=16, target_stride2=8), 20 + 3, {READ: 24, WRITE: 24}),
        # A beat is contiguous on both sides, whatever they are; bytes to or from DRAM pass the interconnect.
        (Copy(size=64, source_space=1), 20 + 8, {WRITE: 64, NOC: 64}),
        (Copy(**ROWS, source_space=1, source_stride2=16, target_stride2=9), 20 + 3 * 2, {WRITE: 27, NOC: 27}),
        (Copy(size=64, target_space=1), 20 + 8, {READ: 64, NOC: 64}),
        (Copy(size=64, source_space=1, target_space=1), 20, {NOC: 128}),
        (Copy(size=64, fill=1), 20 + 8, {WRITE: 64}),
        (Copy(size=64, fill=1, target_space=1), 20 + 8, {NOC: 64}),
        # A repeated source is read again each time.
        (Copy(count2=3, size=8, target_stride2=8), 20 + 4, {READ: 32, WRITE: 32}),
    ],
)
def test_occupancy_of_copies(copy: Copy, cycles: int, actions: dict[str, int]) -> None:
    cost = copy.cost(Context(CHIP))
    assert (cost.cycles, cost.setup_cycles) == (cycles, 20)
    assert dict(cost.actions) == actions
    reads, writes = copy.regions(Context(CHIP))
    streams = [(each, False) for each in reads] + [(each, True) for each in writes]
    assert cost.dram == tuple(each for each in streams if each[0].space is Space.DRAM)


# Blocks through the burst buffer: 8 bytes per beat into one half and out of the other.

BLOCKS = change(CHIP, {"dma.burst_buffer_kib": 1})
NHWC = {"count2": 63, "size": 1, "source_stride2": 1, "target_stride2": 3}
"""64 pixels of three planes, side by side in the destination."""


@pytest.mark.parametrize(
    ("copy", "beats"),
    [
        # Three planes, 64 pixels of each at a time: in runs of 64 bytes, 3 x 8 beats; out of 192 bytes, 24 beats. One
        # block has nobody beside it; of four, three pairs of fill and drain share their cycles.
        (Copy(block=2, count1=2, source_stride1=5000, target_stride1=1, **NHWC), 24 + 24),
        (Copy(block=3, count0=0, count1=2, source_stride1=5000, target_stride1=1, **NHWC), 24 + 24),
        (
            Copy(block=2, count0=3, source_stride0=64, target_stride0=192, count1=2, source_stride1=5000,
                 target_stride1=1, **NHWC),
            24 + 3 * 24 + 24,
        ),
        # One plane: 64 bytes in 8 beats; every third byte of the destination, three of them within 8 bytes: 22 beats.
        (Copy(block=1, **NHWC), 8 + 22),
        (Copy(block=1, count1=2, source_stride1=5000, target_stride1=1, **NHWC), 8 + 2 * 22 + 22),
        # Straight through a beat for every byte.
        (Copy(count1=2, source_stride1=5000, target_stride1=1, **NHWC), 192),
        # Every second row of three bytes, and back.
        (Copy(block=1, count2=9, size=3, source_stride2=6, target_stride2=3), 10 + 4),
        (Copy(block=1, count2=9, size=3, source_stride2=3, target_stride2=5), 4 + 5),
    ],
)  # fmt: skip
def test_occupancy_of_blocks(copy: Copy, beats: int) -> None:
    size = copy.regions(Context(CHIP))[1][0].size_bytes
    cost = copy.cost(Context(BLOCKS))
    assert cost.cycles == 20 + beats
    buffered = {"burst_buffer_byte": size} if copy.block else {}
    assert dict(cost.actions) == {READ: size, WRITE: size} | buffered
    # Between the memories the same beats; the machine adds what the DRAM makes them wait.
    for spaces in ({"source_space": 1}, {"target_space": 1}):
        assert replace(copy, **spaces).cost(Context(BLOCKS)).cycles == 20 + beats  # type: ignore[arg-type]
    assert replace(copy, source_space=1, target_space=1).cost(Context(BLOCKS)).cycles == 20


def test_each_side_of_a_block_is_passed_in_its_own_order() -> None:
    copy = Copy(
        block=2, count0=3, source_stride0=64, target_stride0=192, count1=2, source_stride1=5000,
        target_stride1=1, source_space=1, target_space=1, **NHWC,
    )  # fmt: skip
    assert copy.cost(Context(BLOCKS)).dram == (
        # of each plane 64 bytes, four times
        (Region(Space.DRAM, 0, (4, 3, 64), (64, 5000)), False),
        # 768 bytes in a row
        (dense(Space.DRAM, 0, 768), True),
    )
    # Straight through both go byte by byte.
    assert replace(copy, block=0).cost(Context(BLOCKS)).dram[1] == (
        Region(Space.DRAM, 0, (4, 3, 64, 1), (192, 1, 3)),
        True,
    )


def test_regions_of_a_copy_backwards_rise() -> None:
    """What is touched is said from the lowest address on; the port of a memory meets it in its order."""
    copy = Copy(
        source_space=1, source=95, count1=2, count2=3, size=4, source_stride1=30, source_stride2=5, backward=6,
        target=300, target_stride1=16, target_stride2=4,
    )  # fmt: skip
    reads, _ = copy.regions(Context(CHIP))
    assert reads == (Region(Space.DRAM, 20, (3, 4, 4), (30, 5)),)
    assert copy.cost(Context(CHIP)).dram == ((Region(Space.DRAM, 95, (3, 4, 4), (-30, -5)), False),)
    assert replace(copy, source=75).faults() == []
    assert replace(copy, source=74).faults() == ["source is 74; backwards it reaches 75 bytes further down"]


@pytest.mark.parametrize("block", [0, 1, 2, 3])
def test_blocks_change_no_byte(block: int) -> None:
    fields = {"count0": 1, "count1": 2, "count2": 3, "size": 2}
    strides = {"source_stride0": 8, "source_stride1": 16, "source_stride2": 2, "target_stride0": 24,
               "target_stride1": 2, "target_stride2": 6}  # fmt: skip
    copy = Copy(source=0, target=200, block=block, **fields, **strides)
    source = np.frombuffer(COUNTING[:48], np.uint8).reshape(3, 2, 4, 2)
    assert content(after(copy), 200, 48) == source.transpose(1, 2, 0, 3).ravel().tolist()


def test_a_block_fits_into_half_of_the_buffer() -> None:
    half = Copy(block=1, count2=255, size=2, source_stride2=2, target_stride2=4)
    assert half.misfits(Context(BLOCKS)) == []
    more = replace(half, count2=256)
    said = "a block has 514 bytes; half of the burst buffer of tiny holds 512, dma.burst_buffer_kib is 1"
    assert more.misfits(Context(BLOCKS)) == [said]
    with pytest.raises(ProgramError, match=f"^dma.copy: {said}$"):
        more.cost(Context(BLOCKS))
    none = change(BLOCKS, {"dma.burst_buffer_kib": 0})
    assert half.misfits(Context(none)) == [
        "a block has 512 bytes; half of the burst buffer of tiny holds 0, dma.burst_buffer_kib is 0"
    ]
    assert replace(more, block=0).misfits(Context(none)) == []


def test_a_fill_has_no_blocks() -> None:
    assert Copy(fill=1, size=4, block=1).faults() == ["block is 1; a fill has no blocks, it may be 0"]


# Packed weights. A block of 66 weights: header 2 (bytes of the unary stream), modes 0 and 8 (one byte), unary
# stream of 64 Rice codes with k = 0, two plain bytes.


def block() -> tuple[bytes, list[int]]:
    """Weights 5 but for one 6 (u = 1: bits 0, 1) and one 4 (u = 2: bits 0, 0, 1), zero point 5; then 200, 7."""
    bits = [1] * 10 + [0, 1] + [0, 0, 1] + [1] * 52
    unary = np.packbits(bits, bitorder="little").tobytes()
    assert len(unary) == 9  # 67 bits
    data = (9).to_bytes(4, "little") + bytes([0 | 8 << 4]) + unary + bytes([200, 7])
    return data, [5] * 10 + [6, 4] + [5] * 52 + [200, 7]


def unpacked(plain: bytes, packed: bytes, weights: int, zero: int, trailing: int = 0) -> list[int]:
    instruction = Unpack(
        source_space=Space.DRAM,
        source=1000,
        plain=len(plain),
        packed=len(packed) + trailing,
        target=40,
        weights=weights,
        zero=zero,
    )
    memory = memory_of(program_of([instruction], constants=b""))
    data = plain + packed
    memory.bytes_at(Space.DRAM, 1000, len(data))[:] = np.frombuffer(data, np.uint8)
    commit(instruction.execute(memory))
    return content(memory, 40, len(plain) + weights + 1)


def test_unpack_written_out() -> None:
    packed, weights = block()
    assert unpacked(b"", packed, 66, 5) == [*weights, 0]
    assert unpacked(b"abc", packed, 66, 5, trailing=3) == [*b"abc", *weights, 0]


def test_a_block_that_does_not_hold_its_weights_is_refused() -> None:
    packed, _ = block()
    for wrong in (packed[:-1], packed[:10], b"\xff" * 16):
        with pytest.raises(SimulationError, match=r"^packed weights: "):
            unpacked(b"", wrong, 66, 5)


@pytest.mark.parametrize(
    ("fields", "cycles"),
    [
        # Plain bytes at the port's 8 per cycle, weights at the decoder's 4.
        ({"plain": 16, "weights": 64}, 20 + 2 + 16),
        ({"plain": 17, "weights": 64}, 20 + 3 + 16),
        ({"plain": 16, "weights": 65}, 20 + 2 + 17),
        ({"plain": 0, "weights": 1}, 20 + 0 + 1),
    ],
)
def test_occupancy_of_unpack(fields: dict[str, Any], cycles: int) -> None:
    cost = Unpack(source_space=Space.DRAM, **fields, packed=30, source=50).cost(Context(CHIP))
    plain, weights = fields["plain"], fields["weights"]
    actions = {NOC: plain + 30, WRITE: plain + weights, "weight_unpack": weights}
    assert cost == Cost(cycles, actions, 20, ((dense(Space.DRAM, 50, plain + 30), False),))


@pytest.mark.parametrize(("bits", "weights", "stored"), [(8, 100, 100), (5, 100, 63), (5, 8, 5), (3, 3, 2)])
def test_weights_of_few_bits_pass_like_a_copy_of_fewer_bytes(bits: int, weights: int, stored: int) -> None:
    chip = change(hardware("gap9"), {"mac_array.weight_bits": bits})
    load = LoadWeights(source_space=Space.MEMORY2, source=50, plain=9, weights=weights, target=64)
    copy = Copy(source_space=Space.MEMORY2, source=50, size=9 + stored, target=64)
    assert load.cost(Context(chip)) == copy.cost(Context(chip))
    assert load.cost(Context(chip)).actions[WRITE] == 9 + stored
    reads, writes = load.regions(Context(chip))
    assert reads == (dense(Space.MEMORY2, 50, 9 + weights),)
    assert writes == (dense(Space.SCRATCHPAD, 64, 9 + weights),)


def test_all_bits_of_weights_arrive() -> None:
    load = LoadWeights(source_space=Space.DRAM, source=3, plain=4, weights=20, target=200)
    assert content(after(load), 200, 25) == [*range(4, 28), 0]


def test_no_weights_are_no_load() -> None:
    assert LoadWeights(source_space=Space.DRAM).faults() == ["weights is 0; it may be 1 or more"]
    assert LoadWeights(weights=1).faults() == ["source_space is scratchpad; it may be a memory behind a port"]


def test_a_decoder_faster_than_the_port_waits_for_it() -> None:
    fast = change(CHIP, {"dma.decoder_bytes_per_cycle": 64})
    assert Unpack(source_space=Space.DRAM, weights=65, packed=30).cost(Context(fast)).cycles == 20 + 9


def test_a_machine_without_decoder_cannot_say_what_unpack_costs() -> None:
    plain: Hardware = change(CHIP, {"dma.decoder_bytes_per_cycle": 0})
    with pytest.raises(
        ProgramError, match=r"^dma\.unpack: tiny has no decoder; dma\.decoder_bytes_per_cycle is 0$"
    ):
        Unpack(source_space=Space.DRAM, weights=8, packed=30).cost(Context(plain))
