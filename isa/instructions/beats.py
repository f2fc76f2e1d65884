"""Beats of a DMA channel, and the burst buffer.

A beat moves up to `dma.port_bytes_per_cycle` bytes (p) in one cycle. Straight through, they are contiguous in source
and destination, so a run of n such bytes takes ceil(n / p) beats, and single bytes a beat each.

With a burst buffer (`dma.burst_buffer_kib`) the inner `block` repetitions of a copy may pass together. The buffer
is filled in the order of the loops and drained in the order of falling destination strides, so the source is read
and the destination written in long runs although the bytes change places. Each side sees the block as `lines` times
`runs` runs of n contiguous bytes, s apart. A beat takes up to p bytes of a run, or as many runs of a line as lie
within p bytes, which are j = floor((p - n) / s) + 1:

    beats of a block = lines x runs x ceil(n / p)    if j < 2
                       lines x ceil(runs / j)        else

Half of the buffer is filled while the other half is drained. With F beats to fill a block and D to drain it,
filling block k ends in f(k) = max(f(k-1), d(k-2)) + F, draining it in d(k) = max(d(k-1), f(k)) + D. The first
drain begins after F; then blocks begin to leave every max(F, D) cycles, so B blocks take

    F + (B - 1) max(F, D) + D
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Walk(NamedTuple):
    """The bytes of one block in the order in which one side passes them: `lines` times `runs` runs of `run_bytes`.

    joined: runs that one beat takes; with 1 a run takes beats of up to `port_bytes`.
    """

    lines: int
    runs: int
    run_bytes: int
    joined: int
    port_bytes: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the block."""
        return self.lines * self.runs * self.run_bytes

    @property
    def line_beats(self) -> int:
        """Beats of a line."""
        if self.joined > 1:
            return -(-self.runs // self.joined)
        return self.runs * -(-self.run_bytes // self.port_bytes)

    @property
    def beats(self) -> int:
        """Beats of the block."""
        return self.lines * self.line_beats

    def passed(self, count: Any) -> tuple[Any, Any]:
        """Beats that begin and that end within the first `count` bytes of equal blocks; whole numbers or arrays."""
        block, rest = count // self.size_bytes, count % self.size_bytes
        run, part = rest // self.run_bytes, rest % self.run_bytes
        line, run = run // self.runs, run % self.runs
        before = block * self.beats + line * self.line_beats
        if self.joined > 1:
            return before - -(run + (part > 0)) // self.joined, before + run // self.joined
        before = before + run * -(-self.run_bytes // self.port_bytes)
        return before - -part // self.port_bytes, before + part // self.port_bytes


def straight(run_bytes: int, port_bytes: int) -> Walk:
    """Runs that are contiguous on both sides."""
    return Walk(1, 1, run_bytes, 1, port_bytes)


def walk(counts: Sequence[int], strides: Sequence[int], port_bytes: int) -> Walk:
    """The walk of one side through a block: `counts[-1]` contiguous bytes, repeated along the outer counts."""
    *outer, size = counts
    loops = [each for each in zip(outer, strides, strict=True) if each[0] > 1]
    while loops and loops[-1][1] == size:
        size *= loops.pop()[0]
    runs, stride, lines, joined = 1, 0, 1, 1
    if loops:
        runs, stride = loops.pop()
    for count, _ in loops:
        lines *= count
    if size <= stride and size <= port_bytes:
        joined = min((port_bytes - size) // stride + 1, runs)
    return Walk(lines, runs, size, joined, port_bytes)


class Beats(NamedTuple):
    """The scratchpad side of a transfer between the memories, in the order of its DRAM side.

    walk:        one block, or one run that goes straight through.
    blocks:      how many there are.
    fill, drain: beats that fill and that drain a block; one of them is 0 without a buffer.
    """

    walk: Walk
    blocks: int
    fill: int
    drain: int

    @property
    def buffered(self) -> bool:
        """Whether blocks pass the burst buffer."""
        return bool(self.fill and self.drain)

    @property
    def cycles(self) -> int:
        """Cycles of all beats when the DRAM side waits for nothing."""
        return self.fill + (self.blocks - 1) * max(self.fill, self.drain) + self.drain

    def drained(self, beats: Any) -> Any:
        """Cycles until so many beats (1 or more) have left, when nothing is waited for on the way in."""
        block, rest = (beats - 1) // self.drain, (beats - 1) % self.drain
        return self.fill + block * max(self.fill, self.drain) + rest + 1

    def left(self, beats: Any) -> Any:
        """Cycles from the beginning of the next beat on the way in, behind so many, to the end of all.

        The block that it belongs to is filled; behind that the longest way through the recurrence of the module is
        a period for each later block, and the drain of the last.
        """
        block, rest = beats // self.fill, beats % self.fill
        later = self.blocks - 1 - block
        return self.fill - rest + later * max(self.fill, self.drain) + self.drain
