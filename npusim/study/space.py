"""The space of a hardware search: varying and derived parameters, constraints, objectives and limits.

A point has one value of each parameter. Its number is its place in the full grid, in which the last parameter varies
fastest. Studies name points by their numbers, whatever sampler chose them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from math import prod
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from npusim.isa.base.errors import HardwareError, NpusimError, nearest
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.toml_file import short
from npusim.isa.hardware import file as hardware_file
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.parameters import parameters
from npusim.study.expression import Expression, ExpressionError, parse
from npusim.study.stages import Stage, paths_up_to, stage

MOST_VALUES = 10_000
_DIGITS = 10
"""Significant digits of the values of a range, so that 0.30000000000000004 becomes 0.3."""

LARGEST_NUMBER = 1e15
"""Largest number in a range. Well above it, floats cannot tell whole numbers apart; no parameter comes near."""

Number = (
    Annotated[int, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
    | Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
)


class Range(BaseModel):
    """A range of values in a space file. Exactly one of step, factor and count defines its values."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    from_: Number = Field(alias="from")
    to: Number
    step: Annotated[Number, Field(gt=0)] | None = None
    factor: Annotated[Number, Field(gt=1)] | None = None
    count: Annotated[int, Field(ge=2, le=MOST_VALUES)] | None = None
    log: bool = False

    def fault(self) -> str | None:
        """Return the fault between its keys, or None."""
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
        """Return the values in ascending order, rounded to whole numbers if `whole`."""
        numbers = [_tidy(value, whole) for value in self._values()]
        return list(dict.fromkeys(numbers))

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
            # Tolerance, because steps such as 0.1 are rounded and must still reach the end.
            if value > self.to * (1 + 1e-12):
                return
            yield value


def _tidy(value: Number, whole: bool) -> Number:
    if whole:
        return round(value)
    return float(f"{value:.{_DIGITS}g}")


def listed_values(given: Any, whole: bool) -> list[Any]:
    """Return the values of a list or a range table. Raises ValueError with the fault."""
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
        result = Range.model_validate(given)
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
    fault = result.fault()
    if fault:
        raise ValueError(fault)
    return result


Values = Mapping[str, Any]
"""The values of parameters by path."""

Goal = Literal["min", "max"]
Programs = Literal["own", "shared"]


class InfeasibleError(NpusimError):
    """The error of a point without valid hardware; its text is the reason."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A parameter that varies."""

    path: str
    values: tuple[Any, ...]

    @property
    def ordered(self) -> bool:
        """True for numbers, whose order has a meaning; False for names."""
        return not any(isinstance(value, bool | str) for value in self.values)


