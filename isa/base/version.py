"""The version of the running npusim: the release, and the commit where the sources are a git checkout."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2]
"""Root folder of the checkout, or of the installed package."""

COMMIT_DIGITS = 12
"""Hexadecimal digits of the commit in a version: 48 bits, so no two commits of one project are likely to share them."""

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@cache
def npusim_version() -> str:
    """Return the version, as PEP 440 writes it.

    "0.2.0" is the release; "0.2.0+g1a2b3c4d5e6f" is the named commit, made after that release or the release itself.
    A checkout names its own commit, whenever it was installed. A wheel has the version that it was built with.
    """
    from importlib import metadata

    installed = metadata.version("npusim")
    commit = checked_out(SOURCES)
    return f"{installed.partition('+')[0]}+g{commit[:COMMIT_DIGITS]}" if commit else installed


def checked_out(folder: Path) -> str:
    """Return the commit that is checked out in a folder as hexadecimal digits; empty if the folder is no checkout.

    Reads git's files directly, because starting git would take longer than a small simulation.
    """
    try:
        git = folder / ".git"
        if git.is_file():  # in a worktree or submodule, .git is a file that names the folder
            git = folder / git.read_text("utf-8").removeprefix("gitdir:").strip()
        head = (git / "HEAD").read_text("utf-8").strip()
        if head.startswith("ref:"):
            head = _resolved(git, head.removeprefix("ref:").strip())
    except (OSError, UnicodeDecodeError):
        return ""
    return head if _COMMIT.fullmatch(head) else ""


def _resolved(git: Path, name: str) -> str:
    """Return the commit of a branch; empty, or an OSError, if the branch has none yet."""
    common = git / "commondir"
    shared = git / common.read_text("utf-8").strip() if common.is_file() else git
    if (shared / name).is_file():
        return (shared / name).read_text("utf-8").strip()
    packed = (line.split() for line in (shared / "packed-refs").read_text("utf-8").splitlines())
    return next((words[0] for words in packed if words[1:] == [name]), "")


@cache
def sources_digest() -> str:
    """Return the SHA-256 of npusim's source files, which tells a modified tree from the commit it is based on.

    Files count under their import names, so a checkout and the wheel built from it have the same digest.
    """
    from hashlib import sha256

    digest = sha256()
    for name, path in sorted(_sources()):
        with open(path, "rb", buffering=0) as file:
            digest.update(name.encode() + b"\0" + sha256(file.read()).digest())
    return digest.hexdigest()


def _sources() -> Iterator[tuple[str, str]]:
    """Yield the path within the import package and the path on disk of every file of npusim."""
    in_checkout = {
        "npusim": "",
        "isa": "isa/",
        "kernels": "kernels/",
        "scheduler": "scheduler/",
        "reports": "reports/",
    }
    places = in_checkout if (SOURCES / "pyproject.toml").is_file() else {"": ""}
    for place, prefix in places.items():
        top = os.path.join(SOURCES, place)
        for folder, below, names in os.walk(top):
            below[:] = [entry for entry in below if entry != "__pycache__"]
            inside = os.path.relpath(folder, top)
            for name in names:
                yield prefix + os.path.normpath(os.path.join(inside, name)), os.path.join(folder, name)
