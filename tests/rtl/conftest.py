"""The register-transfer reference needs Verilator and a C++ compiler.

`make test` runs a part of it, `make rtl` (NPUSIM_RTL=all) more, and `make nightly` all. README.md has the rule."""

from __future__ import annotations

import os
from typing import TypeVar

import pytest

from tests.examples import NIGHT

from .verilated import missing_tool

T = TypeVar("T")

ALL = os.environ.get("NPUSIM_RTL") == "all"


def sized(day: T, rtl: T, night: T) -> T:
    """What `make test`, `make rtl` and `make nightly` try."""
    return night if ALL and NIGHT else rtl if ALL else day


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests here as slow: the first of a unit builds it. Skip them where a tool is missing."""
    missing = missing_tool()
    reason = f"{missing}; on Debian and Ubuntu: apt-get install verilator g++"
    for item in items:
        if "tests/rtl/" in item.path.as_posix():
            item.add_marker(pytest.mark.slow)
            if missing is not None:
                item.add_marker(pytest.mark.skip(reason=reason))
