"""The reader of space files, from TOML to a checked `Space`. All faults of a file are reported in one line.

extends = "edge-128"                       # the hardware that varies: a preset or a hardware file
objectives = ["latency", "energy", "area"]
constraints = ["mac_array.rows >= mac_array.columns"]

[parameters]
mac_array.rows = [8, 16, 32]
scratchpad.size_kib = { from = 64, to = 2048, factor = 2 }

[derived]
mac_array.ifm_bytes_per_cycle = "mac_array.rows"

[limits]
area = "<= 4"

[sampler]
kind = "nsga2"
points = 200
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError

from npusim.isa.base import user_file
from npusim.isa.base.errors import HardwareError, NpusimError, nearest
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.toml_file import listed, read, short
from npusim.isa.hardware import file as hardware_file
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.parameters import parameter, why_unread
from npusim.session.api import DEFAULT_HARDWARE
from npusim.session.options import Options
from npusim.study.expression import Expression, ExpressionError, parse
from npusim.study.metrics import HIGHER_IS_BETTER, LARGEST_VALUE, LEAST_WEIGHT, MOST_WEIGHT, full_key
from npusim.study.space import (
    Axis,
    Goal,
    InfeasibleError,
    Limit,
    Objective,
    Programs,
    Space,
    known_names,
    listed_values,
)

DEFAULT_OBJECTIVES = ["latency_ms", "energy_uj.total", "area_mm2.total"]
DEFAULT_POINTS = 100
Weight = Annotated[float, Field(ge=LEAST_WEIGHT, le=MOST_WEIGHT)]
Models = Annotated[  # faults of what was meant only, not of the other form too
    Annotated[list[str], Tag("list[name]")] | Annotated[dict[str, Weight], Tag("dict[name, weight]")],
    Discriminator(lambda given: "list[name]" if isinstance(given, list) else "dict[name, weight]"),
]
SamplerKind = Literal["grid", "random", "nsga2", "tpe"]
MOST_GRID_POINTS = 1_000_000


class SpaceError(NpusimError):
    """The error of a space file; its text lists all faults."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Sampling(_Table):
    """The sampler of a search with its settings.

    points: number of points to compute (not for grid).
    batch:  number of points that nsga2 and tpe choose before they see results. It does not depend on how many points
            are computed at the same time, so that results do not either.
    """

    kind: SamplerKind = "grid"
    points: Annotated[int, Field(ge=1, le=10_000_000)] = DEFAULT_POINTS
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    batch: Annotated[int, Field(ge=2, le=10_000)] | None = None


class _ObjectiveTable(_Table):
    key: str
    goal: Goal | None = None


class _SpaceTables(_Table):
    extends: str = DEFAULT_HARDWARE
    hardware: dict[str, Any] = {}
    parameters: dict[str, Any]
    derived: dict[str, Any] = {}
    constraints: list[str] = []
    objectives: list[Any] = Field(default=[*DEFAULT_OBJECTIVES], min_length=1)
    limits: dict[str, Any] = {}
    keep: list[str] = []
    combine: Literal["mean", "sum", "geomean", "max"] = "mean"
    programs: Programs = "own"
    effort: str | int = "fast"
    sampler: Sampling = Sampling()
    models: Models = {}


@dataclass(frozen=True)
class SpaceFile:
    """The content of a space file.

    models:  names or paths of models with their weights; may be empty.
    extends: preset or hardware file of the base hardware, as written in the file.
    """

    space: Space
    sampling: Sampling
    models: Mapping[str, float]
    extends: str = DEFAULT_HARDWARE


def read_space(path: str | Path, overrides: Mapping[str, Any] | None = None) -> SpaceFile:
    """Read a space file. overrides: values that replace its top-level keys and keys of its tables.

    Raises SpaceError with every fault in one line.
    """
    shown = str(path)
    values = read(Path(path), shown, user_file.SPACE, SpaceError)
    return from_values(values, Path(path), overrides)


def from_values(
    values: Mapping[str, Any], path: Path, overrides: Mapping[str, Any] | None = None
) -> SpaceFile:
    """Check plain values that are nested as in a space file. Relative names are resolved beside `path`."""
    merged = dict(values)
    for key, item in (overrides or {}).items():
        below = merged.get(key)
        merged[key] = below | item if isinstance(below, dict) and isinstance(item, dict) else item
    return _Reader(path).read(merged)


