"""A copy of the product with something added: what a new unit or engine takes, tried for real."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("isa", "kernels", "scheduler", "reports")

Edit = tuple[str, str]
"""A piece of a file, which is in it once, and what stands there instead."""


def clone(folder: Path, files: Mapping[str, str], edits: Mapping[str, Sequence[Edit]]) -> Path:
    """The product in `folder`, with further files and edits by their path in the repository; the folder to import from.

    An edit keeps what it replaces: the clone has additions only.
    """
    leave = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "npusim", folder / "npusim", ignore=leave)
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / "npusim" / room, ignore=leave)
    for path, text in files.items():
        file = _place(folder, path)
        assert not file.exists(), f"{path} is there already"
        file.write_text(text, "utf-8")
    for path, changes in edits.items():
        file = _place(folder, path)
        text = file.read_text("utf-8")
        for old, new in changes:
            assert text.count(old) == 1, f"{path}: {text.count(old)} times {old!r}"
            text = text.replace(old, new)
        file.write_text(text, "utf-8")
    return folder


def lines_added(edits: Mapping[str, Sequence[Edit]]) -> dict[str, int]:
    """Lines by which each edited file grows."""
    return {
        path: sum(new.count("\n") - old.count("\n") for old, new in changes)
        for path, changes in edits.items()
    }


def _place(folder: Path, path: str) -> Path:
    return folder / path if path.startswith("npusim/") else folder / "npusim" / path


def execute(folder: Path, script: str) -> str:
    """What a script prints in a process of its own that imports the clone; an error of the script is one here."""
    file = folder / "script.py"
    file.write_text(f"import sys\nsys.path.append({str(ROOT)!r})\n{script}", "utf-8")
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, env=environment, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
