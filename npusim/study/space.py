"""A space of hardware: what varies, what follows from it, what is allowed, and what is looked for.

A point is its values, one of each parameter; its number is its place in the full grid, the last parameter
varying fastest. Numbers name points in studies, whatever sampler chose them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from npusim.isa.base.errors import HardwareError, NpusimError, nearest
from npusim.isa.base.toml_file import short
from npusim.isa.hardware import file as hardware_file
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.parameters import parameters
from npusim.study.expression import Expression, ExpressionError, parse
from npusim.study.stages import Stage, paths_up_to, stage

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


Values = Mapping[str, Any]
"""Parameters by path."""

Goal = Literal["min", "max"]
Programs = Literal["own", "shared"]


class InfeasibleError(NpusimError):
    """A point that no hardware can be: its text is the reason."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A parameter that varies."""

    path: str
    values: tuple[Any, ...]

    @property
    def ordered(self) -> bool:
        """True for numbers, whose neighbours are alike."""
        return not any(isinstance(value, bool | str) for value in self.values)


@dataclass(frozen=True, slots=True)
class Objective:
    """A key that is made small or large."""

    key: str
    goal: Goal

    def cost(self, value: float) -> float:
        """The value so that less is better."""
        return -value if self.goal == "max" else value


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound that a result keeps, or the point is not feasible."""

    key: str
    relation: Literal["<=", ">=", "<", ">"]
    bound: float

    def excess(self, value: float) -> float:
        """How far beyond the bound, relative to it; 0 and less is within (a strict bound has no room at 0)."""
        beyond = value - self.bound if self.relation.startswith("<") else self.bound - value
        if beyond == 0 and len(self.relation) == 1:
            return 1e-12
        return beyond / abs(self.bound) if self.bound else beyond

    def __str__(self) -> str:
        return f"{self.key} {self.relation} {self.bound:g}"


@dataclass(frozen=True)
class Space:
    """A space of hardware with its objectives, constraints and limits.

    base:        the hardware whose parameters vary.
    derived:     parameters that follow from others, in order: an expression may use those before it.
    constraints: what a point must satisfy to be in the space at all; excluded points are never computed.
    objectives:  what is made small or large; more than one give a front.
    limits:      what a result must keep to be on the front.
    keep:        further keys that are recorded.
    combine:     how the values of several models become one (`npusim.study.metrics.COMBINE`).
    programs:    "own": every point is compiled for its own hardware. "shared": for its hardware with the
                 parameters of the stage `estimate` (and later) at those of the base, so that points that differ
                 in timing, energy or clock only execute the same program.
    effort:      schedules that the compiler tries for each program, beside the one of its estimates.
    name:        what it is called: its file without folder and suffix; changes nothing that is computed.
    """

    base: Hardware
    axes: tuple[Axis, ...]
    objectives: tuple[Objective, ...]
    derived: Mapping[str, Expression] = field(default_factory=dict)
    constraints: tuple[Expression, ...] = ()
    limits: tuple[Limit, ...] = ()
    keep: tuple[str, ...] = ()
    combine: str = "mean"
    programs: Programs = "own"
    effort: int = 0
    name: str = ""

    @cached_property
    def size(self) -> int:
        """Points of the full grid, excluded ones included."""
        return prod(len(axis.values) for axis in self.axes)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Every key that is recorded: objectives, limits, and what is kept."""
        keys = [each.key for each in self.objectives] + [each.key for each in self.limits] + list(self.keep)
        return tuple(dict.fromkeys(keys))

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """The paths that differ between points, derived ones included."""
        return (*(axis.path for axis in self.axes), *self.derived)

    def point(self, number: int) -> dict[str, Any]:
        """The values of the parameters of a point, by its number."""
        found = {}
        for axis in reversed(self.axes):
            number, index = divmod(number, len(axis.values))
            found[axis.path] = axis.values[index]
        return {axis.path: found[axis.path] for axis in self.axes}

    def number(self, indices: Sequence[int]) -> int:
        """The number of a point, by the index of each parameter's value."""
        number = 0
        for axis, index in zip(self.axes, indices, strict=True):
            number = number * len(axis.values) + index
        return number

    def setting(self, number: int) -> dict[str, Any]:
        """All values that a point changes: its parameters and the derived ones. Raises InfeasibleError."""
        setting = self.point(number)
        if self.derived:
            names = {**self._flat_base, **setting}
            for path, expression in self.derived.items():
                setting[path] = names[path] = self._derived(path, expression, names)
        return setting

    def _derived(self, path: str, expression: Expression, names: Values) -> Any:
        try:
            value = expression(names)
            # 2 * 8 / 4 is 4.0, which a parameter of whole numbers takes.
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            return hardware_file.field_value(path, value)
        except ExpressionError as fault:
            raise InfeasibleError(f"derived {path}: {fault}") from None
        except ValueError as fault:
            raise InfeasibleError(f"derived {path}: {fault}") from None

    def admits(self, number: int) -> bool:
        """Return whether a point satisfies the constraints. One that cannot be judged passes, and fails by name."""
        if not self.constraints:
            return True
        try:
            return self.satisfied(self.setting(number))
        except InfeasibleError:
            return True

    def satisfied(self, setting: Values) -> bool:
        """Whether a setting satisfies the constraints. Raises InfeasibleError for one that has no value there."""
        names = {**self._flat_base, **setting}
        try:
            return all(constraint(names) for constraint in self.constraints)
        except ExpressionError as fault:
            raise InfeasibleError(f"constraint {fault}") from None

    def numbers(self) -> Iterator[int]:
        """The points of the grid that satisfy the constraints, in order."""
        return filter(self.admits, range(self.size))

    def hardware(self, setting: Values) -> Hardware:
        """The hardware of a setting. Raises InfeasibleError with the broken rules."""
        return _changed(self.base, setting)

    def compiled_for(self, setting: Values) -> Hardware:
        """The hardware that the compiler is given for a point."""
        if self.programs == "own":
            return self.hardware(setting)
        return _changed(self.base, {path: setting[path] for path in self.program_paths if path in setting})

    @cached_property
    def program_paths(self) -> tuple[str, ...]:
        """The changed parameters that programs depend on; a search over schedules times them on the machine."""
        last = Stage.STRUCTURE if self.programs == "shared" else Stage.TIME if self.effort else Stage.ESTIMATE
        return tuple(path for path in paths_up_to(last, self.base) if path in self.changed)

    @cached_property
    def run_paths(self) -> tuple[str, ...]:
        """The changed parameters that executions depend on."""
        return tuple(path for path in self.changed if stage(path) <= Stage.TIME)

    @cached_property
    def _flat_base(self) -> dict[str, Any]:
        return hardware_file.to_flat(self.base)

    def to_plain(self) -> dict[str, Any]:
        """The space as plain values: equal spaces give equal values; `from_plain` reads them."""
        return {
            "name": self.name,
            "hardware": hardware_file.to_dict(self.base),
            "parameters": {axis.path: list(axis.values) for axis in self.axes},
            "derived": {path: each.text for path, each in self.derived.items()},
            "constraints": [each.text for each in self.constraints],
            "objectives": [{"key": each.key, "goal": each.goal} for each in self.objectives],
            "limits": [
                {"key": each.key, "relation": each.relation, "bound": each.bound} for each in self.limits
            ],
            "keep": list(self.keep),
            "combine": self.combine,
            "programs": self.programs,
            "effort": self.effort,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Space:
        """The space of `to_plain`."""
        base = hardware_file.from_dict(plain["hardware"])
        names = known_names(base)
        return cls(
            base=base,
            axes=tuple(Axis(path, tuple(values)) for path, values in plain["parameters"].items()),
            objectives=tuple(Objective(**each) for each in plain["objectives"]),
            derived={path: parse(text, names) for path, text in plain["derived"].items()},
            constraints=tuple(parse(text, names) for text in plain["constraints"]),
            limits=tuple(Limit(**each) for each in plain["limits"]),
            keep=tuple(plain["keep"]),
            combine=plain["combine"],
            programs=plain["programs"],
            effort=plain["effort"],
            name=plain.get("name", ""),
        )


def _changed(base: Hardware, setting: Values) -> Hardware:
    try:
        return hardware_file.change(base, setting, "hardware", all_read=False)
    except HardwareError as fault:
        raise InfeasibleError(str(fault)) from None


def known_names(base: Hardware) -> list[str]:
    """The names that expressions may use: every parameter of a machine."""
    return [each.path for each in parameters(base)]
