"""The rows that the banks of a memory have open.

Row r of a memory lies in bank r modulo `banks`: the address bits just above those of a row choose it. Each bank has one
row open. A row opens in `miss_cycles`, closing the one before it; other banks are not held up by that, so a row that is
asked for ahead of its turn opens while others are read and written.
"""

from __future__ import annotations

from collections.abc import Container


class OpenRows:
    """The open row of each bank, or the one that opens, and the cycle in which it is open.

    opened: rows opened until now.
    """

    __slots__ = ("_miss_cycles", "_open_from", "_rows", "opened")

    def __init__(self, banks: int, miss_cycles: int) -> None:
        self._rows = [-1] * banks
        self._open_from = [0] * banks
        self._miss_cycles = miss_cycles
        self.opened = 0

    def copy(self) -> OpenRows:
        """The same rows, to be changed apart."""
        other = OpenRows(0, self._miss_cycles)
        other._rows, other._open_from, other.opened = self._rows[:], self._open_from[:], self.opened
        return other

    def need(self, row: int, now: int) -> int:
        """The cycle from which on bursts of a row pass that is needed now; it opens if another one is."""
        bank = row % len(self._rows)
        if self._rows[bank] != row:
            self._open(bank, row, now)
        return max(now, self._open_from[bank])

    def open_ahead(self, row: int, now: int, wanted: Container[int]) -> bool:
        """Begin to open a row that somebody will need, unless its bank has it, or one of those that are `wanted`.
        Whether it has begun.
        """
        bank = row % len(self._rows)
        opens = self._rows[bank] != row and self._rows[bank] not in wanted
        if opens:
            self._open(bank, row, now)
        return opens

    def skip(self, row: int, before: int, number: int) -> None:
        """As if so many rows had been opened in time, one by one up to where `row` is needed, behind `before`: of
        several banks each row ahead of its turn, `row` the last of them; of one bank in its turn, `row` not yet.
        """
        banks = len(self._rows)
        if banks == 1:
            self._rows = [before]
        else:
            self._rows = [row - (row - bank) % banks for bank in range(banks)]
        self._open_from = [0] * banks
        self.opened += number

    def _open(self, bank: int, row: int, now: int) -> None:
        self._rows[bank] = row
        self._open_from[bank] = now + self._miss_cycles
        self.opened += 1
