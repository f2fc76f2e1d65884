"""Operator coverage: what each model format calls an operator, where it runs, and on which conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from npusim.reports.words.text_table import columns

HOST = "host"


@dataclass(frozen=True, slots=True)
class Way:
    """A unit of the NPU that computes an operator, on which conditions; or the host, and why."""

    runs_on: str
    conditions: Sequence[str]


@dataclass(frozen=True, slots=True)
class Coverage:
    """One operator of npusim.

    names: per model format, what the format calls it; empty if the format does not have it.
    types: the element types that its first operand may have.
    ways:  how it is computed; the first whose conditions hold, else on the host.
    """

    op: str
    names: Mapping[str, Sequence[str]]
    types: Sequence[str]
    ways: Sequence[Way]


def table(rows: Sequence[Coverage]) -> str:
    """A line per operator, further lines for further ways and conditions, and the counts."""
    formats = list(dict.fromkeys(name for row in rows for name in row.names))
    lines: list[tuple[str, ...]] = []
    for row in rows:
        names = (", ".join(row.names.get(name, ())) or "-" for name in formats)
        head = (row.op, *names, ", ".join(row.types))
        for way in row.ways:
            unit = way.runs_on
            for condition in way.conditions or ("",):
                lines.append((*head, unit, condition))
                head, unit = ("",) * len(head), ""
    titles = ("operator", *formats, "of", "runs on", "if (else on the host), or why on the host")
    return f"{columns(titles, lines)}\n\n{_counts(rows)}"


def _counts(rows: Sequence[Coverage]) -> str:
    on_host = sum(row.ways[0].runs_on == HOST for row in rows)
    return f"{len(rows)} operators, {len(rows) - on_host} on the NPU, {on_host} on the host only."
