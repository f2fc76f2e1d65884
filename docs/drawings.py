"""The drawings that are made from the sources: the machine with its parameters, the passes, and the rooms.

    python docs/drawings.py

tests/test_docs.py makes them again and compares, so that none says what is not. Text is dark on light or light on dark,
as the page is; no fonts or files are fetched.
"""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from npusim.isa.hardware.file import hardware, to_dict

DOCS = Path(__file__).resolve().parent

_STYLE = """\
svg { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
.page { fill: #ffffff; }
text { fill: #24292f; font-size: 12.5px; }
.title { font-weight: 600; font-size: 14.5px; }
.small { font-size: 11.5px; fill: #57606a; }
.tiny { font-size: 10.5px; fill: #57606a; }
.value { font-size: 11.5px; text-anchor: end; }
.middle { text-anchor: middle; }
.room { font-style: italic; fill: #0b5cad; }
.memory { fill: #ddf0ff; stroke: #0b5cad; stroke-width: 1.4; }
.unit { fill: #fff6dd; stroke: #8a6100; stroke-width: 1.2; }
.box { fill: #f6f8fa; stroke: #57606a; stroke-width: 1.2; }
.line { fill: none; stroke: #57606a; stroke-width: 1.6; }
.thin { fill: none; stroke: #8c959f; stroke-width: 1.1; }
.tip { fill: #57606a; }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117; }
  text { fill: #e6edf3; }
  .small, .tiny { fill: #9da7b3; }
  .room { fill: #79b8ff; }
  .memory { fill: #12324f; stroke: #79b8ff; }
  .unit { fill: #3a2f10; stroke: #d9b44a; }
  .box { fill: #21262d; stroke: #9da7b3; }
  .line { stroke: #9da7b3; }
  .thin { stroke: #6e7681; }
  .tip { fill: #9da7b3; }
}"""

_LINE = 16
"""Pixels from one line of small text to the next."""


@dataclass(frozen=True)
class Box:
    """A box with a title, a line below it, and rows of name and value. `kind` is a class of the style."""

    left: int
    top: int
    width: int
    title: str
    about: str = ""
    rows: tuple[tuple[str, str], ...] = ()
    kind: str = "box"

    @property
    def height(self) -> int:
        """Pixels."""
        return 30 + _LINE * (bool(self.about) + len(self.rows)) + 6 * bool(self.rows)

    @property
    def bottom(self) -> int:
        """The lower edge."""
        return self.top + self.height

    @property
    def right(self) -> int:
        """The right edge."""
        return self.left + self.width

    def svg(self) -> Iterator[str]:
        """Return the elements of the drawing."""
        yield (
            f'<rect class="{self.kind}" x="{self.left}" y="{self.top}" width="{self.width}" '
            f'height="{self.height}" rx="6"/>'
        )
        yield _text(self.left + 12, self.top + 20, self.title, "title")
        below = self.top + 20
        if self.about:
            below += _LINE
            yield _text(self.left + 12, below, self.about, "small")
        below += 6
        for name, value in self.rows:
            below += _LINE
            yield _text(self.left + 12, below, name, "small")
            yield _text(self.right - 12, below, value, "value")


def _text(left: int, base: int, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{left}" y="{base}">{escape(words)}</text>'


def _heading(title: str, about: str) -> list[str]:
    """Draw a title with a caption in small letters beside it; a letter of the title takes about 8.7 pixels."""
    return [_text(16, 30, title, "title"), _text(32 + round(8.7 * len(title)), 30, about, "small")]


def _arrow(way: str, *, both: bool = False, kind: str = "line") -> str:
    start = ' marker-start="url(#tip)"' if both else ""
    return f'<path class="{kind}" d="{way}"{start} marker-end="url(#tip)"/>'


def _page(width: int, height: int, label: str, elements: Sequence[str]) -> str:
    style = "\n".join(f"    {line}" for line in _STYLE.splitlines())
    inside = "\n".join(f"  {element}" for element in elements)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"\n'
        f'     aria-label="{escape(label)}">\n  <style>\n{style}\n  </style>\n'
        '  <defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path class="tip" d="M0 0 L10 5 L0 10 z"/></marker></defs>\n'
        f'  <rect class="page" width="{width}" height="{height}" rx="8"/>\n{inside}\n</svg>\n'
    )


# The machine.

MACHINE_PRESET = "edge-128"

