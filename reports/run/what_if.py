"""The what-if table in the terminal: the effect of changing each hardware parameter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from npusim.isa.hardware.file import change
from npusim.isa.hardware.voltage import supply_v
from npusim.reports.words import quantities as show
from npusim.reports.words.grids import STYLES, WIDEST, grid, plain

if TYPE_CHECKING:
    from npusim.numbers.variants import Parameters, Variant, WhatIf

NARROWEST = 40
LEAST_PERCENT = 0.05
"""Least change in percent that tables show, because a smaller one would round to 0.0 %; the JSON has all."""


def render(result: WhatIf, width: int = 80) -> str:
    """Return the table as plain text, without colours."""
    return plain(table(result, width), width)


GROUPS: Mapping[bool, str] = {
    True: "What an architect may choose",
    False: "What comes with the DRAM, the circuits and the host",
}
"""The two kinds of parameters, by `Variant.chosen`, in the order in which they are shown."""


def table(result: WhatIf, width: int) -> RenderableType:
    """Return the table of changes, each parameter once, the largest gain first.

    Parameters without effect, and those that were not run, are listed below it.
    """
    width = min(max(width, NARROWEST), WIDEST)
    parts: list[RenderableType] = [
        Text("What if, one parameter at a time", style="bold"),
        Padding(Text(advice(result)), (0, 0, 0, 2)),
    ]
    for chosen, title in GROUPS.items():
        rows = felt(result, chosen)
        if rows:
            parts += [Text(f"  {title}", style="dim"), _rows(rows, width)]
    if len(parts) == 2:
        parts.append(Text("  nothing matters here"))
    return Group(*parts, *_quiet(result), *_not_run(result), _remark(how(result)))


def felt(result: WhatIf, chosen: bool) -> list[Parameters]:
    """Return the parameters of a kind for which some change has an effect."""
    return [row for row in result.by_parameter() if row.chosen == chosen and any(map(matters, row.ran))]


def quiet(result: WhatIf) -> list[str]:
    """Return the parameters whose changes have no effect."""
    return [group.path for group in result.by_parameter() if group.ran and not any(map(matters, group.ran))]


def not_run(result: WhatIf) -> dict[str, list[str]]:
    """Return the parameters for which no change was run, grouped by reason."""
    by_reason: dict[str, list[str]] = {}
    for group in result.by_parameter():
        if not group.ran:
            by_reason.setdefault(group.reasons[0], []).append(group.path)
    return by_reason


def advice(result: WhatIf) -> str:
    """Return a sentence that names the change with the largest gain in latency that can be built."""
    best = min(
        (variant for variant in result.variants if variant.chosen and not variant.reason),
        key=lambda variant: variant.latency_percent or 0.0,
        default=None,
    )
    if best is None or (best.latency_percent or 0.0) > -LEAST_PERCENT:
        return "No single choice makes it faster."
    more = (best.area_mm2 or 0.0) - result.area_mm2
    price = f"for {show.area(more)} more, {per_mm2(best)} per mm2" if best.percent_per_mm2 else "for no area"
    return (
        f"{best.parameter} {value(best.before)} to {value(best.after)} takes "
        f"{-(best.latency_percent or 0.0):.1f} % off the latency {price}."
    )


def matters(variant: Variant) -> bool:
    """Return whether latency or energy change by more than rounding hides. The area alone does not count."""
    return any(
        abs(change or 0.0) >= LEAST_PERCENT for change in (variant.latency_percent, variant.energy_percent)
    )


def how(result: WhatIf) -> str:
    """Say in a sentence or two how the variants were computed."""
    if result.compiled:
        sentence = "Each variant is compiled for its hardware and simulated, without data."
    else:
        sentence = "The program runs as it is on each variant; give the model to compile it for each."
    return " ".join([sentence, *_supplies(result)])


def _supplies(result: WhatIf) -> Iterable[str]:
    """Say which supply voltages the tried clocks need."""
    for variant in result.variants:
        if variant.parameter == "clock_mhz" and not variant.reason:
            then = supply_v(change(result.hardware, {variant.parameter: variant.after}))
            yield f"At {value(variant.after)} MHz it needs {then:g} V instead of {supply_v(result.hardware):g} V."


def value(number: float | None) -> str:
    """Return the value of a parameter as in a hardware file."""
    return "-" if number is None else f"{number:.12g}"


def percent(difference: float | None) -> str:
    """Return a change in percent with its sign; "=" for none."""
    if difference is None:
        return "-"
    return show.change(difference) if difference else "="


def per_mm2(variant: Variant) -> str:
    """Return the latency gain in percent per additional mm2; "free" for a gain without area, "-" if there is none."""
    if not variant.chosen or (variant.latency_percent or 0.0) > -LEAST_PERCENT:
        return "-"
    return "free" if variant.percent_per_mm2 is None else f"{show.digits(variant.percent_per_mm2)} %"


def _rows(groups: Iterable[Parameters], width: int) -> RenderableType:
    """Return a line for each value that was tried; only a parameter's first line has its name and present value."""
    words = ["  parameter", "now", "then", "latency", "energy", "area", "per mm2"][: 7 if width >= 72 else 6]
    table = grid("~14", *(">" for _ in words[1:]), gap=2 if width >= 80 else 1)
    table.add_row(*(Text(word, style="dim") for word in words))
    for group in groups:
        for at, variant in enumerate(group.ran):
            changes = (variant.latency_percent, variant.energy_percent, variant.area_percent)
            cells: list[str | Text] = [
                "" if at else f"  {group.path}",
                "" if at else value(variant.before),
                Text(value(variant.after), style="bold"),
                *(Text(percent(change), style=STYLES[judgement(change)]) for change in changes),
                per_mm2(variant),
            ]
            table.add_row(*cells[: len(words)])
    return table


def judgement(change: float | None) -> str:
    """Return whether a change is "better", "worse", or the "same" where a table rounds it to nothing."""
    if change is None or abs(change) < LEAST_PERCENT:
        return "same"
    return "better" if change < 0 else "worse"


def _quiet(result: WhatIf) -> Iterable[RenderableType]:
    names = quiet(result)
    if names:
        yield _remark(f"below {LEAST_PERCENT:g} %: {', '.join(names)}")


def _not_run(result: WhatIf) -> Iterable[RenderableType]:
    for reason, names in not_run(result).items():
        yield _remark(f"not run: {', '.join(names)}: {show.printable(reason)}")
    others = Counter(reason for group in result.by_parameter() if group.ran for reason in group.reasons)
    for reason, number in others.items():
        yield _remark(f"{show.plural(number, 'direction')} not run: {show.printable(reason)}")


def _remark(words: str) -> RenderableType:
    return Padding(Text(words, style="dim"), (0, 0, 0, 2))
