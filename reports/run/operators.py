"""Operator coverage: what each model format calls an operator, where it runs, and on which conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from npusim.reports.words.columns import columns

HOST = "host"


@dataclass(frozen=True, slots=True)
class Coverage:
    """One operator of npusim.

    names:   per model format, what the format calls it; empty if the format does not have it.
    runs_on: the unit of the NPU, "nothing moves" for one that costs nothing, or "host".
    conditions: what must hold for that, or else the host runs it; for "host", why.
    """

    op: str
    names: Mapping[str, Sequence[str]]
    runs_on: str
    conditions: Sequence[str]


def table(rows: Sequence[Coverage]) -> str:
    """A line per operator, further lines for further conditions, and the counts."""
    formats = list(dict.fromkeys(name for row in rows for name in row.names))
    lines: list[tuple[str, ...]] = []
    for row in rows:
        names = tuple(", ".join(row.names.get(name, ())) or "-" for name in formats)
        first, *others = row.conditions or ("",)
        lines.append((row.op, *names, row.runs_on, first))
        lines += [("", *("" for _ in formats), "", other) for other in others]
    head = ("operator", *formats, "runs on", "if (else on the host), or why on the host")
    return f"{columns(head, lines)}\n\n{_counts(rows)}"


def _counts(rows: Sequence[Coverage]) -> str:
    on_host = sum(row.runs_on == HOST for row in rows)
    return f"{len(rows)} operators, {len(rows) - on_host} on the NPU, {on_host} on the host only."
