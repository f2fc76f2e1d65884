"""Names and colours in reports: one name and one colour per unit, component and cause, in all reports.

The colours can be distinguished with the common types of colour blindness: the hues are those of Okabe and Ito (2008),
in steps of lightness. A label always stands beside a colour.
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
"""Short name of the unit that does the work of a layer (`Layer.unit`)."""

UNIT_WORDS: Mapping[str, str] = {kind.name: kind.label for kind in WORKERS} | {"none": "nothing to do"}
"""Full name of the unit that does the work of a layer (`Layer.unit`)."""

BOUND_NAMES: Mapping[str, str] = {**UNIT_NAMES, **{name: each.short for name, each in RESOURCES.items()}}
"""Short labels of `LayerResult.bound_by`; a further memory goes by its own name."""


def bound_name(name: str) -> str:
    """Return the short label of what a layer is bound by."""
    return BOUND_NAMES.get(name, name)


def bound_style(name: str) -> str:
    """Return the key of its colour in `RESOURCE_COLOURS`; all memories share that of the DRAM."""
    return name if name in RESOURCE_COLOURS else PORT


LIMITS: Mapping[str, str] = {name: each.limit for name, each in RESOURCES.items()} | {"none": "nothing"}
"""Names of the resources that set a lower bound, for a sentence."""

LIMIT_NAMES: Mapping[str, str] = {name: each.label for name, each in RESOURCES.items()} | {"none": "no work"}
"""Short names of the resources that set a lower bound."""

_TRACKS = (*(kind for kind in KINDS if kind not in WORKERS), *COMPUTING, *WORKERS)
TRACK_NAMES: Mapping[Unit, str] = {unit: label_of(unit) for kind in _TRACKS for unit in units_of(kind)}
"""Tracks of a timeline from top to bottom."""

COMPONENT_NAMES: Mapping[str, str] = {each.name: each.label for each in COMPONENTS}
"""Names of the components that consume energy, from the multipliers outwards."""

CAUSE_NAMES: Mapping[str, str] = {name: cause.label for name, cause in CAUSES.items()}
"""Short names of the causes of lost cycles (`npusim.numbers.causes.CAUSES`)."""


DATAFLOW_NAMES: Mapping[str, str] = {
    "weight_stationary": "WS", "output_stationary": "OS", "depthwise": "DW",
}  # fmt: skip
"""Abbreviations of the dataflows of the MAC array."""


def component_names(hardware: Hardware) -> dict[str, str]:
    """Return the names of the components of a machine, including its further memories."""
    return {**COMPONENT_NAMES, **{memory.name: memory.name for memory in hardware.memory}}


def component_style(name: str) -> str:
    """Return the component whose colour a component has; a further memory has that of the DRAM."""
    return name if name in COMPONENT_COLOURS else "dram"


def limit_of(bound: LowerBound, resource: str = "") -> str:
    """Return the short name of a resource that can set a lower bound; a memory's port has the memory's name."""
    name = resource or bound.bound_by
    return f"{bound.port} bandwidth" if name == PORT != bound.port else LIMIT_NAMES[name]


def dataflow_name(dataflow: str) -> str:
    """Return the abbreviation of a layer's dataflow (`LayerResult.dataflow`)."""
    return "+".join(DATAFLOW_NAMES.get(part, part) for part in dataflow.split("+"))


def main_name(name: str) -> str:
    """Return the first name if a converter joined the names of fused operators with ";": that of the last operator."""
    return name.split(";")[0] or name


RESOURCE_COLOURS: Mapping[str, str] = {
    name: kind.colour
    for kind in KINDS
    for name in (kind.resource.name if kind.resource else kind.name, kind.name)
} | {"none": "#9aa3ab"}
"""Colours of units and resources; DMA channels and the DRAM share one."""

COMPONENT_COLOURS: Mapping[str, str] = {each.name: each.colour for each in COMPONENTS}

CAUSE_COLOURS: Mapping[str, str] = {name: cause.colour for name, cause in CAUSES.items()}

