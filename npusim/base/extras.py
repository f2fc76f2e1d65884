"""Packages that only some users need: the extras of pyproject.toml, and what to type where one is missing."""

from __future__ import annotations

import re
from importlib.metadata import requires
from importlib.util import find_spec

from npusim.isa.base.errors import NpusimError


def missing(what: str, extra: str) -> NpusimError:
    """The error for `what` that needs an extra: names its packages as the installed npusim declares them."""
    packages = _packages(extra)
    names = ", ".join(re.split(r"[^\w.-]", each, maxsplit=1)[0] for each in packages)
    are = "are" if len(packages) > 1 else "is"
    quoted = " ".join(f"'{each}'" for each in packages)
    return NpusimError(f"{what} needs {names}, which {are} not installed: pip install {quoted}")


def has_parquet() -> bool:
    """Return whether Parquet files can be written, which needs pyarrow, the extra `parquet`."""
    return find_spec("pyarrow") is not None


def _packages(extra: str) -> list[str]:
    """Requirements of an extra, without their markers; no registry has npusim, so they are named one by one."""
    marker = re.compile(rf"""extra\s*==\s*["']{extra}["']""")
    declared = [each.partition(";") for each in requires("npusim") or ()]
    packages = [requirement.strip() for requirement, _, marked in declared if marker.search(marked)]
    if not packages:
        raise KeyError(f"pyproject.toml declares no extra {extra}")
    return packages