class _Reader:
    """The conversion of tables into a space; it collects faults by path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: dict[str, str] = {}
        self.names: list[str] = []

    def read(self, values: Mapping[str, Any]) -> SpaceFile:
        tables = self._tables(values)
        base = self._base(tables)
        self.names = known_names(base)
        axes = tuple(self._axes(tables.parameters))
        derived = self._derived(tables.derived, {axis.path for axis in axes})
        constraints = tuple(self._expressions("constraints", tables.constraints))
        objectives = tuple(self._objectives(tables.objectives))
        limits = tuple(self._limits(tables.limits))
        keep = tuple(key for at, name in _numbered("keep", tables.keep) if (key := self._key(at, name)))
        effort = self._effort(tables.effort)
        if not axes and not self.faults:
            self.faults["parameters"] = "is empty: nothing varies"
        if self.faults:
            self._fail()
        space = Space(
            base,
            axes,
            objectives,
            derived,
            constraints,
            limits,
            keep,
            tables.combine,
            tables.programs,
            effort,
            self.path.stem,
        )
        self._check_read(space)
        self._check_size(space, tables.sampler)
        self._check_constraints(space)
        models = tables.models
        weights = models if isinstance(models, dict) else dict.fromkeys(models, 1.0)
        return SpaceFile(space, tables.sampler, weights, tables.extends)

    def _fail(self) -> None:
        raise SpaceError(f"{self.path}: {listed(self.faults)}")

    def _tables(self, values: Mapping[str, Any]) -> _SpaceTables:
        try:
            return _SpaceTables.model_validate(dict(values))
        except ValidationError as error:
            for item in error.errors(include_url=False, include_context=False):
                where, text = _words(item["loc"], item["type"], item["msg"], item["input"])
                self.faults.setdefault(where, text)
            self._fail()
            raise

    def _base(self, tables: _SpaceTables) -> Hardware:
        try:
            return hardware_file.extend(tables.extends, tables.hardware, self.path)
        except HardwareError as fault:
            raise SpaceError(str(fault)) from None

    def _axes(self, tables: Mapping[str, Any]) -> Iterator[Axis]:
        for path, given in _by_path(tables, lambda item: isinstance(item, dict) and "from" not in item):
            where = f"parameters.{path}"
            try:
                values = listed_values(given, _whole(path))
                checked = [hardware_file.field_value(path, value) for value in values]
            except ValueError as fault:
                self.faults[where] = str(fault)
                continue
            if path not in self.names:
                self.faults[where] = "the base hardware has no memory of this name"
            elif path in ("name", "description"):
                self.faults[where] = "changes nothing that is simulated"
            elif path == "lacks_operators":
                self.faults[where] = (
                    "a study does not vary it; give a space for each machine, with [hardware]"
                )
            elif len(set(checked)) < len(checked):
                twice = next(value for value, count in Counter(checked).items() if count > 1)
                self.faults[where] = f"lists {short(twice)} twice"
            else:
                yield Axis(path, tuple(checked))

    def _derived(self, tables: Mapping[str, Any], varied: set[str]) -> dict[str, Expression]:
        expressions: dict[str, Expression] = {}
        for path, text in _by_path(tables, lambda item: isinstance(item, dict)):
            where = f"derived.{path}"
            if path not in self.names:
                near = nearest(path, self.names)
                self.faults[where] = f"unknown parameter{f', did you mean {near}?' if near else ''}"
            elif path in varied:
                self.faults[where] = "is also in [parameters]; it either varies or follows"
            elif not isinstance(text, str):
                self.faults[where] = f'{short(text)} is not an expression, such as "mac_array.rows * 2"'
            else:
                expressions.update(
                    (path, parsed) for parsed in self._expressions(where, [text], numbered=False)
                )
        return expressions

    def _expressions(self, where: str, texts: Sequence[str], numbered: bool = True) -> Iterator[Expression]:
        for at, text in _numbered(where, texts):
            try:
                yield parse(text, self.names)
            except ExpressionError as fault:
                self.faults[at if numbered else where] = str(fault)

    def _key(self, where: str, key: str) -> str:
        try:
            return full_key(key)
        except ValueError as fault:
            self.faults[where] = f"{short(key)}: {fault}"
            return ""

    def _objectives(self, given: Sequence[Any]) -> Iterator[Objective]:
        seen = set()
        for at, item in _numbered("objectives", given):
            try:
                table = _ObjectiveTable.model_validate({"key": item} if isinstance(item, str) else item)
            except ValidationError:
                self.faults[at] = (
                    f'{short(item)} is neither a key nor {{ key = "...", goal = "min" or "max" }}'
                )
                continue
            key = self._key(at, table.key)
            if key and key in seen:
                self.faults[at] = f"{short(table.key)} is listed twice"
            seen.add(key)
            usual: Goal = "max" if key.partition(".")[0] in HIGHER_IS_BETTER else "min"
            yield Objective(key, table.goal or usual)

    def _limits(self, tables: Mapping[str, Any]) -> Iterator[Limit]:
        for name, given in _by_path(tables, lambda item: isinstance(item, dict)):
            where = f"limits.{name}"
            key = self._key(where, name)
            for text in given if isinstance(given, list) else [given]:
                match = re.fullmatch(r"\s*(<=|>=|<|>)\s*(\S+)\s*", text) if isinstance(text, str) else None
                try:
                    if match is None:
                        raise ValueError
                    yield Limit(key, match[1], _finite(match[2]))  # type: ignore[arg-type]
                except ValueError:
                    self.faults[where] = f'{short(text)} is not a limit, such as "<= 4"'

    def _effort(self, given: str | int) -> int:
        try:
            return Options(given).schedules
        except NpusimError as fault:
            self.faults["effort"] = str(fault).removeprefix("effort ")
            return 0

    def _check_read(self, space: Space) -> None:
        """Report parameters that no machine of the space reads.

        Checks each MAC engine type with all other parameters at their first and at their last values, because most
        conditions are met by a value above 0.
        """
        kinds = [axis.values for axis in space.axes if axis.path == "mac_array.kind"] or [(None,)]
        machines = []
        for kind, end in product(range(len(kinds[0])), (0, -1)):
            places = [
                kind if axis.path == "mac_array.kind" else range(len(axis.values))[end] for axis in space.axes
            ]
            try:
                machines.append(space.hardware(space.setting(space.number(places))))
            except InfeasibleError:
                continue
        for path in space.changed if machines else ():
            reasons = [why_unread(machine, path) for machine in machines]
            if all(reasons):
                table = "derived" if path in space.derived else "parameters"
                self.faults[f"{table}.{path}"] = reasons[0]
        if self.faults:
            self._fail()

    def _check_size(self, space: Space, sampling: Sampling) -> None:
        if sampling.kind == "grid" and space.size > MOST_GRID_POINTS:
            raise SpaceError(
                f"{self.path}: the grid has {space.size} points, more than {MOST_GRID_POINTS}; "
                'choose another sampler ("random", "nsga2", "tpe") or fewer values'
            )

    def _check_constraints(self, space: Space) -> None:
        """Report constraints that have no value at either end of the space."""
        for at, constraint in _numbered("constraints", space.constraints):
            alone, faults = replace(space, constraints=(constraint,)), set()
            for number in (0, space.size - 1):
                try:
                    setting = space.setting(number)
                except InfeasibleError:
                    break
                try:
                    alone.satisfied(setting)
                    break
                except InfeasibleError as fault:
                    faults.add(str(fault))
            else:
                self.faults[at] = " and ".join(sorted(faults)).removeprefix("constraint ")
        if self.faults:
            self._fail()


def _finite(text: str) -> float:
    value = float(text)
    if not abs(value) <= LARGEST_VALUE:
        raise ValueError
    return value


def _numbered(where: str, items: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    return ((f"{where}[{i}]", item) for i, item in enumerate(items))


def _by_path(tables: Mapping[str, Any], nested: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Return entries by dotted path, for which `a.b = 1` and `"a.b" = 1` are the same."""
    for key, item in tables.items():
        if nested(item):
            yield from _by_path(item, nested, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", item


def _whole(path: str) -> bool:
    known = parameter(path)
    return known is not None and known.allowed.startswith("a whole number")


def _words(loc: Sequence[int | str], kind: str, message: str, given: object) -> tuple[str, str]:
    """Return path and message of one fault that pydantic found."""
    fields: Mapping[str, Any] = _SpaceTables.model_fields
    keys = [str(part) for part in loc]
    if keys[0] == "sampler" and len(keys) > 1:
        fields = Sampling.model_fields
    if keys[0] in ("models", "effort"):  # the branch of the union is not part of the path
        keys = [key for key in keys if "[" not in key and key not in ("str", "int")]
    where = ".".join(keys)
    if kind == "extra_forbidden":
        near = nearest(keys[-1], fields)
        return (
            where,
            f"unknown key, {f'did you mean {near}?' if near else 'known here: ' + ', '.join(fields)}",
        )
    if kind == "missing":
        return where, "is missing"
    words = message.replace("Input should be", "must be")
    return where, f"{short(given)}: {words[0].lower()}{words[1:]}"
