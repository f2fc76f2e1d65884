"""What breaks a rule of the HAL."""

from __future__ import annotations

from typing import NamedTuple

from npusim.frontends.nn_hal.enumerations import ErrorStatus


class Fault(NamedTuple):
    """A broken rule.

    place:  where, in the words of the structs: "operands[3].numberOfConsumers".
    text:   what is, what must be.
    rule:   the rule's name in docs/hal.md; the table of rules fills it in.
    """

    place: str
    text: str
    rule: str = ""
    status: ErrorStatus = ErrorStatus.INVALID_ARGUMENT

    @property
    def message(self) -> str:
        """The line that the caller of the HAL gets."""
        return f"{self.place}: {self.text}"
