"""Transfer cycles (beats) of a DMA channel, and its burst buffer.

A beat moves up to `dma.port_bytes_per_cycle` bytes (p) in one cycle. Without the burst buffer, the bytes of a beat are
contiguous in source and destination. So a run of n contiguous bytes takes ceil(n / p) beats, and isolated bytes take
one beat each.

With a burst buffer (`dma.burst_buffer_kib`) the inner `block` dimensions of a copy may pass as one block. The buffer
is filled in the order of the loops and drained in the order of falling destination strides. So the source is read
and the destination is written in long runs, although the order of the bytes changes. Each side sees the block as
`lines` times `runs` runs of n contiguous bytes, which start s bytes apart. A beat takes up to p bytes of one run, or
several runs of a line if they fit into p bytes. The number of runs in a beat is j = floor((p - n) / s) + 1:

    beats of a block = lines x runs x ceil(n / p)    if j < 2
                       lines x ceil(runs / j)        else

The buffer is a double buffer: half of it is filled while the other half is drained. Let F be the beats to fill a block
and D the beats to drain it. Filling block k ends at f(k) = max(f(k-1), d(k-2)) + F, and draining it ends at
d(k) = max(d(k-1), f(k)) + D. The first drain begins after F. From then on one block leaves every max(F, D) cycles, so B
blocks take

    F + (B - 1) max(F, D) + D
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Walk(NamedTuple):
    """The access pattern of one side to one block: `lines` times `runs` runs of `run_bytes` contiguous bytes.

    joined: number of runs that one beat takes; if 1, a run takes one or more beats of up to `port_bytes`.
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
        """Number of beats of a line."""
        if self.joined > 1:
            return -(-self.runs // self.joined)
        return self.runs * -(-self.run_bytes // self.port_bytes)

    @property
    def beats(self) -> int:
        """Number of beats of the block."""
        return self.lines * self.line_beats

    def passed(self, count: Any) -> tuple[Any, Any]:
        """Return how many beats begin and how many end within the first `count` bytes of a sequence of such blocks.

        `count` and the results are integers or integer arrays.
        """
        block, rest = count // self.size_bytes, count % self.size_bytes
        run, part = rest // self.run_bytes, rest % self.run_bytes
        line, run = run // self.runs, run % self.runs
        before = block * self.beats + line * self.line_beats
        if self.joined > 1:
            return before - -(run + (part > 0)) // self.joined, before + run // self.joined
        before = before + run * -(-self.run_bytes // self.port_bytes)
        return before - -part // self.port_bytes, before + part // self.port_bytes


def straight(run_bytes: int, port_bytes: int) -> Walk:
    """Return the access pattern of a run that is contiguous on both sides and needs no buffer."""
    return Walk(1, 1, run_bytes, 1, port_bytes)


def walk(counts: Sequence[int], strides: Sequence[int], port_bytes: int) -> Walk:
    """Return the access pattern of one side to a block: `counts[-1]` contiguous bytes, repeated along outer counts."""
    *outer, size = counts
    loops = [(count, stride) for count, stride in zip(outer, strides, strict=True) if count > 1]
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
    """The scratchpad side of a transfer between the scratchpad and a memory behind a port, in the port's byte order.

    walk:        the access pattern of one block, or of one run if the burst buffer is not used.
    blocks:      number of such blocks or runs.
    fill, drain: beats to fill and to drain a block; one of them is 0 if the burst buffer is not used.
    """

    walk: Walk
    blocks: int
    fill: int
    drain: int

    @property
    def buffered(self) -> bool:
        """Whether the transfer uses the burst buffer."""
        return bool(self.fill and self.drain)

    @property
    def cycles(self) -> int:
        """Cycles of all beats if the DRAM side never waits."""
        return self.fill + (self.blocks - 1) * max(self.fill, self.drain) + self.drain

    def drained(self, beats: Any) -> Any:
        """Return the cycles until a number of drain beats (1 or more) have passed, if filling never waits for data."""
        block, rest = (beats - 1) // self.drain, (beats - 1) % self.drain
        return self.fill + block * max(self.fill, self.drain) + rest + 1

    def left(self, beats: Any) -> Any:
        """Return the cycles from the start of the next fill beat, after `beats` of them, to the end of the transfer.

        They are the rest of the current block's fill, one period of max(fill, drain) for each later block, and the
        drain of the last block: the longest path through the recurrence in the module's docstring.
        """
        block, rest = beats // self.fill, beats % self.fill
        later = self.blocks - 1 - block
        return self.fill - rest + later * max(self.fill, self.drain) + self.drain
