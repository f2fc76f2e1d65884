"""docs/silicon.md, and the same rows on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.silicon.frame import Agreement, Chip, Compared, agreement
from npusim.isa.hardware.file import hardware, to_flat

Result = tuple[Chip, Sequence[Compared]]

PICTURE = "silicon.svg"
"""The figure, beside the page."""

_HEAD = f"""\
# Chips that exist

<!-- Written by `python -m benchmarks silicon --write`. -->

This page compares the presets that are named after chips with what was measured on these chips. For the Ethos-U55 the
reference is what Vela estimates and what Arm's virtual platform gives. *Error* is the geometric mean over the rows of
the larger of simulated / reference and its inverse, minus 1. *Bias* is the geometric mean of simulated / reference.
*Rank* is Spearman's correlation. Rows that are *held out* were set aside before any constant was chosen. Constants come
from facts of the vendor and from single operators; if there are neither, they are fitted to all networks together. No
network has a constant of its own. `edge-*` and `mobile-*` are no chips but idealised arrays that are always full.

The typical error is no upper bound: many rows are farther off, one by as much as *worst* says. Vela is a tool of the
vendor and estimates: no Ethos-U55 was measured. The held-out networks of the Ethos-U55 were left out of the choice of
constants, but their operators are in Vela's table of single operators, from which the closed form was derived.

`npusim hw show PRESET`, `npusim hw list`, the report and the JSON of a run quote the first row of a preset and quantity
below. They read it from `isa/hardware/agreement.toml`, which is written together with this page. If you change a key of
a preset, the error of the new machine is not known. The exception is a key that differed between the measured chips:
within the range of values with which rows of the preset were simulated (listed below), the error still holds. The error
does not hold for a run in which the host takes more than a tenth of the time (unless the host is what was measured),
for several devices, for models that decide, and for programs with operators or weights that are not known. All rows
have 8 bits, unless they are named w4a16 (weights of 4 bits, activations in float16), and are scheduled with
`--effort fast`.

![Reference against simulated, and the ratio of both, for every preset]({PICTURE})
"""


def page(results: Sequence[Result]) -> str:
    """The page."""
    return (
        "\n".join([_HEAD, *_summary(results), *(line for result in results for line in _chip(*result))])
        + "\n"
    )


def _summary(results: Sequence[Result]) -> Iterator[str]:
    head = (
        "preset",
        "reference",
        "rows",
        "error",
        "worst",
        "bias",
        "rank",
        "error, held out",
        "worst, held out",
    )
    yield f"| {' | '.join(head)} | limit: error, worst |"
    yield "| --- " * (len(head) + 1) + "|"
    for chip, rows in results:
        every, aside = agreement(rows), held_out(rows)
        apart = (percent(aside.error), percent(aside.worst)) if aside else ("", "")
        asked = f"{percent(chip.bar.error)}, {percent(chip.bar.worst)}"
        cells = (f"`{chip.preset}`", chip.referee, str(every.rows), *numbers(every), *apart, asked)
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield from (line for result in results for line in _settings(*result))
    yield ""


def _settings(chip: Chip, rows: Sequence[Compared]) -> Iterator[str]:
    """The keys in which rows differ from their preset."""
    for key, (least, most) in ranges(chip, rows).items():
        had = f"rows had `{key}` from {least:g} to {most:g}"
        own = to_flat(hardware(chip.preset))[key]
        yield f"- {chip.quantity.capitalize()} of `{chip.preset}`: {had}, the preset has {own:g}."


def _chip(chip: Chip, rows: Sequence[Compared]) -> Iterator[str]:
    yield from (f"## {chip.preset}: {chip.referee}", "")
    yield f"| network | {chip.seen}, {chip.unit} | simulated | ratio | |"
    yield "| --- | --- | --- | --- | --- |"
    for row in rows:
        yield f"| {' | '.join(cells(chip, row))} |"
    yield ""
    yield from _fits(chip)
    yield from (f"- {remark}" for remark in chip.remarks)
    if chip.remarks:
        yield ""


def _fits(chip: Chip) -> Iterator[str]:
    """The fitted constants, with what they would be without one network or another."""
    fits = list(chip.fits())
    if not fits:
        return
    yield from (
        "| fitted constant | value | rows | median of their values | with any one network left out |",
        "| --- " * 5 + "|",
    )
    for fit in fits:
        apart = f"{fit.least:.4g} to {fit.most:.4g}"
        yield f"| `{fit.key}` | {fit.value:g} | {fit.rows} | {fit.median:.4g} | {apart} |"
    yield ""


def cells(chip: Chip, row: Compared) -> tuple[str, ...]:
    """A row: network, measured, simulated, ratio, whether it was held out."""
    asked = row.measurement
    values = (f"{value:,.{chip.decimals}f}" for value in (asked.value, row.simulated))
    return (asked.network, *values, f"{row.ratio:.3f}", "held out" if asked.held_out else "")


def ranges(chip: Chip, rows: Sequence[Compared]) -> dict[str, tuple[float, float]]:
    """The keys that rows set, with the least and the most of what rows had; who does not set it has the preset's."""
    set_by_rows = dict.fromkeys(key for row in rows for key in row.measurement.settings)
    if not set_by_rows:
        return {}
    own = to_flat(hardware(chip.preset))
    had = {key: [row.measurement.settings.get(key, own[key]) for row in rows] for key in set_by_rows}
    return {key: (min(values), max(values)) for key, values in had.items()}


def held_out(rows: Sequence[Compared]) -> Agreement | None:
    """The agreement of the rows that were held out, if there are any; without a rank, since among a few rows two that
    are near each other change places.
    """
    aside = [row for row in rows if row.measurement.held_out]
    return replace(agreement(aside), rank=None) if aside else None


def numbers(found: Agreement) -> tuple[str, str, str, str]:
    """Error, worst, bias, rank."""
    rank = "" if found.rank is None else f"{found.rank:.3f}"
    return percent(found.error), percent(found.worst), f"{found.bias:.3f}", rank


def percent(share: float) -> str:
    """12.3 %."""
    return f"{100 * share:.1f} %"
