"""Plain lines of the terminal's tables are those of rich."""

from __future__ import annotations

import random
from io import StringIO

import pytest

from npusim.base.console import console
from npusim.reports.words.grids import Column, grid, plain, table
from npusim.reports.words.layout import Group, Text, plain_lines

WORDS = (
    "",
    "a",
    "35 279",
    "  conv",
    "the time of the MAC array",
    "two\nlines",
    "µs and …",
    "████▋",
    "end ",
    "日本",
)
STYLES = ("", "bold", "dim", "bold red", "cyan")


def by_rich(shown: object, width: int) -> str:
    """What rich prints."""
    file = StringIO()
    console(file, width=width, color_system=None, force_terminal=False).print(shown)
    return file.getvalue()


def _text(rng: random.Random) -> Text:
    text = Text(rng.choice(WORDS), rng.choice(STYLES))
    if rng.random() < 0.3:
        text.append(rng.choice(WORDS), rng.choice(STYLES))
    return text


def _part(rng: random.Random) -> object:
    """A text, a grid of columns of any kind with some cells missing, or a table with heads."""
    kind, rows = rng.random(), range(rng.randint(1, 4))
    if kind < 0.3:
        return _text(rng)
    if kind < 0.5:
        columns = [
            Column(rng.choice(("layer", "cycles", "")), [_text(rng) for _ in rows], rng.random() < 0.5)
            for _ in range(3)
        ]
        return table(columns, indent=rng.randint(0, 2))
    made = grid(
        *(rng.choice(("=17", ">9", "<", ">", "= dim", "~4")) for _ in range(3)), gap=rng.randint(1, 3)
    )
    for _ in rows:
        made.add_row(*(_text(rng) for _ in range(rng.randint(1, 3))))
    return made


@pytest.mark.parametrize("seed", range(60))
def test_plain_lines_are_those_of_rich(seed: int) -> None:
    rng = random.Random(seed)
    fitted = 0
    for _ in range(20):
        shown, width = Group(*(_part(rng) for _ in range(2))), rng.choice((20, 60, 80))
        fitted += plain_lines(shown, width) is not None
        assert plain(shown, width) == by_rich(shown, width)
    assert fitted


def test_what_does_not_fit_is_left_to_rich() -> None:
    """Wrapping, wide characters, and characters that are shown as escapes."""
    for text in ("a b " * 30, "日本", "tab\there", "\x1b[31m"):
        assert plain_lines(Text(text), 80) is None
        assert plain(Text(text), 80) == by_rich(Text(text), 80)


def test_a_line_to_paste_stays_whole() -> None:
    command = Text("x" * 100, "bold", whole_lines=True)
    assert plain_lines(command, 80) == ["x" * 100]
    assert plain(command, 80, crop=False) == "x" * 100 + "\n"
    assert plain(command, 80) == by_rich(command, 80)