_MACHINE_BOXES = {
    "dram": ("DRAM", "code, constants, inputs, outputs", "memory", 16, 56),
    "front_end": ("front end", "fetches, decodes, dispatches in order", "unit", 300, 56),
    "dma": ("DMA channels", "strided copies, weight decoder", "unit", 300, 202),
    "scratchpad": ("scratchpad", "feature maps and tiles, in banks", "memory", 584, 202),
    "mac_array": ("MAC array", "convolutions, products; output stage", "unit", 868, 56),
    "vector": ("vector unit", "elementwise, pools, tables", "unit", 868, 316),
    "host": ("host CPU", "operators that the NPU does not have", "unit", 16, 300),
    "technology": ("technology", "prices of area and energy", "box", 584, 360),
}
"""Sections of a hardware file: title, what it does, kind, left, top."""


def machine() -> str:
    """Draw the machine with all parameters of a hardware file, and their values in a preset.

    Raises KeyError for a section that has no place in the drawing.
    """
    values = to_dict(hardware(MACHINE_PRESET))
    boxes = {}
    for section, keys in values.items():
        if isinstance(keys, dict):
            title, about, kind, left, top = _MACHINE_BOXES[section]
            rows = tuple((key, _value(value)) for key, value in keys.items())
            boxes[section] = Box(left, top, 252, title, about, rows, kind)
    dram, front, dma, pad = (boxes[name] for name in ("dram", "front_end", "dma", "scratchpad"))
    mac, vector, host = boxes["mac_array"], boxes["vector"], boxes["host"]
    port, middle = front.top + 40, dma.top + 40
    elements = [
        *_heading(
            f"The machine, with the parameters of {MACHINE_PRESET}",
            f"clock_mhz {_value(values['clock_mhz'])}; every value can be changed and searched; "
            "a file may have further memories",
        ),
        _arrow(f"M{dram.right + 2} {port} H{front.left - 3}"),
        _arrow(f"M{dram.right + 2} {dma.top + 30} H{dma.left - 3}", both=True),
        _arrow(f"M{dma.right + 2} {middle} H{pad.left - 3}", both=True),
        _arrow(f"M{pad.right + 2} {middle} H{mac.left - 3}", both=True),
        _arrow(
            f"M{pad.right + 2} {pad.bottom - 16} H{vector.left - 20} V{vector.top + 30} H{vector.left - 3}",
            both=True,
        ),
        _arrow(f"M{front.left + 120} {front.bottom + 1} V{dma.top - 3}", kind="thin"),
        _arrow(f"M{front.right + 1} {front.top + 20} H{mac.left - 3}", kind="thin"),
        _arrow(
            f"M{front.right + 1} {front.top + 60} H{mac.left - 12} V{vector.top + 12} H{vector.left - 3}",
            kind="thin",
        ),
        _arrow(f"M{dram.left + 60} {dram.bottom + 1} V{host.top - 3}", both=True),
        _text(front.right + 14, front.top + 14, "a queue for each unit; waits in the instructions", "small"),
        _text(front.right + 14, front.top + 54, "keep the units in step", "small"),
        *(element for box in boxes.values() for element in box.svg()),
    ]
    height = max(box.bottom for box in boxes.values()) + 16
    return _page(1136, height, "The machine with its parameters", elements)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


# The passes.

PASSES = (
    ("npusim.kernels.graph.check", "well formed?"),
    ("npusim.kernels.graph.rewrite", "simplify"),
    ("npusim.scheduler.network.network", "lower"),
    ("npusim.scheduler.network.storage", "share memory"),
    ("npusim.scheduler.place.residency", "stay or leave"),
    ("npusim.scheduler.fit.tiling", "tiles"),
    ("npusim.scheduler.place.chains", "chains"),
    ("npusim.scheduler.place.fused_pairs", "fused pairs"),
    ("npusim.scheduler.place.layout", "addresses"),
    ("npusim.scheduler.emit.slots", "slots"),
    ("npusim.scheduler.emit.sequence", "order"),
    ("npusim.scheduler.emit.synchronise", "waits"),
    ("npusim.isa.instructions.table", "encode"),
)
"""The passes of the compiler in the order in which a graph goes through them, and what each decides in a word."""


def passes() -> str:
    """Draw the passes of the compiler, each with the first sentence of its module."""
    elements = _heading("The passes of the compiler", "Graph in, Program out")
    top = 48
    for number, (module, words) in enumerate(PASSES):
        sentence = (importlib.import_module(module).__doc__ or "").split("\n\n")[0].replace("\n", " ")
        box = Box(16, top, 1000, words, sentence, (), "memory" if number in (0, len(PASSES) - 1) else "box")
        elements += [
            *box.svg(),
            f'<text class="small room" style="text-anchor:end" x="{box.right - 12}" y="{top + 20}">{module}</text>',
        ]
        if number:
            elements.append(_arrow(f"M516 {top - 11} V{top - 3}"))
        top = box.bottom + 12
    back = 48 + 4 * 58 + 26
    elements.append(_arrow(f"M1018 {48 + 10 * 58 + 20} H1036 V{back} H1019", kind="thin"))
    elements.append(_text(1042, 48 + 7 * 58, "no room?", "small"))
    elements.append(_text(1042, 48 + 7 * 58 + 16, "less of it", "small"))
    return _page(1116, top + 8, "The passes of the compiler in their order", elements)


