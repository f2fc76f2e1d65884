"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.examples import NIGHT, QUICK, WANTED, scaled, some
from tests.yardstick import yardstick_s

# No test of random values fails because the computer had other work to do.
settings.register_profile(
    "npusim", max_examples=scaled(30), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("npusim")

# Before numpy is imported: several test processes share the cores already.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The tests start npusim hundreds of times. A start that finds no byte code compiles every module that it imports, which
# takes three times as long as a small run, and pytest would rewrite all assertions anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

SLOW_S = 1.0
"""Time that a test without the mark `slow` may take on an idle machine."""
LIMIT = 1000
"""Time in yardsticks above which such a test fails: ten times SLOW_S, for the first test also imports and compiles."""


def _cpu_seconds() -> float:
    """CPU time of this process and of the child processes that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that has become too slow for `make quick`, so that it is made smaller or marked."""
    cpu_start, start = _cpu_seconds(), time.perf_counter()
    result = yield
    # A busy machine lengthens elapsed time only; threads on many cores and children of earlier tests add CPU time only.
    seconds = min(_cpu_seconds() - cpu_start, time.perf_counter() - start)
    unmarked = not (NIGHT or WANTED) and item.get_closest_marker("slow") is None
    # The yardstick is measured now, so that the limit does not depend on the machine and on what else it does.
    if unmarked and seconds > SLOW_S and seconds > LIMIT * yardstick_s():
        pytest.fail(
            f"{item.nodeid} took {seconds:.1f} s of CPU time. A test that needs more than {SLOW_S:g} s is made "
            "smaller, or gets the mark @pytest.mark.slow and is left out of `make quick`",
            pytrace=False,
        )
    return result


# Collecting thousands of tests makes many objects and no garbage: without the collector it takes a quarter less time.
gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Collect garbage again, but not among the tests, which stay until the end."""
    gc.freeze()
    gc.enable()


def thinned(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests to run: by day as many cases as the mark `cases` says; `make quick` leaves out the slow ones.

    `cases(day, each=NAME)` counts the cases for each value of the parameter NAME.
    """
    groups: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        if QUICK and item.get_closest_marker("slow"):
            continue
        mark = item.get_closest_marker("cases")
        each = mark.kwargs.get("each") if mark and not QUICK else None
        part = str(item.callspec.params[each]) if each else ""  # type: ignore[attr-defined]
        groups.setdefault((item.nodeid.partition("[")[0], part), []).append(item)
    chosen = set()
    for (name, part), same in groups.items():
        mark = same[0].get_closest_marker("cases")
        day = mark.args[0] if mark else len(same)
        chosen.update(id(item) for item in some(same, day, f"{name} {part}"))
    return [item for item in items if id(item) in chosen]


def shared_folder() -> Path | None:
    """The read-only folder of reference material beside the project, or None."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    return folder if folder.is_dir() else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what another time tries. Without the reference material each test that needs it is one that skips."""
    kept = thinned(items)
    if len(kept) < len(items):
        left = {id(item) for item in kept}
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in left])
        items[:] = kept
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


@pytest.fixture
def one_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw one figure of each report and study, for tests of what else is in them.

    All figures take 3 s of CPU time for a report. tests/reports/test_folder.py writes all files of a report,
    tests/reports/test_figures.py draws every figure, tests/npusim/study/test_interrupted.py all those of a study.
    """
    from npusim.reports.run import figures
    from npusim.reports.study import figures as study_figures

    monkeypatch.setattr(figures, "FIGURES", {"roofline": figures.roofline})
    monkeypatch.setattr(study_figures, "FIGURES", {"front": study_figures.front})


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference material; tests that need it skip where it is not."""
    folder = shared_folder()
    if folder is None:
        pytest.skip("reference material (../shared) is not beside this checkout")
    return folder
