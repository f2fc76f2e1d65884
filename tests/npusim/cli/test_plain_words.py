"""`npusim run` without typer reads the same values as with it, and leaves to it whatever could be a fault."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from npusim.cli.app import _run_at_once
from npusim.cli.options import OPTIONS, Request
from npusim.cli.plain_words import read
from npusim.cli.typer_options import with_options


def by_typer(words: list[str]) -> tuple[list[str], Request] | None:
    """Return what typer reads from the words of `npusim run`; None if it refuses them."""
    found: list[tuple[list[str], Request]] = []
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(with_options(lambda models, request: found.append((models, request))))
    CliRunner().invoke(app, words)
    return found[0] if found else None


EACH_OPTION = [
    [option.flag]
    if option.type is bool
    else [option.flag, "7" if option.type in (int, int | None) else "a,b=3"]
    for option in OPTIONS
]


@pytest.mark.parametrize(
    "words",
    [
        ["m.tflite"],
        ["a", "b", "--timing-only", "c"],
        ["--hw", "edge-128", "a", "--hw", "x.toml", "--set", "a=1", "--set", "b=2"],
        *(["m", *option] for option in EACH_OPTION),
        ["m", *(word for option in EACH_OPTION for word in option)],
        *(["m", *option, *option] for option in EACH_OPTION if len(option) == 1),
    ],
    ids=" ".join,
)
def test_words_that_both_read(words: list[str]) -> None:
    """Models, values and defaults are equal."""
    plain = read(words)
    assert plain is not None
    assert plain == by_typer(words)


@pytest.mark.parametrize(
    "words",
    [
        *(
            [],
            ["--timing-only"],
            ["m", "--help"],
            ["m", "-h"],
            ["m", "--no-such"],
            ["m", "--seed"],
            ["m", "-"],
        ),
        *(["m", "--seed", text] for text in ("x", "-1", "1.5", "", "\u0661", "1_0")),
        *(["m", "--prompt", text] for text in ("0", "x")),
        *(["m", "--json", "-"], ["m", "--json=r.json"], ["--", "m"], ["m", "--hw", "--timing-only"]),
        *(["m", *option, *option] for option in EACH_OPTION if option[0] in ("--seed", "--effort", "--json")),
        *(["m", "--timing-onl"], ["m", "--timing-only=1"], ["", "m"]),
    ],
    ids=str,
)
def test_words_that_are_left_to_typer(words: list[str]) -> None:
    """A fault is worded by typer alone."""
    assert read(words) is None


def test_a_file_that_cannot_be_read_is_left_to_typer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Typer refuses a path that exists and cannot be read."""
    (tmp_path / "in.npz").touch()
    assert read(["m", "--input", str(tmp_path / "in.npz")]) is not None
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert read(["m", "--input", str(tmp_path / "in.npz")]) is None


@pytest.mark.parametrize("words", [["run", "m"], ["--help"], ["hw", "list"]])
def test_completion_is_left_to_typer(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell asks for completions through a variable of the environment."""
    monkeypatch.setenv("_NPUSIM_COMPLETE", "complete_bash")
    assert not _run_at_once(words)
