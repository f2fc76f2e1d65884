"""Rules of the HAL, the faults that break them, and the results that calls return instead of invoking callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from npusim.frontends.nn_hal.checked import CheckedGraph, CheckedModel
from npusim.frontends.nn_hal.enumerations import ErrorStatus
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass

Value = TypeVar("Value")


class Fault(NamedTuple):
    """A broken rule.

    place:  the field with the fault, as a path through the structs: "operands[3].numberOfConsumers".
    text:   the value of the field, and its legal values.
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


class Refused(Exception):
    """Raised for an operation that breaks a rule, or that npusim lacks; the status of the fault tells which."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


Check = Callable[[CheckedModel, CheckedGraph], Iterator[Fault]]
"""Yields the faults of a graph of a model."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the HAL, or several rules that one check decides; the check's docstring states it.

    names: as in docs/hal.md; faults of a rule with several names carry their own.
    """

    names: tuple[str, ...]
    check: Check

    def faults(self, model: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
        """Yield the rule's faults, each with the name of the rule."""
        for fault in self.check(model, graph):
            yield fault if fault.rule else fault._replace(rule=self.names[0])


class HalError(NpusimError):
    """A result that is not NONE, raised by `Result.unwrap`; its text is the result's message."""

    def __init__(self, message: str, status: ErrorStatus) -> None:
        super().__init__(message)
        self.status = status


class Result(NamedTuple, Generic[Value]):
    """The outcome of a call. `message` is "" if the status is NONE and otherwise begins with the place of the fault."""

    status: ErrorStatus
    value: Value
    message: str = ""

    def unwrap(self) -> Value:
        """Return the value; raises HalError unless the status is NONE."""
        if self.status is not ErrorStatus.NONE:
            raise HalError(self.message, self.status)
        return self.value
