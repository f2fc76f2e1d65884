"""The optional packages (extras of pyproject.toml), and the error that tells how to install a missing one."""

from __future__ import annotations

import re
from importlib.metadata import requires
from importlib.util import find_spec

from npusim.isa.base.errors import NpusimError


def missing(what: str, extra: str) -> NpusimError:
    """Return the error for a function `what` that needs an extra, with the packages to install."""
    packages = _packages(extra)
    names = ", ".join(re.split(r"[^\w.-]", package, maxsplit=1)[0] for package in packages)
    are = "are" if len(packages) > 1 else "is"
    quoted = " ".join(f"'{package}'" for package in packages)
    return NpusimError(f"{what} needs {names}, which {are} not installed: pip install {quoted}")


def has_parquet() -> bool:
    """Return whether Parquet files can be written, which needs pyarrow, the extra `parquet`."""
    return find_spec("pyarrow") is not None


def _packages(extra: str) -> list[str]:
    """Return the requirements of an extra, without their markers.

    They are named one by one, because npusim is in no package registry, so `pip install npusim[extra]` would fail.
    """
    marker = re.compile(rf"""extra\s*==\s*["']{extra}["']""")
    declared = [line.partition(";") for line in requires("npusim") or ()]
    packages = [requirement.strip() for requirement, _, marked in declared if marker.search(marked)]
    if not packages:
        raise KeyError(f"pyproject.toml declares no extra {extra}")
    return packages
