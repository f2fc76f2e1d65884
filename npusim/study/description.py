"""Whether the description of a study, read from its folder, is one that npusim can have written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from npusim.isa.base.printable import replaced
from npusim.isa.hardware import file as hardware_file
from npusim.study.metrics import COMBINE, full_key
from npusim.study.space import Space
from npusim.study.space_file import Sampling

LARGEST_NUMBER = 1e30


def require_sound(plain: Mapping[str, Any]) -> None:
    """Raise ValueError or NpusimError that says what is wrong with the description of a study."""
    try:
        _require_space(Space.from_plain(plain["space"]))
        _require_models(plain["models"])
        _require(isinstance(plain["npusim_version"], str), "npusim_version: not text")
        _require_sampler(plain["sampler"])
    except LookupError as fault:
        raise ValueError(f"{replaced(str(fault), 40)} is missing") from None
    except (TypeError, AttributeError, ArithmeticError) as fault:
        raise ValueError(f"not a description: {fault}") from None


def _require_space(space: Space) -> None:
    _require(isinstance(space.name, str), "name: not text")
    for axis in space.axes:
        _require(len(axis.values) > 0, f"{axis.path}: has no values")
        for value in axis.values:
            hardware_file.field_value(axis.path, value)
    for key in space.keys:
        _require(full_key(key) == key, f"{key}: not the whole key")
    for objective in space.objectives:
        _require(objective.goal in ("min", "max"), f"{objective.key}: goal is neither min nor max")
    for limit in space.limits:
        _require(limit.relation in ("<=", ">=", "<", ">"), f"{limit.key}: no such relation")
        _require(_is_number(limit.bound), f"{limit.key}: the bound is not a number")
    _require(bool(space.objectives), "objectives: there are none")
    _require(space.combine in COMBINE, "combine: no such way")
    _require(space.programs in ("own", "shared"), "programs: neither own nor shared")
    _require(type(space.effort) is int and space.effort >= 0, "effort: not a whole number")


def _require_models(models: Any) -> None:
    _require(isinstance(models, list) and len(models) > 0, "models: there are none")
    for each in models:
        _require(
            set(each) - {"file", "shapes"} == {"name", "digest", "weight"},
            "models: not name, digest and weight",
        )
        _require(isinstance(each.get("shapes", []), list), "models: shapes that are no list")
        texts = (each["name"], each["digest"], each.get("file", ""), *each.get("shapes", ()))
        _require(all(isinstance(text, str) for text in texts), "models: not text")
        _require(_is_number(each["weight"]) and each["weight"] > 0, "models: a weight is not above 0")


def _require_sampler(sampler: Any) -> None:
    _require(isinstance(sampler, dict) and "kind" in sampler, "sampler: no table with a kind")
    try:
        Sampling.model_validate({key: sampler[key] for key in ("kind", "seed", "batch") if key in sampler})
    except ValidationError:
        raise ValueError("sampler: not what chooses points") from None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and abs(value) <= LARGEST_NUMBER


def _require(holds: bool, fault: str) -> None:
    if not holds:
        raise ValueError(fault)
