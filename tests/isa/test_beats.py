"""Beats: what one moves, byte by byte; and how long blocks take through the two halves of a buffer."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.instructions.beats import Beats, Walk, straight, walk

from ..examples import examples


def beats_of(counts: tuple[int, ...], strides: tuple[int, ...], port: int) -> list[list[int]]:
    """The rule in its plainest form: the addresses of each beat of a block.

    Runs are what the inner loops leave no gap between. A beat takes bytes of a run until the port is full, and runs
    behind that are of the same line, do not overlap it, and fit whole.
    """
    *outer, size = counts
    loops = [each for each in zip(outer, strides, strict=True) if each[0] > 1]
    while loops and loops[-1][1] == size:
        size *= loops.pop()[0]
    lines: dict[tuple[int, ...], list[int]] = {}
    for steps in product(*[range(count) for count, _ in loops]):
        start = sum(step * stride for step, (_, stride) in zip(steps, loops, strict=True))
        lines.setdefault(steps[:-1], []).append(start)
    found: list[list[int]] = []
    for starts in lines.values():
        open_beat: list[int] = []
        for start in starts:
            fits = open_beat and size <= port and open_beat[-1] < start
            if fits and start + size - open_beat[0] <= port:
                open_beat += range(start, start + size)
                continue
            for first in range(start, start + size, port):
                open_beat = list(range(first, min(first + port, start + size)))
                found.append(open_beat)
    return found


loops = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 20)), max_size=3)


@pytest.mark.parametrize(
    ("counts", "strides", "port", "expected"),
    [
        ((64,), (), 16, Walk(1, 1, 64, 1, 16)),
        ((4, 16), (16,), 16, Walk(1, 1, 64, 1, 16)),
        # 20 runs of 3 bytes every 5: 0..2, 5..7, 10..12 lie within 16 bytes, 15..17 no more.
        ((20, 3), (5,), 16, Walk(1, 20, 3, 3, 16)),
        ((7, 20, 3), (100, 5), 16, Walk(7, 20, 3, 3, 16)),
        ((7, 5, 4, 3), (900, 100, 3), 16, Walk(7, 5, 12, 1, 16)),
        # A repeated source, and runs longer than the port.
        ((5, 3), (0,), 16, Walk(1, 5, 3, 1, 16)),
        ((5, 17), (20,), 16, Walk(1, 5, 17, 1, 16)),
        # No more than there are.
        ((2, 1), (2,), 16, Walk(1, 2, 1, 2, 16)),
    ],
)
def test_walks(counts: tuple[int, ...], strides: tuple[int, ...], port: int, expected: Walk) -> None:
    assert walk(counts, strides, port) == expected


@pytest.mark.slow
@given(loops, st.integers(1, 40), st.sampled_from([1, 2, 4, 8, 16, 32]))
@examples(300)
def test_beats_byte_by_byte(loops: list[tuple[int, int]], size: int, port: int) -> None:
    counts, strides = (*[count for count, _ in loops], size), tuple(stride for _, stride in loops)
    of = walk(counts, strides, port)
    expected = beats_of(counts, strides, port)
    assert of.beats == len(expected)
    assert of.size_bytes == sum(map(len, expected)) == np.prod(counts)
    sizes = np.array([len(each) for each in expected] * 2)
    ends = np.cumsum(sizes)
    for passed in {0, 1, 2, size, of.size_bytes - 1, of.size_bytes, of.size_bytes + 1, 2 * of.size_bytes}:
        if 0 <= passed <= 2 * of.size_bytes:
            begun, ended = of.passed(passed)
            assert (begun, ended) == (int((ends - sizes < passed).sum()), int((ends <= passed).sum()))
    every = np.arange(2 * of.size_bytes + 1)
    begun, ended = of.passed(every)
    assert begun.tolist() == [int((ends - sizes < each).sum()) for each in every]
    assert ended.tolist() == [int((ends <= each).sum()) for each in every]


def ends_of(fill: int, drain: int, blocks: int, held: int = -1, until: int = 0) -> list[int]:
    """When each beat out of a buffer ends, cycle by cycle: a half is filled when it is empty and drained when it is
    full. The beat `held` on the way in begins no sooner than in cycle `until`.
    """
    filled, drained, moved_in, moved_out, now = 0, 0, 0, 0, 0
    ends: list[int] = []
    while drained < blocks:
        can_fill = filled < blocks and filled - drained < 2 and not (moved_in == held and now < until)
        can_drain = drained < filled
        if can_fill:
            moved_in += 1
        if can_drain:
            moved_out += 1
            ends.append(now + 1)
        now += 1
        filled, drained = moved_in // fill, moved_out // drain
    return ends


@pytest.mark.slow
@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 6))
@examples(150)
def test_blocks_through_two_halves(fill: int, drain: int, blocks: int) -> None:
    of = Beats(straight(1, 1), blocks, fill, drain)
    ends = ends_of(fill, drain, blocks)
    assert of.cycles == ends[-1]
    assert [of.drained(number + 1) for number in range(len(ends))] == ends
    # A beat on the way in that comes so late that nothing else matters: what is left from its beginning on.
    for held in range(fill * blocks):
        assert ends_of(fill, drain, blocks, held, 1000)[-1] == 1000 + of.left(held)


@pytest.mark.parametrize(("fill", "drain"), [(3, 0), (0, 3)])
def test_without_a_buffer_beats_follow_each_other(fill: int, drain: int) -> None:
    of = Beats(straight(40, 16), 5, fill, drain)
    assert not of.buffered
    assert of.cycles == 15
    if drain:
        assert [of.drained(beats) for beats in (1, 2, 3, 4, 15)] == [1, 2, 3, 4, 15]
    else:
        assert [of.left(beats) for beats in (0, 1, 2, 14)] == [15, 14, 13, 1]
