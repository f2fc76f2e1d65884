"""Names of layers in little room: what many of them share is cut, so that those beside each other stay different."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from npusim.reports.words.names import main_name
from npusim.reports.words.quantities import printable

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
    """How many items all sequences have in common at their beginning."""
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
