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

Presets that are named after chips, beside what was measured on them, or for the Ethos-U55 beside what Vela estimates
and Arm's virtual platform gives. The error of rows is the geometric mean of the larger of simulated / reference and its
inverse, minus 1; bias the geometric mean of simulated / reference; rank Spearman's correlation. Rows that are *held
out* were set aside before any constant was chosen. Constants come from facts of the vendor, from single operators, and
where there are neither from all networks together; no network has one of its own. `edge-*` and `mobile-*` are no chips:
an idealised array, always full.

The typical error is no bound: many rows are farther off, one by as much as *worst* says. Vela is a tool of the vendor
and estimates: no Ethos-U55 was measured. Networks of the Ethos-U55 that are held out were left out of the
choice of constants, but their operators stand in Vela's table of single operators, which the closed form was read off.

`npusim hw show PRESET`, `npusim hw list`, the report and the JSON of a run quote the first row of a preset and quantity
below, from `isa/hardware/agreement.toml`, which is written with this page. Who changes a key of a preset has another
machine, of which no error is known; only values between those that rows of the preset were simulated with, because the
chip had them, keep the claim (below). Nor does it hold for a run of which the host takes more than a tenth of the time
(unless the host is what was measured), for several devices, for models that decide, and for programs with operators
or weights that are not known. All rows are of 8 bits, scheduled with `--effort fast`.

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
        "referee",
        "rows",
        "error",
        "worst",
        "bias",
        "rank",
        "error, held out",
        "worst, held out",
    )
    yield f"| {' | '.join(head)} | bar: error, worst |"
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
        "| fitted constant | value | rows | what they say | without any one network |",
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
