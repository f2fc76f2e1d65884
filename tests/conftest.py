"""Fixtures that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# No test of random values fails because the computer had other work to do.
settings.register_profile("npusim")
settings.load_profile("npusim")

# Before numpy is imported: several test processes share the cores already.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def shared_folder() -> Path | None:
    """The read-only folder of reference material beside the project, or None."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    return folder if folder.is_dir() else None


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference material; tests that need it skip where it is not."""
    folder = shared_folder()
    if folder is None:
        pytest.skip("reference material (../shared) is not beside this checkout")
    return folder