# The rooms.

_ROOM_WIDTH, _ROOM_HEIGHT, _GAP, _PER_ROW = 172, 84, 10, 8
_FOLDERS = ("npusim.isa", "npusim.kernels", "npusim.scheduler", "npusim.reports")
"""Folders whose rooms stand side by side, the highest at the left."""


def rooms(stands_on: Mapping[str, Sequence[str]]) -> str:
    """Draw the packages in layers, each above those that it imports from, as the table of tests/test_rooms.py says."""
    groups: dict[str, list[str]] = {}
    for room in stands_on:
        groups.setdefault(_group(room), []).append(room)
    floors: dict[str, int] = {}
    for group in groups:
        _floor(group, groups, stands_on, floors)
    elements = _heading(
        "The packages",
        "each imports only from packages below it, and in a frame from those to its right",
    )
    top = 48
    for floor in sorted(set(floors.values()), reverse=True):
        here = [group for group in groups if floors[group] == floor]
        for group in (group for group in here if group in _FOLDERS):
            elements += _frame(top)
            elements += _row(groups[group][::-1], top)
            top += _ROOM_HEIGHT + 20
        alone = [group for group in here if group not in _FOLDERS]
        for first in range(0, len(alone), _PER_ROW):
            elements += _row(alone[first : first + _PER_ROW], top)
            top += _ROOM_HEIGHT + 20
    return _page(_rooms_width(), top, "The rooms of the sources, on floors", elements)


def _group(room: str) -> str:
    return next((folder for folder in _FOLDERS if room.startswith(folder)), room)


def _floor(
    group: str,
    groups: Mapping[str, Sequence[str]],
    stands_on: Mapping[str, Sequence[str]],
    floors: dict[str, int],
) -> int:
    """Return the level of a group of packages: one above the highest that any of them imports."""
    if group not in floors:
        below = {_group(lower) for room in groups[group] for lower in stands_on[room]} - {group}
        floors[group] = 1 + max((_floor(lower, groups, stands_on, floors) for lower in below), default=-1)
    return floors[group]


def _rooms_width() -> int:
    return 32 + _PER_ROW * (_ROOM_WIDTH + _GAP) - _GAP


def _frame(top: int) -> Iterator[str]:
    yield (
        f'<rect class="thin" x="10" y="{top - 6}" width="{_rooms_width() - 20}" '
        f'height="{_ROOM_HEIGHT + 12}" rx="8"/>'
    )


def _row(names: Sequence[str], top: int) -> Iterator[str]:
    for place, room in enumerate(names):
        yield from _room(room, 16 + place * (_ROOM_WIDTH + _GAP), top)


_KIND_OF_TOP = {"npusim.isa": "memory", "npusim.kernels": "unit", "npusim.scheduler": "unit"}


def _room(room: str, left: int, top: int) -> Iterator[str]:
    kind = next((kind for above, kind in _KIND_OF_TOP.items() if room.startswith(above)), "box")
    yield f'<rect class="{kind}" x="{left}" y="{top}" width="{_ROOM_WIDTH}" height="{_ROOM_HEIGHT}" rx="6"/>'
    yield _text(left + 9, top + 18, room.removeprefix("npusim."), "title")
    lines = textwrap.wrap(purpose(room).replace("`", ""), 27, max_lines=4, placeholder=" ...")
    for number, line in enumerate(lines):
        yield _text(left + 9, top + 33 + 14 * number, line, "tiny")


def purpose(room: str) -> str:
    """Return the first sentence of the docstring of a package or module."""
    text = (importlib.import_module(room).__doc__ or "").split("\n\n")[0]
    return " ".join(text.split()).split(". ")[0].rstrip(".")


# Writing them.


def drawings() -> dict[Path, str]:
    """Return every drawing by its file."""
    from tests.test_rooms import ROOMS

    return {
        DOCS / "machine.svg": machine(),
        DOCS / "passes.svg": passes(),
        DOCS / "rooms.svg": rooms(ROOMS),
    }


if __name__ == "__main__":
    sys.path.append(str(DOCS.parent))
    for file, text in drawings().items():
        file.write_text(text, "utf-8")
