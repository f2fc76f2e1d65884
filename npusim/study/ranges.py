"""The values of one parameter of a space: a list, or a range that is counted out here.

    [8, 16, 32]                              these
    { from = 100, to = 1000, step = 100 }    even steps
    { from = 64, to = 4096, factor = 2 }     powers
    { from = 0.5, to = 16, count = 6 }       so many, evenly
    { from = 0.5, to = 16, count = 6, log = true }    so many, with one ratio between neighbours

Every space is finite this way: a point has a number, and no point is computed twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from npusim.isa.base.nearest import nearest
from npusim.isa.base.toml_file import short

MOST_VALUES = 10_000
_DIGITS = 10
"""Digits of a counted-out value: 0.30000000000000004 is 0.3."""

LARGEST_NUMBER = 1e15
"""Beyond, whole numbers and their neighbours are one; no parameter comes near it."""

Number = (
    Annotated[int, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
    | Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
)


class Range(BaseModel):
    """A range as it stands in the file; exactly one of step, factor and count says how it is counted out."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    from_: Number = Field(alias="from")
    to: Number
    step: Annotated[Number, Field(gt=0)] | None = None
    factor: Annotated[Number, Field(gt=1)] | None = None
    count: Annotated[int, Field(ge=2, le=MOST_VALUES)] | None = None
    log: bool = False

    def fault(self) -> str | None:
        """What is wrong between the keys, or None."""
        ways = [name for name in ("step", "factor", "count") if getattr(self, name) is not None]
        if len(ways) != 1:
            return f"needs exactly one of step, factor and count, has {' and '.join(ways) or 'none'}"
        if self.to < self.from_:
            return f"to ({self.to:g}) is below from ({self.from_:g})"
        if self.log and self.count is None:
            return "log goes with count; powers are counted with factor"
        if (self.factor or self.log) and self.from_ <= 0:
            return f"ratios need a from above 0, not {self.from_:g}"
        return None

    def values(self, whole: bool) -> list[Number]:
        """The values, from low to high, rounded to whole numbers for a parameter of whole numbers."""
        found = [_tidy(value, whole) for value in self._values()]
        return list(dict.fromkeys(found))

    def _values(self) -> Iterator[Number]:
        if self.count:
            for i in range(self.count):
                share = i / (self.count - 1)
                if self.log:
                    yield self.from_ * (self.to / self.from_) ** share
                else:
                    yield self.from_ + (self.to - self.from_) * share
            return
        for i in range(MOST_VALUES + 1):
            value = self.from_ + i * self.step if self.step else self.from_ * (self.factor or 1) ** i
            # A step of 0.1 must reach the end in spite of its rounding.
            if value > self.to * (1 + 1e-12):
                return
            yield value


def _tidy(value: Number, whole: bool) -> Number:
    if whole:
        return round(value)
    return float(f"{value:.{_DIGITS}g}")


def listed_values(given: Any, whole: bool) -> list[Any]:
    """The values that a list or a range table stands for; raises ValueError with what is wrong."""
    if isinstance(given, list):
        values = given
    elif isinstance(given, dict):
        values = list(_range(given).values(whole))
    else:
        raise ValueError(f"{short(given)} is neither a list of values nor a range {{ from, to, step }}")
    if not values:
        raise ValueError("has no values")
    if len(values) > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES} values")
    return values


def _range(given: dict[str, Any]) -> Range:
    try:
        found = Range.model_validate(given)
    except ValidationError as error:
        item = error.errors(include_url=False, include_context=False)[0]
        key = str(item["loc"][0])
        known = ["from", "to", "step", "factor", "count", "log"]
        if item["type"] == "extra_forbidden":
            near = nearest(key, known)
            hint = f"did you mean {near}?" if near else f"known here: {', '.join(known)}"
            raise ValueError(f"{key}: unknown key, {hint}") from None
        if item["type"] == "missing":
            raise ValueError(f"{key} is missing from the range") from None
        raise ValueError(f"{key}: {short(item['input'])}: {item['msg'].lower()}") from None
    fault = found.fault()
    if fault:
        raise ValueError(fault)
    return found
