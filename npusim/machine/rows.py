"""The open rows of a memory's banks.

Row r is in bank r modulo `banks`, so the address bits just above the row offset select the bank. Each bank has one open
row. Opening a row takes `miss_cycles` and closes the one before it. Other banks are not delayed, so a row can be
opened ahead of its use while other banks transfer data.
"""

from __future__ import annotations

from collections.abc import Container


class OpenRows:
    """The open or opening row of each bank, and the cycle from which it can be used.

    opened: number of row activations so far.
    """

    __slots__ = ("_miss_cycles", "_open_from", "_rows", "opened")

    def __init__(self, banks: int, miss_cycles: int) -> None:
        self._rows = [-1] * banks
        self._open_from = [0] * banks
        self._miss_cycles = miss_cycles
        self.opened = 0

    def copy(self) -> OpenRows:
        """Return an independent copy."""
        other = OpenRows(0, self._miss_cycles)
        other._rows, other._open_from, other.opened = self._rows[:], self._open_from[:], self.opened
        return other

    def need(self, row: int, now: int) -> int:
        """Return the cycle from which a row's bursts can pass. Open the row if its bank has another one open."""
        bank = row % len(self._rows)
        if self._rows[bank] != row:
            self._open(bank, row, now)
        return max(now, self._open_from[bank])

    def open_ahead(self, row: int, now: int, wanted: Container[int]) -> bool:
        """Start to open a row ahead of its use and return whether it was started.

        It is not if the row is open already, or if its bank holds one of the rows in `wanted`.
        """
        bank = row % len(self._rows)
        opens = self._rows[bank] != row and self._rows[bank] not in wanted
        if opens:
            self._open(bank, row, now)
        return opens

    def skip(self, row: int, before: int, number: int) -> None:
        """Set the state after `number` row activations of a transfer through consecutive rows, without simulating each.

        With several banks, rows are opened ahead, so `row` is the last one opened. With one bank, each row is opened
        when it is needed, so the last one opened is `before`, the row in front of `row`.
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
