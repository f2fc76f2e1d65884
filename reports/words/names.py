"""Words and colours of reports: one name and one colour per unit, component and cause, everywhere.

Colours are told apart with the common kinds of colour blindness (the hues are those of Okabe and Ito, 2008, in
steps of lightness) and are never alone: what they stand for is written beside them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import (
    COMPONENTS,
    COMPUTING,
    KINDS,
    PORT,
    RESOURCES,
    WORKERS,
    Unit,
    label_of,
    units_of,
)
from npusim.numbers.bounds import LowerBound
from npusim.numbers.causes import CAUSES
from npusim.reports.words.quantities import printable

UNIT_NAMES: Mapping[str, str] = {kind.name: kind.short for kind in WORKERS} | {"none": "-"}
"""What does the work of a layer (`Layer.unit`), in few letters."""

UNIT_WORDS: Mapping[str, str] = {kind.name: kind.label for kind in WORKERS} | {"none": "nothing to do"}
"""The same in words."""

BOUND_NAMES: Mapping[str, str] = {**UNIT_NAMES, **{name: each.short for name, each in RESOURCES.items()}}
"""Short labels of `LayerResult.bound_by`; a further memory goes by its own name."""


def bound_name(name: str) -> str:
    """Return the short label of what a layer is bound by."""
    return BOUND_NAMES.get(name, name)


def bound_style(name: str) -> str:
    """Return the key of its colour in `RESOURCE_COLOURS`; all memories share that of the DRAM."""
    return name if name in RESOURCE_COLOURS else PORT


LIMITS: Mapping[str, str] = {name: each.limit for name, each in RESOURCES.items()} | {"none": "nothing"}
"""What sets a lower bound, in a sentence."""

LIMIT_NAMES: Mapping[str, str] = {name: each.label for name, each in RESOURCES.items()} | {"none": "no work"}
"""`LIMITS` in few words."""

_TRACKS = (*(kind for kind in KINDS if kind not in WORKERS), *COMPUTING, *WORKERS)
TRACK_NAMES: Mapping[Unit, str] = {unit: label_of(unit) for kind in _TRACKS for unit in units_of(kind)}
"""Tracks of a timeline from top to bottom."""

COMPONENT_NAMES: Mapping[str, str] = {each.name: each.label for each in COMPONENTS}
"""Components that energy is spent in, from the multipliers outwards."""

CAUSE_NAMES: Mapping[str, str] = {name: cause.label for name, cause in CAUSES.items()}
"""`npusim.numbers.causes.CAUSES` in few letters."""


DATAFLOW_NAMES: Mapping[str, str] = {
    "weight_stationary": "WS", "output_stationary": "OS", "depthwise": "DW",
}  # fmt: skip
"""Dataflows of the MAC array in few letters."""


def component_names(hardware: Hardware) -> dict[str, str]:
    """Components of a machine: those of all, and its further memories by their names."""
    return {**COMPONENT_NAMES, **{memory.name: memory.name for memory in hardware.memory}}


def component_style(name: str) -> str:
    """The component whose colour a component has: a further memory that of the DRAM."""
    return name if name in COMPONENT_COLOURS else "dram"


def limit_of(bound: LowerBound, resource: str = "") -> str:
    """What sets a bound, or another resource, in few words; a port other than the DRAM's by its memory."""
    name = resource or bound.bound_by
    return f"{bound.port} bandwidth" if name == PORT != bound.port else LIMIT_NAMES[name]


def dataflow_name(dataflow: str) -> str:
    """The dataflow of a layer (`LayerResult.dataflow`) in few letters."""
    return "+".join(DATAFLOW_NAMES.get(each, each) for each in dataflow.split("+"))


def main_name(name: str) -> str:
    """The first of the names that a converter has joined with ";" when it fused operators: the last operator's."""
    return name.split(";")[0] or name


RESOURCE_COLOURS: Mapping[str, str] = {
    name: kind.colour
    for kind in KINDS
    for name in (kind.resource.name if kind.resource else kind.name, kind.name)
} | {"none": "#9aa3ab"}
"""Units and resources; DMA channels and the DRAM they serve share one."""

COMPONENT_COLOURS: Mapping[str, str] = {each.name: each.colour for each in COMPONENTS}

CAUSE_COLOURS: Mapping[str, str] = {name: cause.colour for name, cause in CAUSES.items()}

