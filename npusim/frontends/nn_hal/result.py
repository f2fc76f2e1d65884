"""What a call of the NN HAL returns, in place of its callbacks."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from npusim.frontends.nn_hal.enumerations import ErrorStatus
from npusim.isa.base.errors import NpusimError

Value = TypeVar("Value")


class HalError(NpusimError):
    """A result that is not NONE, raised by `Result.unwrap`; its text is the result's message."""

    def __init__(self, message: str, status: ErrorStatus) -> None:
        super().__init__(message)
        self.status = status


class Result(NamedTuple, Generic[Value]):
    """How a call ended; `message` is "" when the status is NONE and otherwise begins with the place of the fault."""

    status: ErrorStatus
    value: Value
    message: str = ""

    def unwrap(self) -> Value:
        """The value; raises HalError unless the status is NONE."""
        if self.status is not ErrorStatus.NONE:
            raise HalError(self.message, self.status)
        return self.value
