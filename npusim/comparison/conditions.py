"""The conditions on which a comparison fails, for continuous integration: `npusim compare --fail-if 'latency_ms>+5%'`.

    KEY > +5%      more than 5 % above the baseline
    KEY < -10%     more than 10 % below the baseline
    KEY > +0.1     more than 0.1 above the baseline, in the unit of the key
    KEY > 1000000  more than 1000000, whatever the baseline

KEY is the dotted key of any number of the result's JSON; layers are named by name or position (`layers.conv.cycles`).
A number with a sign is relative to the baseline. `>=` and `<=` work too.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from npusim.comparison.rows import Change
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass

COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_EXPRESSION = re.compile(
    r"\s*(?P<key>\S.*?)\s*(?P<sign>>=|<=|>|<)\s*(?P<limit>[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)\s*(?P<percent>%?)\s*"
)
LARGEST_NUMBER = 1e100
HOW = (
    "write KEY>+5% (change against the first file), KEY>+0.1 (difference) or KEY>1000 (value); also <, >=, <="
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed condition: `key` is compared by `sign` with `limit`.

    relative: the limit is a difference from the baseline; percent: the limit is a percentage.
    """

    text: str
    key: str
    sign: str
    limit: float
    relative: bool
    percent: bool

    def verdict(self, letter: str, label: str, before: float, after: float) -> Verdict:
        """Return the verdict on a run with the value `after`, where the baseline has `before`."""
        change = Change.between(before, after)
        measured = change.percent if self.percent else change.delta if self.relative else after
        fails = COMPARISONS[self.sign](measured, self.limit)
        return Verdict(self, letter, label, before, after, measured, fails)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a condition on a run.

    found: the number that is compared with the limit: the value, or its difference or percentage against the baseline.
    fails: True if the condition holds, because it states when to fail.
    """

    condition: Condition
    letter: str
    label: str
    before: float
    after: float
    found: float
    fails: bool

    @property
    def measured(self) -> str:
        """The compared number as text, in the form of the limit."""
        sign = "+" if self.condition.relative else ""
        return f"{self.found:{sign}.6g}{'%' if self.condition.percent else ''}"

    @property
    def excess(self) -> str:
        """The distance of the compared number from the limit, as text."""
        beyond = abs(self.found - self.condition.limit)
        unit = " percentage points" if self.condition.percent else ""
        return f"{beyond:.6g}{unit}"

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as in the JSON; an infinite percentage is null."""
        return {
            "condition": self.condition.text,
            "run": self.letter,
            "key": self.condition.key,
            "baseline": self.before,
            "value": self.after,
            "found": self.found if isfinite(self.found) else None,
            "limit": self.condition.limit,
            "fails": self.fails,
        }


def parse(text: str) -> Condition:
    """Parse a condition. Raises NpusimError, with the accepted forms, for any other text."""
    parts = _EXPRESSION.fullmatch(text)
    if parts is None:
        raise NpusimError(f'--fail-if "{text}": cannot be read; {HOW}')
    limit, percent = parts["limit"], bool(parts["percent"])
    relative = limit[0] in "+-"
    if percent and not relative:
        raise NpusimError(
            f'--fail-if "{text}": a percentage needs a sign: {limit}% may be +{limit}% or -{limit}%'
        )
    number = float(limit)
    if abs(number) > LARGEST_NUMBER:
        raise NpusimError(f'--fail-if "{text}": {limit} is too large')
    return Condition(text, parts["key"], parts["sign"], number, relative, percent)
