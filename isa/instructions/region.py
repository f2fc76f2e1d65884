"""Bytes of the memories that instructions address."""

from __future__ import annotations

from typing import NamedTuple

from npusim.isa.hardware.memories import Space as Space


class Region(NamedTuple):
    """Bytes that an instruction touches: `counts[-1]` contiguous bytes, repeated along the outer counts.

    `strides` are byte distances of the outer dimensions, so `len(strides) == len(counts) - 1`. Where the order matters
    in which bytes pass, some may be negative (`Cost.dram`); `end` and `overlaps_itself` are of regions without these.
    """

    space: Space
    address: int
    counts: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def end(self) -> int:
        """One past the last byte touched."""
        span = self.counts[-1]
        for count, stride in zip(self.counts, self.strides, strict=False):
            span += (count - 1) * stride
        return self.address + span

    @property
    def rising(self) -> Region:
        """The same bytes in rising order along every dimension."""
        first = self.address
        for count, stride in zip(self.counts, self.strides, strict=False):
            first += min((count - 1) * stride, 0)
        return self._replace(address=first, strides=tuple([abs(stride) for stride in self.strides]))

    @property
    def size_bytes(self) -> int:
        """Bytes touched, repeated ones counted again."""
        size = 1
        for count in self.counts:
            size *= count
        return size

    @property
    def overlaps_itself(self) -> bool:
        """True unless every byte is surely touched once: each stride, in order of size, passes what lies below."""
        span = self.counts[-1]
        for stride, count in sorted(zip(self.strides, self.counts, strict=False)):
            if count > 1 and stride < span:
                return True
            span += (count - 1) * stride
        return False


Regions = tuple[tuple[Region, ...], tuple[Region, ...]]
"""Memory that an instruction reads, and memory that it writes."""


def dense(space: Space, address: int, size_bytes: int) -> Region:
    """The region of `size_bytes` contiguous bytes."""
    return Region(space, address, (size_bytes,), ())


def map_region(address: int, sizes: tuple[int, int, int], strides: tuple[int, int]) -> Region:
    """The region of a feature map of (height, width, depth) with (row, pixel) strides, merged where dense."""
    height, width, depth = sizes
    row_stride, pixel_stride = strides
    counts: tuple[int, ...] = (height, width, depth)
    steps: tuple[int, ...] = (row_stride, pixel_stride)
    if pixel_stride == depth or width == 1:
        counts, steps = (height, width * depth), (row_stride,)
        if row_stride == counts[1] or height == 1:
            counts, steps = (height * counts[1],), ()
    elif height == 1:
        counts, steps = (width, depth), (pixel_stride,)
    return Region(Space.SCRATCHPAD, address, counts, steps)
