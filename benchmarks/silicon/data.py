"""isa/hardware/agreement.toml: what the product says of the error of its presets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256

from benchmarks.silicon.frame import Agreement, Chip, Compared, agreement
from benchmarks.silicon.page import Result, held_out, ranges
from npusim.isa.base.version import npusim_version
from npusim.isa.hardware.file import hardware, list_presets, toml_value

_HEAD = """\
# Written by `python -m benchmarks silicon --write`, with docs/silicon.md and from the same rows. Not to be edited.
# `npusim.isa.hardware.agreement` says what the keys mean; what the rows themselves are is in docs/silicon.md.
"""
PLACES = 6


def text(results: Sequence[Result]) -> str:
    """The file."""
    presets = dict.fromkeys(chip.preset for chip, _ in results if chip.preset in list_presets())
    lines = [f"npusim_version = {toml_value(npusim_version())}", "", "[presets]"]
    lines += [f"{name} = {toml_value(digest(name))}" for name in presets]
    return "\n".join([_HEAD, *lines, *(line for result in results for line in _table(*result))]) + "\n"


def digest(preset: str) -> str:
    """The beginning of the SHA-256 of what a preset sets: a key that is new and has its default changes nothing."""
    values = hardware(preset).model_dump(mode="json", exclude_defaults=True)
    values = {key: value for key, value in values.items() if key not in ("name", "description")}
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _table(chip: Chip, rows: Sequence[Compared]) -> Iterator[str]:
    every, aside = agreement(rows), held_out(rows)
    yield from ("", "[[agreement]]")
    for key in ("preset", "quantity", "referee"):
        yield f"{key} = {toml_value(getattr(chip, key))}"
    yield from _numbers(every)
    yield f"bias = {round(every.bias, PLACES)}"
    if every.rank is not None:
        yield f"rank = {round(every.rank, PLACES)}"
    settings = ranges(chip, rows)
    if settings:
        inside = ", ".join(f'"{key}" = [{least}, {most}]' for key, (least, most) in settings.items())
        yield f"settings = {{ {inside} }}"
    if aside:
        yield f"held_out = {{ {', '.join(_numbers(aside))} }}"


def _numbers(found: Agreement) -> Iterator[str]:
    yield f"rows = {found.rows}"
    yield f"error = {round(found.error, PLACES)}"
    yield f"worst = {round(found.worst, PLACES)}"
