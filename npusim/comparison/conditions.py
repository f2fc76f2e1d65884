"""Conditions on a comparison, for continuous integration: `npusim compare --fail-if 'latency_ms>+5%'`.

    KEY > +5%      more than 5 % above the baseline
    KEY < -10%     more than 10 % below the baseline
    KEY > +0.1     more than 0.1 above the baseline, in the unit of the key
    KEY > 1000000  more than that, whatever the baseline

KEY is any number of the result's JSON with dots; layers go by name or position (`layers.conv.cycles`). The sign
makes a number relative to the baseline. `>=` and `<=` are there too.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from npusim.isa.base.errors import NpusimError
from npusim.isa.base.nearest import nearest

if TYPE_CHECKING:
    from npusim.comparison.comparison import Comparison
    from npusim.comparison.result_file import ResultFile

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
    """One expression, taken apart: `key` compared by `sign` with `limit`, a value, a difference or a percentage."""

    text: str
    key: str
    sign: str
    limit: float
    relative: bool
    percent: bool

    def judge(self, comparison: Comparison) -> Iterator[Verdict]:
        """Whether it holds for each run but the baseline. Raises NpusimError for a key that is no number."""
        before, *others = numbers(comparison.runs, self.key)
        for run, after in enumerate(others, 1):
            found = self._measured(before, after)
            holds = COMPARISONS[self.sign](found, self.limit)
            yield Verdict(self, comparison.letters[run], comparison.labels[run], before, after, found, holds)

    def _measured(self, before: float, after: float) -> float:
        from npusim.comparison.comparison import Change

        change = Change.between(before, after)
        return change.percent if self.percent else change.delta if self.relative else after


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a condition says of a run.

    found: what is compared with the limit: the value, or its difference or percentage against the baseline.
    fails: the condition holds, which is what was asked to fail on.
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
        """What was found, written as the limit is."""
        sign = "+" if self.condition.relative else ""
        return f"{self.found:{sign}.6g}{'%' if self.condition.percent else ''}"

    @property
    def excess(self) -> str:
        """How far what was found is beyond the limit, on the side that fails."""
        beyond = abs(self.found - self.condition.limit)
        unit = " percentage points" if self.condition.percent else ""
        return f"{beyond:.6g}{unit}"

    def to_dict(self) -> dict[str, Any]:
        """The verdict in the JSON; an infinite percentage is null."""
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
    """The condition of an expression. Raises NpusimError that says how to write one."""
    found = _EXPRESSION.fullmatch(text)
    if found is None:
        raise NpusimError(f'--fail-if "{text}": cannot be read; {HOW}')
    limit, percent = found["limit"], bool(found["percent"])
    relative = limit[0] in "+-"
    if percent and not relative:
        raise NpusimError(
            f'--fail-if "{text}": a percentage needs a sign: {limit}% may be +{limit}% or -{limit}%'
        )
    number = float(limit)
    if abs(number) > LARGEST_NUMBER:
        raise NpusimError(f'--fail-if "{text}": {limit} is too large')
    return Condition(text, found["key"], found["sign"], number, relative, percent)


def judge(conditions: Sequence[Condition], comparison: Comparison) -> list[Verdict]:
    """All verdicts: of every condition on every run but the baseline."""
    return [verdict for condition in conditions for verdict in condition.judge(comparison)]


def numbers(runs: Sequence[ResultFile], key: str) -> list[float]:
    """The number of a dotted key in each run. Raises NpusimError for a key that is unknown or holds no number."""
    return [_number(run, key) for run in runs]


def _number(run: ResultFile, key: str) -> float:
    where = run.source or f"{run.model} on {run.hardware}"
    if key not in run.flat:
        raise NpusimError(f"{where}: there is no {key}{_hint(run, key)}")
    value = run.flat[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LARGEST_NUMBER:
        shown = "unset" if value is None else repr(value) if isinstance(value, str) else str(value).lower()
        raise NpusimError(f"{where}: {key} is not a number: {shown}")
    return value


def _hint(run: ResultFile, key: str) -> str:
    """What may be meant: a key below a table, or the nearest one."""
    below = [known for known in run.flat if known.startswith(f"{key}.")]
    if below:
        return f" itself; it may be {', '.join(below[:3])}{', ...' if len(below) > 3 else ''}"
    named = (known for known in run.flat if not re.match(r"layers\.\d+\.", known))
    near = nearest(key, named)
    return f"; did you mean {near}?" if near else ""
