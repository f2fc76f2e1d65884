"""The referee needs Verilator and a C++ compiler; `NPUSIM_RTL=all` (make rtl) runs all of it."""

from __future__ import annotations

import os

import pytest

from .verilated import missing_tool

ALL = os.environ.get("NPUSIM_RTL") == "all"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is collected here when a tool is missing."""
    missing = missing_tool()
    if missing is None:
        return
    reason = f"{missing}; on Debian and Ubuntu: apt-get install verilator g++"
    for item in items:
        if "tests/rtl/" in item.path.as_posix():
            item.add_marker(pytest.mark.skip(reason=reason))
