"""The lines of a study's file: each holds a record, and is checked when it is read.

    {"point": 7, "parameters": {...}, "values": {...}, "sha256": "0123456789abcdef"}

The checksum covers the checksum of the study's description and the content of the line before the `sha256` key. So an
edited value, or a line of another study, is recognised as damage. Lines of format 1 (npusim 0.1.0) have no checksum;
only their structure is checked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from pydantic import ValidationError

from npusim.isa.base.errors import replaced
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware import file as hardware_file
from npusim.study.evaluate import Record
from npusim.study.metrics import COMBINE, LARGEST_VALUE, full_key, is_value
from npusim.study.space import Space
from npusim.study.space_file import Sampling

BEGIN = b'{"point": '
LONGEST_LINE_BYTES = 1 << 22
LONGEST_REASON = 10_000
BASE_POINT = -1
"""The number of the base hardware, which is no point of the space."""

_CHECKSUM = b', "sha256": "'
_DIGITS = 16


def checksum(*parts: bytes) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of bytes: enough to detect edits, and short."""
    return sha256(b"".join(parts)).hexdigest()[:_DIGITS]


@dataclass(frozen=True)
class Lines:
    """The format of the lines of one study.

    models: names of the study's models.
    study:  checksum of its description; "" for format 1, which has no checksums.
    """

    space: Space
    models: tuple[str, ...]
    study: str

    def write(self, record: Record) -> bytes:
        """Return a record as a line, newline included."""
        plain: dict[str, Any] = {"point": record.point}
        if record.point != BASE_POINT:
            plain["parameters"] = self.space.point(record.point)
        if record.reason:
            plain["infeasible"] = record.reason[:LONGEST_REASON]
        else:
            plain["values"] = dict(record.values)
        if record.by_model:
            plain["models"] = {name: dict(values) for name, values in record.by_model.items()}
        body = json.dumps(plain, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")[:-1]
        return body + _CHECKSUM + checksum(self.study.encode(), body).encode() + b'"}\n'

    def read(self, line: bytes, *, base: bool = False) -> Record:
        """Return the record of a line. Raises ValueError, with the fault, for an invalid line."""
        if len(line) > LONGEST_LINE_BYTES:
            raise ValueError(f"longer than {LONGEST_LINE_BYTES} bytes")
        if self.study:
            body, mark, digits = line.rstrip(b"\r\n").rpartition(_CHECKSUM)
            if not mark:
                raise ValueError("has no checksum")
            if digits != checksum(self.study.encode(), body).encode() + b'"}':
                raise ValueError("does not match its checksum, so it was edited or belongs to another study")
        try:
            plain = json.loads(line, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise ValueError("not valid JSON") from None
        return self._record(plain, base)

    def _record(self, plain: object, base: bool) -> Record:
        if not isinstance(plain, dict):
            raise ValueError("not a record")
        point = plain.get("point")
        if base and point != BASE_POINT:
            raise ValueError(f"point: not {BASE_POINT}, the number of the base hardware")
        if type(point) is not int or not (base or 0 <= point < self.space.size):
            raise ValueError(f"point: not a whole number from 0 to {self.space.size - 1}")
        if not base and plain.get("parameters") != self.space.point(point):
            raise ValueError(f"parameters: not those of point {point}")
        reason = plain.get("infeasible", "")
        if "infeasible" in plain:
            if not isinstance(reason, str) or not 0 < len(reason) <= LONGEST_REASON:
                raise ValueError("infeasible: not a reason")
            if "values" in plain or "models" in plain:
                raise ValueError("infeasible: there are values too")
            return Record(point, reason=reason)
        values = self._values(plain.get("values"), "values")
        return Record(point, values, self._by_model(plain.get("models", {})))

    def _by_model(self, plain: object) -> dict[str, Mapping[str, float]]:
        names = self.models if len(self.models) > 1 else ()
        table = _table(plain, names, "models")
        return {name: self._values(table[name], f"models: {name}") for name in names}

    def _values(self, plain: object, where: str) -> dict[str, float]:
        table = _table(plain, self.space.keys, where)
        for key, value in table.items():
            if not is_value(value):
                raise ValueError(f"{where}: {key}: not a number from {-LARGEST_VALUE:g} to {LARGEST_VALUE:g}")
        return {key: table[key] for key in self.space.keys}


def _table(plain: object, keys: tuple[str, ...], where: str) -> dict[str, Any]:
    """Return a value that is a table with exactly these keys. Raises ValueError for others."""
    if not isinstance(plain, dict):
        raise ValueError(f"{where}: missing, or not a table")
    if plain.keys() != set(keys):
        raise ValueError(f"{where}: not exactly {', '.join(keys) or 'nothing'}")
    return plain


def _no_constant(word: str) -> Callable[[], float]:
    raise ValueError(word)


def require_sound(plain: Mapping[str, Any]) -> None:
    """Check the description of a study. Raises ValueError or NpusimError with its fault."""
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
    _require(space.combine in COMBINE, f"combine: not one of {', '.join(COMBINE)}")
    _require(space.programs in ("own", "shared"), "programs: neither own nor shared")
    _require(type(space.effort) is int and space.effort >= 0, "effort: not a whole number")


def _require_models(models: Any) -> None:
    _require(isinstance(models, list) and len(models) > 0, "models: there are none")
    for model in models:
        _require(
            set(model) - {"file", "shapes"} == {"name", "digest", "weight"},
            "models: not name, digest and weight",
        )
        _require(isinstance(model.get("shapes", []), list), "models: shapes that are no list")
        texts = (model["name"], model["digest"], model.get("file", ""), *model.get("shapes", ()))
        _require(all(isinstance(text, str) for text in texts), "models: not text")
        _require(_is_number(model["weight"]) and model["weight"] > 0, "models: a weight is not above 0")


def _require_sampler(sampler: Any) -> None:
    _require(isinstance(sampler, dict) and "kind" in sampler, "sampler: no table with a kind")
    try:
        Sampling.model_validate({key: sampler[key] for key in ("kind", "seed", "batch") if key in sampler})
    except ValidationError:
        raise ValueError("sampler: kind, seed or batch is not valid") from None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and abs(value) <= LARGEST_VALUE


def _require(holds: bool, fault: str) -> None:
    if not holds:
        raise ValueError(fault)
