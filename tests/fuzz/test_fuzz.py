"""The fuzz harness: a few cases of each kind, and that it sees what is wrong with a case."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

if os.name != "posix":
    pytest.skip("cases run in forked processes with POSIX limits", allow_module_level=True)

from ..examples import NIGHT
from . import child, harness
from .child import Report
from .harness import Kind, fuzz
from .invariants import broken
from .kinds import KINDS

CASES = 8 if NIGHT else 2


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_few_cases_of_each_kind(name: str, tmp_path: Path) -> None:
    said: list[str] = []
    tally = fuzz(KINDS[name], 1, 60, tmp_path, CASES, said.append)
    assert tally.cases == CASES
    assert tally.counts["run"] > 0
    assert tally.bad == 0, said
    assert not list(tmp_path.iterdir())


def one_case(work: Callable[[int, Path, Report], None], folder: Path) -> harness.Tally:
    return fuzz(Kind("for a test", work), 7, 60, folder, 1, lambda line: None)


def test_a_bad_case_is_counted_and_kept(tmp_path: Path) -> None:
    def work(seed: int, files: Path, report: Report) -> None:
        (files / "model").write_text(f"seed {seed}")
        os.write(1, b"printed\n")
        report.note("run")
        report.note("wrong bytes", "all of them")

    tally = one_case(work, tmp_path)
    assert (tally.cases, tally.bad, tally.counts["run"]) == (1, 1, 1)
    assert (tmp_path / "7" / "case" / "model").read_text() == "seed 7"
    assert (tmp_path / "7" / "run.txt").read_text() == "printed\n"
    assert (tmp_path / "7" / "what.txt").read_text() == "seed 7: wrong bytes: all of them\n"


def test_a_fault_of_python_is_counted(tmp_path: Path) -> None:
    tally = one_case(lambda seed, files, report: json.loads("{"), tmp_path)
    assert (tally.bad, tally.counts["fault"]) == (1, 1)


def test_a_process_that_ends_itself_is_a_crash(tmp_path: Path) -> None:
    tally = one_case(lambda seed, files, report: os.abort(), tmp_path)
    assert (tally.bad, tally.counts["crash"]) == (1, 1)


def test_who_waits_for_ever_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "WALL_SECONDS", 0.3)
    tally = one_case(lambda seed, files, report: time.sleep(100), tmp_path)
    assert (tally.bad, tally.counts["timeout"]) == (1, 1)


@pytest.mark.slow
def test_who_computes_for_ever_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(seed: int, files: Path, report: Report) -> None:
        while True:
            pass

    monkeypatch.setattr(child, "CPU_SECONDS", 0)
    tally = one_case(work, tmp_path)
    assert (tally.bad, tally.counts["timeout"]) == (1, 1)


def test_who_takes_much_memory_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "MEMORY_BYTES", 1)
    tally = one_case(lambda seed, files, report: report.note("run"), tmp_path)
    assert (tally.bad, tally.counts["over 1 GB"]) == (1, 1)


def test_a_check_may_crash(tmp_path: Path) -> None:
    kind = Kind(
        "for a test", lambda seed, files, report: report.note("run"), lambda files, report: os.abort()
    )
    tally = fuzz(kind, 1, 60, tmp_path, 1, lambda line: None)
    assert (tally.bad, tally.counts["not comparable"]) == (0, 1)


def test_invariants_see_what_does_not_hold() -> None:
    layer = {"name": "a", "cycles": 10, "lower_bound_cycles": 8, "lost_cycles": {"tail": 2}}
    sound = {
        "cycles": {"total": 10},
        "lower_bound_cycles": 8,
        "lost_cycles": {"tail": 2},
        "layers": [layer | {"utilization": 0.5, "energy_uj": 4.0}],
        "mac_utilization": 0.5,
        "energy_uj": {
            "total": 4.0,
            "dynamic": 1.0,
            "static": 1.0,
            "dram": 1.0,
            "host": 1.0,
            "by_component": {"x": 4.0},
        },
        "power_mw": {"average": 2.0, "peak": 3.0, "peak_1ms": 2.0},
        "latency_ms": 2.0,
    }
    assert broken(sound) == []
    assert broken(sound | {"lower_bound_cycles": 11})[0] == "10 cycles, the lower bound is 11"
    assert broken(sound | {"lost_cycles": {"tail": 1}}) == [
        "10 cycles are not the bound 8 and the losses {'tail': 1}"
    ]
    assert broken(sound | {"power_mw": {"average": 2.0, "peak": 1.0}}) == [
        "peak 1.0 mW is below the average 2.0 mW"
    ]
    assert broken(sound | {"mac_utilization": 1.5}) == ["utilization 1.5"]