REGION_COLOURS: Mapping[str, str] = {
    "constants": "#c2561a",
    "code": "#7b858e",
    "input": "#0b8a6b",
    "output": "#9a4f92",
    "maps": "#d9a514",
}
"""Regions of the DRAM by kind."""


CUT = "\N{HORIZONTAL ELLIPSIS}"
PLAIN_CUT = "..."

_PIECE = re.compile(r"[/_:.]?[^/_:.]+|[/_:.]")
"""A word of a name, with the mark that joins it to the one before."""


def short_names(names: Sequence[str], width: int, cut: str = CUT) -> list[str]:
    """Printable names in at most `width` characters each, different ones different where that is possible.

    What all begin or end with goes, up to a mark between words. Of a name that is still too long go the words that
    most names have, then the middle; `cut` stands for what went inside a name.
    """
    shown = _without_common([printable(main_name(name)) for name in names])
    frequency = Counter(piece for name in shown for piece in set(_PIECE.findall(name)))
    found = [_fitted(name, width, frequency, cut) for name in shown]
    return _told_apart(found, shown, width, cut)


def _without_common(names: list[str]) -> list[str]:
    """The names without the words that all of them begin or end with; nothing is left empty."""
    pieces = [_PIECE.findall(name) for name in names]
    if len({tuple(each) for each in pieces}) < 2:
        return names
    first = _alike(pieces)
    last = _alike([each[:first:-1] for each in pieces])
    kept = ["".join(each[first : len(each) - last]).lstrip("/_:.") for each in pieces]
    return kept if all(kept) else names


def _alike(sequences: Sequence[Sequence[str]]) -> int:
    """Return the length of the common beginning of all sequences."""
    columns = enumerate(zip(*sequences, strict=False))
    return next((at for at, column in columns if len(set(column)) > 1), min(map(len, sequences)))


def _fitted(name: str, width: int, frequency: Counter[str], cut: str) -> str:
    """The name in `width` characters: without its most frequent words, or without its middle."""
    pieces: list[str] = _PIECE.findall(name)
    kept = [True] * len(pieces)
    common = sorted(range(len(pieces)), key=lambda at: (-frequency[pieces[at]], -len(pieces[at]), at))
    for at in common[:-1]:
        if len(text := _joined(pieces, kept, cut)) <= width:
            return text
        kept[at] = False
        if len(_joined(pieces, kept, cut)) <= width:
            return _filled_up(pieces, kept, at, width, cut)
    return _middle_cut(name, width, cut)


def _filled_up(pieces: Sequence[str], kept: Sequence[bool], at: int, width: int, cut: str) -> str:
    """The kept pieces, with as much of the beginning of piece `at` as there is room for, if that is worth it."""
    for letters in range(len(pieces[at]) - 1, 2, -1):
        part = pieces[at][:letters] + cut
        text = _joined([*pieces[:at], part, *pieces[at + 1 :]], [*kept[:at], True, *kept[at + 1 :]], cut)
        if len(text) <= width:
            return text
    return _joined(pieces, kept, cut)


def _joined(pieces: Sequence[str], kept: Sequence[bool], cut: str) -> str:
    """The kept pieces, with `cut` for every run of others."""
    text = ""
    for piece, keep in zip(pieces, kept, strict=True):
        if keep:
            text += piece  # one that ends in a cut swallows the next
        elif not text.endswith(cut):
            text += cut
    return text


def _middle_cut(name: str, width: int, cut: str) -> str:
    if len(name) <= width:
        return name
    room = max(width - len(cut), 1)
    end = room - room // 3
    return (name[: room // 3] + cut + name[len(name) - end :])[-width:]


def _told_apart(found: list[str], names: Sequence[str], width: int, cut: str) -> list[str]:
    """Different names that became one are cut so that the part shows in which they differ."""
    groups: dict[str, list[int]] = {}
    for at, text in enumerate(found):
        groups.setdefault(text, []).append(at)
    for group in groups.values():
        different = sorted({names[at] for at in group})
        if len(different) < 2:
            continue
        same = _alike(different)
        for at in group:
            found[at] = _from(names[at], same, width, cut)
    return found


def _from(name: str, place: int, width: int, cut: str) -> str:
    """The name in `width` characters with those around `place`."""
    if len(name) <= width:
        return name
    room = width - 2 * len(cut)
    if room < 4:
        return name[max(min(place, len(name) - width), 0) :][:width]
    begin = max(min(place - room // 4, len(name) - room), 0)
    text = cut + name[begin : begin + room] if begin else name[: room + len(cut)]
    return text + cut if begin + room < len(name) else text
