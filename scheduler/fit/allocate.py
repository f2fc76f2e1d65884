"""Placement of buffers in a memory: each has a size and a span of time in which nobody else may have its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from npusim.isa.hardware.hardware import Hardware
from npusim.scheduler.fit.busy import Busy

ALIGNMENT_BYTES = 16


def aligned(size_bytes: int, alignment: int = ALIGNMENT_BYTES) -> int:
    """The next multiple of `alignment`."""
    return -(-size_bytes // alignment) * alignment


class Allocator:
    """First fit over address and time. Times are integers; spans include both ends.

    With `bank_bytes`, buffers that live at the same time have banks of that size for themselves where there is room.
    """

    def __init__(self, capacity_bytes: int, bank_bytes: int = 0) -> None:
        self.capacity_bytes = capacity_bytes
        self._bank_bytes = bank_bytes
        self._peak_bytes = 0
        self._busy = Busy()

    @classmethod
    def of_scratchpad(cls, capacity_bytes: int, hardware: Hardware) -> Self:
        """Banks matter where they have a single port: then two units cannot work in one at the same time.

        With more ports there is one for the unit that computes and one for transfers, and whole banks would only
        leave holes.
        """
        scratchpad = hardware.scratchpad
        apart = scratchpad.bank_ports == 1
        return cls(capacity_bytes, hardware.scratchpad_bytes // scratchpad.banks if apart else 0)

    def find(self, size_bytes: int, first: int, last: int, *, from_top: bool = False) -> int | None:
        """An address where `size_bytes` are free from `first` to `last`, the lowest or the highest; None if full."""
        taken = self._busy.during(first, last)
        if self._bank_bytes:
            bank = self._bank_bytes
            banks = [(start // bank * bank, aligned(end, bank)) for start, end in taken]
            apart = self._fit(size_bytes, banks, from_top)
            if apart is not None:
                return apart
        return self._fit(size_bytes, taken, from_top)

    def _fit(self, size_bytes: int, taken: Sequence[tuple[int, int]], from_top: bool) -> int | None:
        """The lowest or highest place between what is taken, which is in order of address."""
        size = aligned(size_bytes)
        highest = None
        free = 0
        for start, end in taken:
            if start - free >= size:
                if not from_top:
                    return free
                highest = start - size
            if end > free:
                free = end
        top = self.capacity_bytes - self.capacity_bytes % ALIGNMENT_BYTES
        if top - free >= size:
            return top - size if from_top else free
        return highest

    def take(self, address: int, size_bytes: int, first: int, last: int) -> None:
        """Mark bytes as in use from `first` to `last`."""
        end = address + aligned(size_bytes)
        self._busy.add(address, end, first, last)
        self._peak_bytes = max(self._peak_bytes, end)

    def place(self, size_bytes: int, first: int, last: int, *, from_top: bool = False) -> int | None:
        """`find` and `take`."""
        address = self.find(size_bytes, first, last, from_top=from_top)
        if address is not None:
            self.take(address, size_bytes, first, last)
        return address

    @property
    def peak_bytes(self) -> int:
        """One past the highest byte ever taken."""
        return self._peak_bytes
