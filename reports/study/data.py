"""The data of a study's page for its scripts: columns with one number per record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.isa.hardware import file as hardware_file
from npusim.reports.study.columns import Parameter, Value, level
from npusim.reports.words import quantities as show
from npusim.study.space import InfeasibleError
from npusim.study.study import LONGEST_DESCRIPTION

if TYPE_CHECKING:
    from npusim.study.evaluate import Record
    from npusim.study.study import Study

NO_RESULT, BEYOND_LIMITS, FEASIBLE, ON_FRONT = range(4)
DIGITS = 6


def data(study: Study, parameters: Sequence[Parameter], values: Sequence[Value]) -> dict[str, Any]:
    """Return all columns, in the order of `study.records`; null where a record has no value."""
    front = {record.point for record in study.front}
    reasons = list(Counter(filter(None, map(study.reason, study.records))))
    places = {reason: at for at, reason in enumerate(reasons)}
    settings = [study.space.point(record.point) for record in study.records]
    return {
        "points": [record.point for record in study.records],
        "state": [_state(study, record, front) for record in study.records],
        "reason": [places.get(study.reason(record)) for record in study.records],
        "reasons": [show.printable(reason) for reason in reasons],
        "parameters": [_parameter(parameter, settings) for parameter in parameters],
        "values": [_value(column, study) for column in values],
        "models": [show.printable(model.name) for model in study.models],
        "commands": [model.command for model in study.models],
        "base": _base(study, values),
        "hardware": _hardware(study, settings),
    }


def _state(study: Study, record: Record, front: set[int]) -> int:
    if record.reason:
        return NO_RESULT
    if not study.within_limits(record):
        return BEYOND_LIMITS
    return ON_FRONT if record.point in front else FEASIBLE


def _parameter(parameter: Parameter, settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    place = {value: at for at, value in enumerate(parameter.levels)}
    return {
        "path": parameter.path,
        "levels": [show.printable(level(value)) for value in parameter.levels],
        "at": [place[setting[parameter.path]] for setting in settings],
    }


def _value(value: Value, study: Study) -> dict[str, Any]:
    several = study.models if len(study.models) > 1 else ()
    return {
        "key": value.key,
        "label": value.label,
        "unit": show_unit(value.unit),
        "goal": value.goal,
        "log": value.logarithmic,
        "of": [_rounded(value, (record.values.get(value.key) for record in study.records))]
        + [
            _rounded(value, (record.by_model.get(model.name, {}).get(value.key) for record in study.records))
            for model in several
        ],
    }


def _base(study: Study, values: Sequence[Value]) -> list[list[float | None]]:
    """Return the values of the base hardware, of all models together and of each; null if they are unknown."""
    if study.base is None:
        return []
    tables = [study.base.values, *(study.base.by_model.get(model.name, {}) for model in study.models)]
    return [_rounded(value, (table.get(value.key) for table in tables)) for value in values]


def show_unit(unit: str) -> str:
    """Return a unit in print form, with micro signs and superscripts."""
    return unit.replace("uJ", "\N{MICRO SIGN}J").replace("us", "\N{MICRO SIGN}s").replace(
        "uW", "\N{MICRO SIGN}W"
    ).replace("mm2", "mm\N{SUPERSCRIPT TWO}")  # fmt: skip


def _rounded(value: Value, recorded: Iterable[float | None]) -> list[float | None]:
    """Convert recorded values to the column's unit, rounded to more digits than any axis or table shows."""
    return [None if number is None else _short(value.amount(number)) for number in recorded]


def _short(amount: float) -> float:
    short = float(f"{amount:.{DIGITS}g}")
    return int(short) if short.is_integer() else short


def _hardware(study: Study, settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the data from which the page writes the hardware file of any point, as TOML.

    extends: the preset that the file extends; fixed: its changes that all points share.
    changes: for every path that differs between points, the texts of its values, and the index for each record.
    """
    extends, fixed = _nearest_preset(study)
    full = [_setting(study, record, plain) for record, plain in zip(study.records, settings, strict=True)]
    changes = []
    for path in study.space.changed:
        texts: dict[str, int] = {}
        at = [
            None if path not in flat else texts.setdefault(hardware_file.toml_value(flat[path]), len(texts))
            for flat in full
        ]
        changes.append({"path": path, "texts": list(texts), "at": at if len(texts) > 1 else 0})
    fixed = {
        path: hardware_file.toml_value(value)
        for path, value in fixed.items()
        if path not in study.space.changed
    }
    return {
        "extends": extends and hardware_file.toml_value(extends),
        "fixed": {path: text for path, text in fixed.items() if path not in ("name", "description")},
        "changes": changes,
        "name": study.hardware_name,
        "description": study.hardware_description,
        "most": LONGEST_DESCRIPTION,
    }


def _setting(study: Study, record: Record, plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters of a record, with the derived ones if these can be computed."""
    try:
        return study.space.setting(record.point) if study.space.derived else plain
    except InfeasibleError:
        return plain


def _nearest_preset(study: Study) -> tuple[str, dict[str, Any]]:
    """Return the preset that differs least from the base hardware, and the differences; "" if none can be extended."""
    base = hardware_file.to_flat(study.space.base)
    presets = [("", base)]
    for name in hardware_file.list_presets():
        preset = hardware_file.to_flat(hardware_file.hardware(name))
        differing = {path: value for path, value in base.items() if preset.get(path) != value}
        if set(preset) <= set(base):  # a file that extends a preset cannot unset a value of it
            presets.append((name, differing))
    return min(presets, key=lambda candidate: len(candidate[1]))
