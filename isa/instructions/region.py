"""A region describes the bytes of a memory that an instruction reads or writes."""

from __future__ import annotations

from typing import NamedTuple

from npusim.isa.hardware.memories import Space as Space


class Region(NamedTuple):
    """The bytes that an instruction touches: `counts[-1]` contiguous bytes, repeated along the outer counts.

    `strides` are the byte distances of the outer dimensions, so `len(strides) == len(counts) - 1`. They may be negative
    where the order of bytes matters (`Cost.dram`). `end` and `overlaps_itself` are not defined for negative strides.
    """

    space: Space
    address: int
    counts: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def end(self) -> int:
        """The address after the last byte touched."""
        if not self.strides:
            return self.address + self.counts[0]
        span = self.counts[-1]
        for count, stride in zip(self.counts, self.strides, strict=False):
            span += (count - 1) * stride
        return self.address + span

    @property
    def rising(self) -> Region:
        """The region of the same bytes with no negative stride."""
        first = self.address
        for count, stride in zip(self.counts, self.strides, strict=False):
            first += min((count - 1) * stride, 0)
        return self._replace(address=first, strides=tuple([abs(stride) for stride in self.strides]))

    @property
    def size_bytes(self) -> int:
        """Number of bytes touched. A byte that is touched several times counts each time."""
        size = 1
        for count in self.counts:
            size *= count
        return size

    @property
    def overlaps_itself(self) -> bool:
        """False only if every byte is certainly touched once.

        That is so if, with strides in rising order, each is at least the span of all smaller dimensions.
        """
        span = self.counts[-1]
        for stride, count in sorted(zip(self.strides, self.counts, strict=False)):
            if count > 1 and stride < span:
                return True
            span += (count - 1) * stride
        return False


Regions = tuple[tuple[Region, ...], tuple[Region, ...]]
"""The regions that an instruction reads, and those that it writes."""


def dense(space: Space, address: int, size_bytes: int) -> Region:
    """Return the region of `size_bytes` contiguous bytes."""
    return Region(space, address, (size_bytes,), ())


def map_region(address: int, sizes: tuple[int, int, int], strides: tuple[int, int]) -> Region:
    """Return the scratchpad region of a feature map.

    sizes:   height, width and bytes of a pixel.
    strides: bytes from row to row and from pixel to pixel. Dimensions that are contiguous are merged.
    """
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
