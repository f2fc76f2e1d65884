"""Pages: self-contained HTML from the templates, with nothing to fetch and nothing of a model file run as code.

Every value is escaped by the template engine. Data for scripts goes through `island`, which cannot end the element
it stands in. A page carries a content security policy that allows its own scripts only, by their hashes, and no
network at all: even a name that slipped through would do nothing.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npusim.isa.base.version import npusim_version
from npusim.reports.words import quantities as show
from npusim.reports.words.names import CAUSE_COLOURS, COMPONENT_COLOURS, REGION_COLOURS, RESOURCE_COLOURS

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"

_THIN, _HARD = "\N{NARROW NO-BREAK SPACE}", "\N{NO-BREAK SPACE}"


def page(template: str, scripts: Sequence[str], data: object, **values: Any) -> str:
    """Render a page from `template`, with `scripts` (files of the templates, in this order) and `data` for them."""
    sources = [(TEMPLATES / name).read_text("utf-8").strip() for name in scripts]
    hashes = " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in sources)
    policy = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:"
    shown = {"version": npusim_version(), "policy": policy, "scripts": sources} | values
    rendered: str = (
        _environment().get_template(template).render(island=island(data), colours=_colours(), **shown)
    )
    return rendered


def island(data: object) -> str:
    """Format data as JSON that is safe inside a script element: ASCII without <, > and &."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def typeset(text: str) -> str:
    """Return a quantity as printed on a page: thin spaces between thousands, and the sign for micro."""
    text = re.sub(r"(?<=\d) (?=\d{3}(?!\d))", _THIN, text)
    text = re.sub(r"(?<=\d) (?=\S)", _HARD, text)
    text = re.sub(r"\bmm2\b", "mm\N{SUPERSCRIPT TWO}", text)
    return re.sub(r"(?<=[\d\s])u(?=[smJWA]\b)", "\N{MICRO SIGN}", text)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(typeset=typeset, name=show.printable)
    environment.filters.update(sizes=_sizes, shapes=_shapes)
    for unit in ("time", "energy", "power", "count", "size", "area", "ratio", "whole", "percent", "digits"):
        environment.filters[unit] = _typeset_of(unit)
    return environment


def _sizes(sizes: Sequence[int]) -> str:
    """Return sizes such as 1x224x224x3 with multiplication signs."""
    return "\N{MULTIPLICATION SIGN}".join(map(str, sizes))


def _shapes(shapes: Sequence[Sequence[int]]) -> str:
    """Return shapes as printed, without a batch of one; equal shapes appear once, with their count."""
    texts = [_sizes(shape[1:] if len(shape) > 1 and shape[0] == 1 else shape) for shape in shapes]
    counts = {text: texts.count(text) for text in texts}
    return ", ".join(text if number == 1 else f"{number} of {text}" for text, number in counts.items())


def _typeset_of(unit: str) -> Any:
    quantity = getattr(show, unit)
    return lambda value: typeset(quantity(value))


_LIGHT = {
    "ground": "#f6f7f8", "paper": "#ffffff", "ink": "#1a2026", "soft": "#57626c", "rule": "#dde2e6",
    "faint": "#eef1f3", "accent": "#1f6fb2", "focus": "#0b5fd0", "better": "#1b6e2c", "worse": "#b3261e",
}  # fmt: skip
_DARK = {
    "ground": "#12161a", "paper": "#191e23", "ink": "#e7ebee", "soft": "#9ba7b1", "rule": "#2d353d",
    "faint": "#22282e", "accent": "#6db3f2", "focus": "#8cc4ff", "better": "#7fce8b", "worse": "#ff9a8f",
}  # fmt: skip
_TABLES = (("r", RESOURCE_COLOURS), ("e", COMPONENT_COLOURS), ("c", CAUSE_COLOURS), ("k", REGION_COLOURS))


def _colours() -> dict[str, dict[str, str]]:
    """Return the colour variables of the style sheet for the light and the dark theme."""
    light = {f"{kind}-{name}": colour for kind, table in _TABLES for name, colour in table.items()}
    return {
        "light": _LIGHT | light,
        "dark": _DARK | {name: _lighter(colour) for name, colour in light.items()},
    }


def _lighter(colour: str, part: float = 0.22) -> str:
    """Mix a colour with a share `part` of white; on a dark background colours must be lighter to look as strong."""
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(value + (255 - value) * part):02x}" for value in parts)
