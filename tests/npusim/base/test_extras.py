"""What is not installed: one line with a command that works, for every extra that the product names."""

from __future__ import annotations

import re
from importlib.metadata import metadata
from pathlib import Path

import pytest

from npusim.base.extras import missing

ROOT = Path(__file__).resolve().parents[3]
SOURCES = [
    file
    for folder in ("npusim", "isa", "kernels", "scheduler", "reports")
    for file in (ROOT / folder).rglob("*.py")
]
NAMED = sorted(
    {name for file in SOURCES for name in re.findall(r'missing\("[^"]*", "(\w+)"\)', file.read_text("utf-8"))}
)


def test_the_line_names_packages_that_a_registry_has() -> None:
    assert str(missing("--dask", "cluster")) == (
        "--dask needs distributed, which is not installed: pip install 'distributed>=2024.1'"
    )


@pytest.mark.parametrize("extra", NAMED)
def test_every_extra_that_is_named_is_declared(extra: str) -> None:
    assert extra in metadata("npusim").get_all("Provides-Extra")
    assert "pip install" in str(missing("it", extra))


def test_something_names_an_extra() -> None:
    assert "cluster" in NAMED


def test_an_extra_that_nobody_declares_is_our_fault() -> None:
    with pytest.raises(KeyError, match="declares no extra report"):
        missing("it", "report")


def test_no_text_sends_anybody_to_a_registry_that_has_no_npusim() -> None:
    texts = [
        *SOURCES,
        ROOT / "README.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "reports" / "page" / "templates").iterdir(),
    ]
    sent = [file.name for file in texts if file.is_file() and "install 'npusim[" in file.read_text("utf-8")]
    assert sent == []
