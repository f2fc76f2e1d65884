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


FULL: dict[str, tuple[str, ...]] = {
    "npusim/verification": ("verification",),
    "fuzz": ("fuzz",),
    "isa": (
        "arithmetic",
        "assembly",
        "beats",
        "codec",
        "container",
        "demand",
        "instructions",
    ),
    "kernels": (
        "extreme_windows",
        "parameters",
    ),
    "litert": (
        "graphs",
        "operators",
        "shapes",
        "states",
    ),
    "npusim/base": ("csv_text",),
    "npusim/cli": (
        "cli",
        "cli_table",
        "defences",
    ),
    "npusim/frontends": (
        "tflite_corruption",
        "tflite_reader",
        "unknown",
    ),
    "npusim/frontends/nn_hal": ("every_rule",),
    "npusim/frontends/nnadapter": ("wrong_calls",),
    "npusim/hal": (
        "examples",
        "control",
        "garbage",
        "illegal",
        "networks",
        "sizes",
    ),
    "npusim/machine": (
        "banks",
        "dram",
        "extreme_hardware",
    ),
    "npusim/models": ("builtin_models",),
    "npusim/nnadapter": (
        "movement",
        "operations",
    ),
    "npusim/numbers": (
        "losses",
        "provenance",
    ),
    "npusim/session": (
        "inputs",
        "keys",
        "notebook",
    ),
    "npusim/study": (
        "cli_explore",
        "cluster",
        "interrupted",
        "samplers",
        "stages",
        "study",
        "what_if",
    ),
    "reports": (
        "browser",
        "folder",
        "study_page",
    ),
    "rtl": (
        "banks",
        "mac",
        "system",
        "vector",
        "programs",
    ),
    "scheduler": (
        "last_resort",
        "memories",
        "models_golden",
        "moves",
        "operators_golden",
        "products",
        "search",
        "sized",
        "tiling",
        "synchronise",
        "weaves",
        "many_operators",
        "extremes",
    ),
    "": ("docs", "statements"),
}
"""Files of tests by folder that take more than 5 s each on two busy cores; `make quick` leaves them out."""

QUICK_ALL_THE_SAME = ("mlperf_kws", "mlperf_resnet8")
"""Parts of names of tests that `make quick` runs although their file is long: two whole networks, every byte."""


def _is_quick(item: pytest.Item) -> bool:
    folder = item.path.relative_to(Path(__file__).parent).parent.as_posix()
    long = item.path.stem.removeprefix("test_") in FULL.get("" if folder == "." else folder, ())
    return not long or (
        item.path.stem == "test_models_golden" and any(name in item.name for name in QUICK_ALL_THE_SAME)
    )


def shared_folder() -> Path | None:
    """The read-only folder of reference material beside the project, or None."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    return folder if folder.is_dir() else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks: quick or full. And without the reference material each test that needs it is one that skips."""
    for item in items:
        item.add_marker(pytest.mark.quick if _is_quick(item) else pytest.mark.full)
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
