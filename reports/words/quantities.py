"""Formatting of numbers with units, and of names so that they are safe to print."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from npusim.isa.base.errors import printable as printable
from npusim.isa.hardware.voltage import rated_v, supply_v

if TYPE_CHECKING:
    from npusim.isa.hardware.hardware import Hardware
    from npusim.numbers.run import Power

TIMES = ((1e3, "s"), (1.0, "ms"), (1e-3, "us"), (1e-6, "ns"))
ENERGIES = ((1e6, "J"), (1e3, "mJ"), (1.0, "uJ"), (1e-3, "nJ"), (1e-6, "pJ"))
POWERS = ((1e3, "W"), (1.0, "mW"), (1e-3, "uW"))
_COUNTS = ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, ""))
SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))

_HARD_SPACE = "\N{NO-BREAK SPACE}"
_UNITS = "%|[munp]?[sJWV]|[KMG]?i?B(?:/s)?|mm2|nm|[kMG]?Hz|[kMGT]|TOPS|MACs?/cycle"
"""Pattern of the units behind numbers at which a line is not broken."""

Steps = tuple[tuple[float, str], ...]


def _scaled(value: float, steps: Steps) -> str:
    """Format a value in the largest unit in which it is at least 1, with three or four digits."""
    factor, unit = next((step for step in steps if abs(value) >= step[0] * 0.99995), steps[-1])
    if not value:
        factor, unit = next(step for step in steps if step[0] == 1)
    return f"{digits(value / factor)}{unit if unit[:1] in (' ', '') else ' ' + unit}"


def digits(value: float) -> str:
    """Format a number with four significant digits, separated thousands, and an exponent only where needed."""
    if value and abs(value) < 1e-3:
        return f"{value:.3g}"
    places = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3
    text = f"{value:,.{places}f}".replace(",", " ")
    return text.rstrip("0").rstrip(".") if "." in text else text


def time(milliseconds: float) -> str:
    """Format a time given in milliseconds."""
    return _scaled(milliseconds, TIMES)


def energy(microjoules: float) -> str:
    """Format an energy given in microjoules."""
    return _scaled(microjoules, ENERGIES)


def power(milliwatts: float) -> str:
    """Format a power given in milliwatts."""
    return _scaled(milliwatts, POWERS)


def count(number: float) -> str:
    """Format a count in abbreviated form: "300.8 M" for 300 774 272."""
    return _scaled(number, _COUNTS)


def area(square_millimetres: float) -> str:
    """Format an area given in square millimetres."""
    return f"{digits(square_millimetres)} mm2"


def size(number_of_bytes: float) -> str:
    """Format a size given in bytes."""
    return _scaled(number_of_bytes, SIZES)


def ratio(value: float) -> str:
    """Format a ratio with three significant digits, or with as many as distinguish it from 1."""
    return f"{value:.6f}" if abs(value - 1) < 0.005 and value != 1 else f"{value:.3g}"


def whole(number: int) -> str:
    """Format a whole number with all digits and separated thousands."""
    return f"{number:,}".replace(",", " ")


def percent(share: float) -> str:
    """Format a share of 1 as a percentage with one decimal."""
    return f"{share * 100:.1f} %"


def change(percent: float) -> str:
    """Format a change in percent with its sign and one decimal."""
    return f"{percent:+.1f} %"


def wrapped(text: str, width: int) -> str:
    """Break lines at spaces so that they fit `width`, but not between a number and its unit or its next thousands."""
    glued = re.sub(rf"(?<=\d) (?=(?:\d{{3}}|{_UNITS})(?!\w))", _HARD_SPACE, text)
    lines = [wrap(line, width, break_long_words=False, break_on_hyphens=False) for line in glued.split("\n")]
    return "\n".join(part for line in lines for part in line or [""]).replace(_HARD_SPACE, " ")


def shortened(name: str, width: int) -> str:
    """Shorten a name to at most `width` printable characters; the end is kept, because names of layers differ there."""
    shown = printable(name)
    if len(shown) <= width:
        return shown
    return "..." + shown[len(shown) - max(width - 3, 1) :]


def peaks(power_mw: Power) -> str:
    """Format the peak powers of a run, each with its averaging window."""
    return f"{power(power_mw.peak_10us)} in 10 us, {power(power_mw.peak_1ms)} in 1 ms"


def plural(number: int, noun: str) -> str:
    """Format a number with its noun: "1 layer", "2 layers"."""
    return f"{whole(number)} {noun}{'' if number == 1 else 's'}"


def machine(hardware: Hardware) -> str:
    """Describe a machine in one line, without its memories behind ports; with its supply if it is not the rated one."""
    volts = supply_v(hardware)
    supply = "" if volts == rated_v(hardware) else f" at {volts:g} V"
    return (
        f"{plural(hardware.macs_per_cycle, 'MAC')}/cycle at {hardware.clock_mhz:g} MHz, "
        f"scratchpad {size(hardware.scratchpad_bytes)}, {hardware.technology.node_nm} nm{supply}"
    )


def memory(name: str) -> str:
    """Return the display name of a memory behind a port: "DRAM", or its name in the hardware file."""
    return "DRAM" if name == "dram" else printable(name)


def ports(hardware: Hardware) -> str:
    """Describe the memories behind ports with their bandwidths: "DRAM 0.5 GB/s"."""
    dram = [("DRAM", hardware.dram.bandwidth_gb_per_s)] if hardware.has_dram else []
    further = [(memory.name, memory.gb_per_s(hardware.clock_mhz)) for memory in hardware.memory]
    return ", ".join(f"{name} {rate:g} GB/s" for name, rate in (*dram, *further))


GAP = "  "
LEAST_WRAPPED = 30
"""Minimum width of a wrapped column in characters, also on a narrower terminal."""


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(row)} |"


def columns(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = (), width: int = 0
) -> str:
    """Format a table as text, with a head line and a line per row; the columns `right` are right-aligned.

    width: maximum characters of a line, to which the last column is wrapped; 0 for no limit.
    """
    lines = [[printable(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    left = width - sum(len(GAP) + column_width for column_width in widths[:-1])
    if width:
        lines = [part for line in lines for part in _wrapped(line, max(left, LEAST_WRAPPED))]

    def aligned(line: Sequence[str]) -> str:
        cells = (
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        return GAP.join(cells).rstrip()

    return "\n".join(aligned(line) for line in lines)


def _wrapped(line: list[str], most: int) -> list[list[str]]:
    """Return a line of a table, and further lines for text that does not fit in its last column."""
    first, *more = wrap(line[-1], most, break_long_words=False, break_on_hyphens=False) or [""]
    return [[*line[:-1], first], *([*[""] * (len(line) - 1), part] for part in more)]