REGION_COLOURS: Mapping[str, str] = {
    "constants": "#c2561a",
    "code": "#7b858e",
    "input": "#0b8a6b",
    "output": "#9a4f92",
    "maps": "#d9a514",
}
"""Colours of the regions of the DRAM."""


CUT = "\N{HORIZONTAL ELLIPSIS}"
PLAIN_CUT = "..."

_PIECE = re.compile(r"[/_:.]?[^/_:.]+|[/_:.]")
"""Pattern of a word in a name, with the separator in front of it."""


def short_names(names: Sequence[str], width: int, cut: str = CUT) -> list[str]:
    """Return printable names of at most `width` characters, which stay different where possible.

    The words with which all names begin or end are removed. A name that is still too long loses its most frequent
    words, then its middle. `cut` replaces the parts removed inside a name.
    """
    shown = _without_common([printable(main_name(name)) for name in names])
    frequency = Counter(piece for name in shown for piece in set(_PIECE.findall(name)))
    fitted = [_fitted(name, width, frequency, cut) for name in shown]
    return _told_apart(fitted, shown, width, cut)


def _without_common(names: list[str]) -> list[str]:
    """Return the names without the words with which all begin or end; unchanged if a name would become empty."""
    pieces = [_PIECE.findall(name) for name in names]
    if len({tuple(parts) for parts in pieces}) < 2:
        return names
    first = _alike(pieces)
    last = _alike([parts[:first:-1] for parts in pieces])
    kept = ["".join(parts[first : len(parts) - last]).lstrip("/_:.") for parts in pieces]
    return kept if all(kept) else names


def _alike(sequences: Sequence[Sequence[str]]) -> int:
    """Return the length of the common beginning of all sequences."""
    columns = enumerate(zip(*sequences, strict=False))
    return next((at for at, column in columns if len(set(column)) > 1), min(map(len, sequences)))


def _fitted(name: str, width: int, frequency: Counter[str], cut: str) -> str:
    """Return a name in `width` characters, without its most frequent words, or without its middle."""
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
    """Return the kept pieces joined, with the longest beginning of piece `at` that fits (at least three letters)."""
    for letters in range(len(pieces[at]) - 1, 2, -1):
        part = pieces[at][:letters] + cut
        text = _joined([*pieces[:at], part, *pieces[at + 1 :]], [*kept[:at], True, *kept[at + 1 :]], cut)
        if len(text) <= width:
            return text
    return _joined(pieces, kept, cut)


def _joined(pieces: Sequence[str], kept: Sequence[bool], cut: str) -> str:
    """Return the kept pieces joined, with `cut` in place of every run of removed ones."""
    text = ""
    for piece, keep in zip(pieces, kept, strict=True):
        if keep:
            text += piece  # if this piece ends in `cut`, no second one follows
        elif not text.endswith(cut):
            text += cut
    return text


def _middle_cut(name: str, width: int, cut: str) -> str:
    if len(name) <= width:
        return name
    room = max(width - len(cut), 1)
    end = room - room // 3
    return (name[: room // 3] + cut + name[len(name) - end :])[-width:]


def _told_apart(texts: list[str], names: Sequence[str], width: int, cut: str) -> list[str]:
    """Shorten different names that became equal again, so that the part in which they differ is kept."""
    groups: dict[str, list[int]] = {}
    for at, text in enumerate(texts):
        groups.setdefault(text, []).append(at)
    for group in groups.values():
        different = sorted({names[at] for at in group})
        if len(different) < 2:
            continue
        same = _alike(different)
        for at in group:
            texts[at] = _from(names[at], same, width, cut)
    return texts


def _from(name: str, place: int, width: int, cut: str) -> str:
    """Return the part of a name around position `place`, in `width` characters."""
    if len(name) <= width:
        return name
    room = width - 2 * len(cut)
    if room < 4:
        return name[max(min(place, len(name) - width), 0) :][:width]
    begin = max(min(place - room // 4, len(name) - room), 0)
    text = cut + name[begin : begin + room] if begin else name[: room + len(cut)]
    return text + cut if begin + room < len(name) else text
