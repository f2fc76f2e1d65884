"""Fixtures that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No test of random values fails because the computer had other work to do.
settings.register_profile("npusim", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("npusim")

# Before numpy is imported: several test processes share the cores already.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def shared_folder() -> Path | None:
    """The read-only folder of reference material beside the project, or None."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    return folder if folder.is_dir() else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without the reference material each test that needs it is one test that skips, however many cases it has."""
    if shared_folder() is not None:
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if "shared" in getattr(item, "fixturenames", ()):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for same in cases.values():
        number = f"; {len(same)} cases" if len(same) > 1 else ""
        reason = f"reference material (../shared) is not beside this checkout{number}"
        same[0].add_marker(pytest.mark.skip(reason=reason))
    others = {id(item) for same in cases.values() for item in same[1:]}
    config.hook.pytest_deselected(items=[item for item in items if id(item) in others])
    items[:] = [item for item in items if id(item) not in others]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference material; tests that need it skip where it is not."""
    folder = shared_folder()
    if folder is None:
        pytest.skip("reference material (../shared) is not beside this checkout")
    return folder