@dataclass(frozen=True, slots=True)
class Objective:
    """A key of the JSON that a search minimises or maximises."""

    key: str
    goal: Goal

    def cost(self, value: float) -> float:
        """Return the value with the sign for which less is better."""
        return -value if self.goal == "max" else value


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on a result; a point beyond it is not feasible."""

    key: str
    relation: Literal["<=", ">=", "<", ">"]
    bound: float

    def excess(self, value: float) -> float:
        """Return how far a value is beyond the limit, relative to it; at most 0 if it is within.

        A strict limit itself is beyond.
        """
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
    derived:     parameters that are computed from others, in order; an expression may use those before it.
    constraints: conditions on the parameters; points that break one are excluded and never computed.
    objectives:  keys that are minimised or maximised; several ones give a front.
    limits:      conditions on results; points beyond one are not on the front.
    keep:        further keys that are recorded.
    combine:     the way to combine the values of several models (`npusim.study.metrics.COMBINE`).
    programs:    "own": every point is compiled for its own hardware. "shared": for its hardware with the
                 parameters of the stage `estimate` (and later) at those of the base, so that points that differ
                 in timing, energy or clock only execute the same program.
    effort:      number of schedules that the compiler tries for each program, beside the one by estimates.
    name:        name of its file without folder and suffix, which has no effect on results.
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
        """The number of points of the full grid, excluded ones included."""
        return prod(len(axis.values) for axis in self.axes)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Every key that is recorded: objectives, limits, and further ones (`keep`)."""
        keys = (
            [objective.key for objective in self.objectives]
            + [limit.key for limit in self.limits]
            + list(self.keep)
        )
        return tuple(dict.fromkeys(keys))

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """The paths of parameters that differ between points, derived ones included."""
        return (*(axis.path for axis in self.axes), *self.derived)

    def costs(self, values: Mapping[str, float]) -> list[float]:
        """Return the cost of recorded values in each objective; less is better, also for a maximised one."""
        return [objective.cost(values[objective.key]) for objective in self.objectives]

    def excess(self, values: Mapping[str, float]) -> float:
        """Return how far recorded values are beyond the limits, added up; 0 if they keep all of them."""
        return sum(max(0.0, limit.excess(values[limit.key])) for limit in self.limits)

    def point(self, number: int) -> dict[str, Any]:
        """Return the values of the parameters of a point, given by its number."""
        values = {}
        for axis in reversed(self.axes):
            number, index = divmod(number, len(axis.values))
            values[axis.path] = axis.values[index]
        return {axis.path: values[axis.path] for axis in self.axes}

    def number(self, indices: Sequence[int]) -> int:
        """Return the number of a point, given by the index of each parameter's value."""
        number = 0
        for axis, index in zip(self.axes, indices, strict=True):
            number = number * len(axis.values) + index
        return number

    def setting(self, number: int) -> dict[str, Any]:
        """Return all values that a point changes: its parameters and the derived ones. Raises InfeasibleError."""
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
        """Return whether a setting satisfies the constraints. Raises InfeasibleError for one without a value."""
        names = {**self._flat_base, **setting}
        try:
            return all(constraint(names) for constraint in self.constraints)
        except ExpressionError as fault:
            raise InfeasibleError(f"constraint {fault}") from None

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of the points that satisfy the constraints, in order."""
        return filter(self.admits, range(self.size))

    def hardware(self, setting: Values) -> Hardware:
        """Return the hardware of a setting. Raises InfeasibleError with the broken rules."""
        return _changed(self.base, setting)

    def compiled_for(self, setting: Values) -> Hardware:
        """Return the hardware for which the program of a point is compiled."""
        if self.programs == "own":
            return self.hardware(setting)
        return _changed(self.base, {path: setting[path] for path in self.program_paths if path in setting})

    @cached_property
    def program_paths(self) -> tuple[str, ...]:
        """The changed parameters that programs depend on.

        With a search over schedules, these include timing parameters, because the machine times each schedule.
        """
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
        """Return the space as plain values, equal for equal spaces; `from_plain` reads them."""
        return {
            "name": self.name,
            "hardware": hardware_file.to_dict(self.base),
            "parameters": {axis.path: list(axis.values) for axis in self.axes},
            "derived": {path: expression.text for path, expression in self.derived.items()},
            "constraints": [constraint.text for constraint in self.constraints],
            "objectives": [{"key": objective.key, "goal": objective.goal} for objective in self.objectives],
            "limits": [
                {"key": limit.key, "relation": limit.relation, "bound": limit.bound} for limit in self.limits
            ],
            "keep": list(self.keep),
            "combine": self.combine,
            "programs": self.programs,
            "effort": self.effort,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Space:
        """Return the space of plain values that `to_plain` wrote."""
        base = hardware_file.from_dict(plain["hardware"])
        names = known_names(base)
        return cls(
            base=base,
            axes=tuple(Axis(path, tuple(values)) for path, values in plain["parameters"].items()),
            objectives=tuple(Objective(**objective) for objective in plain["objectives"]),
            derived={path: parse(text, names) for path, text in plain["derived"].items()},
            constraints=tuple(parse(text, names) for text in plain["constraints"]),
            limits=tuple(Limit(**limit) for limit in plain["limits"]),
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
    """Return the names that expressions may use: every parameter of a machine."""
    return [parameter.path for parameter in parameters(base)]
