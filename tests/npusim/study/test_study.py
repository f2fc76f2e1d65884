"""Studies: the same files whoever computed them, whatever was killed; what they say about their points."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.isa.base.errors import NpusimError
from npusim.isa.program.interpreter import interpret
from npusim.session.api import host_functions
from npusim.session.inputs import draw
from npusim.study.evaluate import Record, Workload
from npusim.study.executors import InProcess, LocalProcesses, executor
from npusim.study.explore import explore
from npusim.study.folder import Folder, StudyError
from npusim.study.space_file import SpaceFile
from npusim.study.study import Study, to_parquet, write_tables

from ...examples import NIGHT
from .spaces import digits, sampling, space_file


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file of a study by name."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def study_in(folder: Path, file: SpaceFile | None = None, jobs: int = 1, **how: Any) -> Study:
    """A study of the smallest model with its tables."""
    space = (file or space_file()).space
    made = explore(
        [digits()],
        space,
        sampling(**({"kind": "grid"} | how)),
        folder,
        make_executor=lambda job: executor(job, jobs),
    )
    write_tables(made)
    return made


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The whole grid of the small space."""
    return study_in(tmp_path_factory.mktemp("grid") / "study")


@pytest.mark.slow
def test_a_grid_is_complete_and_equals_single_runs(grid: Study) -> None:
    assert [record.point for record in grid.records] == list(range(24))
    for record in (grid.records[0], grid.records[13]):
        run = npusim.run("digits_cnn", grid.hardware(record.point), timing_only=True)
        plain = run.to_dict()
        assert record.values == {
            "latency_ms": plain["latency_ms"],
            "energy_uj.total": plain["energy_uj"]["total"],
            "area_mm2.total": plain["area_mm2"]["total"],
        }


@pytest.mark.slow
@pytest.mark.cases(1)
@pytest.mark.parametrize(("kind", "jobs"), [("grid", 3), ("nsga2", 2)])
def test_any_number_of_processes_gives_the_same_bytes(kind: str, jobs: int, tmp_path: Path) -> None:
    study_in(tmp_path / "one", kind=kind, points=12)
    study_in(tmp_path / "many", kind=kind, points=12, jobs=jobs)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "many")
    assert {"study.json", "points.jsonl", "points.csv", "front.csv"} <= files_of(tmp_path / "one").keys()


@pytest.mark.slow
@pytest.mark.cases(1, each="kind")
@pytest.mark.parametrize("kind", ["grid", "random", "nsga2", "tpe"])
@pytest.mark.parametrize("kept", [0, 1, 7])
def test_what_is_on_disk_is_not_computed_again(
    kind: str, kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = {"kind": kind, "points": 12} | ({"batch": 4} if kind in ("nsga2", "tpe") else {})
    study_in(tmp_path / "whole", **how)
    study_in(tmp_path / "torn", **how)
    lines = (tmp_path / "whole" / "points.jsonl").read_bytes().splitlines(keepends=True)
    random.Random(kept).shuffle(lines)
    # The first few points of any order, and half of the next.
    torn = b"".join(lines[:kept]) + lines[kept][: len(lines[kept]) // 2]
    (tmp_path / "torn" / "points.jsonl").write_bytes(torn)
    computed = []

    def counting(self: InProcess, points: Any) -> Any:
        computed.extend(points)
        return plain(self, points)

    plain = InProcess.records
    monkeypatch.setattr(InProcess, "records", counting)
    study_in(tmp_path / "torn", **how)
    assert files_of(tmp_path / "torn") == files_of(tmp_path / "whole")
    assert len(computed) == len(set(computed)) == len(lines) - kept


@pytest.mark.slow
def test_more_points_continue_a_study(tmp_path: Path) -> None:
    study_in(tmp_path / "once", kind="random", points=10)
    study_in(tmp_path / "twice", kind="random", points=4)
    study_in(tmp_path / "twice", kind="random", points=10)
    assert files_of(tmp_path / "once") == files_of(tmp_path / "twice")
    study_in(tmp_path / "twice", kind="random", points=4)
    assert files_of(tmp_path / "once") == files_of(tmp_path / "twice")


# One figure of a study: all of them take longer than the search; test_interrupted.py draws them.
COMMAND = """
from npusim.reports.study import figures
from npusim.cli.app import main
figures.FIGURES = dict(front=figures.front)
main()
"""

# A search that is killed some time after it has written so many points, by a thread of its own: whatever else the
# computer does holds up both.
KILLED = (
    """
import os, signal, threading
from npusim.study.folder import Folder

append, written = Folder.append, []

def counted(folder, line):
    append(folder, line)
    written.append(line)
    if len(written) == {points}:
        threading.Timer({pause_s}, os.kill, (os.getpid(), signal.SIGKILL)).start()

Folder.append = counted
"""
    + COMMAND
)


def start(space: Path, study: Path, jobs: int = 2, code: str = COMMAND) -> subprocess.Popen[bytes]:
    """The command in a process."""
    words = ["explore", "digits_cnn", str(space), "--study", str(study), "--jobs", str(jobs)]
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


POINTS = 180 if NIGHT else 60
KILLED_SPACE = f"""
[parameters]
mac_array.rows = [4, 8, 16, 32]
mac_array.columns = [4, 8, 16]
scratchpad.size_kib = {{ from = 16, to = 128, factor = 2 }}
dram.bandwidth_gb_per_s = [0.5, 1, 2]
vector.lanes = [2, 4, 8]
[sampler]
kind = "nsga2"
points = {POINTS}
batch = 10
"""


@pytest.mark.slow
def test_killed_many_times_equals_never_killed(tmp_path: Path) -> None:
    space = tmp_path / "space.toml"
    space.write_text(KILLED_SPACE)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = start(space, whole)
    assert done.wait() == 0, done.stderr and done.stderr.read()
    chance = random.Random(4)
    for kill in range(10 if NIGHT else 1):
        before = count_lines(killed)
        points, pause_s = chance.randrange(1, 9), chance.random() * 0.02
        process = start(space, killed, jobs=1 + kill % 2, code=KILLED.format(points=points, pause_s=pause_s))
        assert process.wait() == -signal.SIGKILL
        assert before < count_lines(killed) < POINTS
    last = start(space, killed)
    assert last.wait() == 0, last.stderr and last.stderr.read()
    assert files_of(killed) == files_of(whole)


def count_lines(study: Path) -> int:
    file = study / "points.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


@pytest.mark.slow
def test_no_worker_outlives_a_killed_search(tmp_path: Path) -> None:
    space = tmp_path / "space.toml"
    space.write_text(KILLED_SPACE.replace('kind = "nsga2"', 'kind = "random"'))
    process = start(space, tmp_path / "study")
    while process.poll() is None and count_lines(tmp_path / "study") < 4:
        time.sleep(0.01)
    workers = children(process.pid)
    assert workers, "two worker processes were expected"
    process.kill()
    process.wait()
    deadline = time.monotonic() + 300
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))


def children(pid: int) -> list[int]:
    if not Path("/proc/self/stat").exists():
        pytest.skip("needs /proc")
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
        except OSError:
            continue
        if int(stat.rpartition(")")[2].split()[1]) == pid:
            found.append(int(folder.name))
    return found


def alive(pid: int) -> bool:
    try:
        return (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]) not in ("Z", "X")
    except OSError:
        return False


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    space = space_file().space
    study_in(tmp_path / "calm")
    killed = []

    def make(job: Any) -> LocalProcesses:
        processes = LocalProcesses(job, 2)

        def records(points: Any) -> Any:
            for record in plain(points):
                if not killed:
                    worker = processes._workers[0]._process or processes._workers[1]._process
                    assert worker is not None
                    worker.kill()
                    killed.append(worker.pid)
                yield record

        plain = processes.records
        processes.records = records  # type: ignore[method-assign]
        return processes

    made = explore([digits()], space, sampling("grid"), tmp_path / "rough", make_executor=make)
    write_tables(made)
    assert killed
    assert files_of(tmp_path / "rough") == files_of(tmp_path / "calm")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"parameters": {"clock_mhz": [1, 2]}}, "parameters changed"),
        ({"extends": "edge-64"}, "hardware.name, hardware.description, hardware.mac_array.rows changed"),
        ({"objectives": ["area"]}, "objectives changed"),
        ({"limits": {"area": "<= 3"}}, "limits changed"),
        ({"programs": "shared"}, "programs changed"),
        ({"constraints": ["1 < 2"]}, "constraints changed"),
    ],
)
def test_a_study_of_something_else_is_refused(
    change: dict[str, Any], named: str, grid: Study, tmp_path: Path
) -> None:
    before = files_of(grid.path)
    parameters = change.pop("parameters", None)
    with pytest.raises(StudyError) as caught:
        study_in(grid.path, space_file(parameters, **change))
    assert (
        str(caught.value)
        == f"{grid.path}: is a study of something else: {named}; give another name with --study"
    )
    with pytest.raises(StudyError, match=r"sampler.kind, sampler.seed changed"):
        study_in(grid.path, kind="random", seed=3)
    other = Workload("digits_cnn", npusim.load("ds_cnn"))
    with pytest.raises(StudyError, match="models changed"):
        explore([other], grid.space, sampling("grid"), grid.path)
    assert files_of(grid.path) == before


def test_a_folder_that_is_no_study_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StudyError, match="is there, and is not a study; give another name with --study"):
        study_in(tmp_path)
    with pytest.raises(StudyError, match=r"is not a study: it has no study.json"):
        Study.open(tmp_path)


def test_damage_is_named(tmp_path: Path) -> None:
    study = study_in(tmp_path / "study", kind="random", points=3)
    lines = (study.path / "points.jsonl").read_bytes().splitlines(keepends=True)
    (study.path / "points.jsonl").write_bytes(lines[0] + b"{broken}\n" + lines[2])
    with pytest.raises(
        StudyError,
        match=r"points.jsonl: line 2 is damaged: has no checksum; delete the line to compute it again",
    ):
        Study.open(study.path)
    (study.path / "study.json").write_text("{")
    with pytest.raises(StudyError, match=r"study.json: damaged: "):
        Study.open(study.path)


def test_two_searches_do_not_share_a_study(grid: Study) -> None:
    with (
        Folder(grid.path).writing(),
        pytest.raises(StudyError, match="another npusim is working on this study"),
        Folder(grid.path).writing(),
    ):
        pass


@pytest.mark.slow
def test_infeasible_points_are_kept_with_their_reason(tmp_path: Path) -> None:
    parameters = {"mac_array.rows": [16, 512], "scratchpad.size_kib": [4, 128], "dram.burst_bytes": [32, 48]}
    space = space_file(parameters, limits={"area": "<= 0.5"}).space
    models = [Workload("mobilenet_v1", npusim.load("mobilenet_v1"))]
    study = explore(models, space, sampling("grid"), tmp_path / "study", make_executor=InProcess)
    reasons = {record.point: study.reason(record) for record in study.records}
    assert reasons[0] == (
        'mobilenet_v1: conv_2d "conv_3/pointwise" needs 7376 bytes of scratchpad for its smallest tile, '
        "edge-128 has 4096; enlarge scratchpad.size_kib"
    )
    assert "dram.burst_bytes: 48 is not a power of two" in reasons[1]
    assert reasons[2] == "breaks area_mm2.total <= 0.5"
    assert "is too small for 4096 multipliers, at least 16" in reasons[4]
    assert not study.feasible
    assert not study.front
    lines = [json.loads(line) for line in (study.path / "points.jsonl").read_text().splitlines()]
    assert [("values" in line, "infeasible" in line) for line in lines[:3]] == [(False, True)] * 2 + [
        (True, False)
    ]


def test_fronts_sensitivities_and_tables(grid: Study) -> None:
    import pandas

    table = grid.to_pandas()
    assert len(table) == 24
    assert table["on_front"].sum() == len(grid.front) > 1
    best = table.loc[table["latency_ms"].idxmin(), "point"]
    assert grid.front[0].point == best
    written = pandas.read_csv(grid.path / "points.csv")
    assert written["latency_ms"].tolist() == table["latency_ms"].tolist()
    parquet = pandas.read_parquet(grid.path / "points.parquet")
    assert parquet["energy_uj.total"].tolist() == table["energy_uj.total"].tolist()
    assert pandas.read_csv(grid.path / "front.csv")["point"].tolist() == [
        record.point for record in grid.front
    ]
    effects = {(each.parameter, each.objective): each for each in grid.sensitivities}
    size = effects["scratchpad.size_kib", "area_mm2.total"]
    assert list(size.means) == [32, 64, 128]
    # Geometric means over the full grid are those of the points.
    logs = np.log(table["area_mm2.total"]).groupby(table["scratchpad.size_kib"]).mean()
    assert list(size.means.values()) == pytest.approx(np.exp(logs).tolist(), rel=1e-3)
    # The model has all of the area of a full grid, which is nearly a sum over parameters.
    shares = [each.share for key, each in effects.items() if key[1] == "area_mm2.total"]
    assert sum(shares) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("value", [2**53 + 1, 10**30])
def test_whole_numbers_beside_reals_make_one_column(value: int) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow, the extra parquet, is not installed")
    import pandas

    content = to_parquet([{"x": value}, {"x": 0.5}, {"x": None}], ["x"])
    assert content is not None
    column = pandas.read_parquet(BytesIO(content))["x"]
    assert column.tolist()[:2] == [float(value), 0.5]


def test_hardware_files_of_the_front_run(grid: Study) -> None:
    record = grid.front[0]
    run = npusim.run("digits_cnn", grid.path / "front" / f"{record.point}.toml", timing_only=True)
    assert run.latency_ms == record.values["latency_ms"]


@pytest.mark.slow
def test_every_point_of_a_front_with_data(grid: Study) -> None:
    graph = npusim.load("digits_cnn")
    for record in grid.front:
        program = npusim.compile(graph, grid.hardware(record.point))
        inputs = draw(program.inputs, 5)
        run = npusim.simulate(program, inputs)
        assert run.latency_ms == record.values["latency_ms"]
        assert float(run.energy_uj) == record.values["energy_uj.total"]
        expected = interpret(program, inputs, host_functions=host_functions(program))
        reference = npusim.simulate(npusim.compile(graph, "edge-128"), inputs).outputs
        for array, other, third in zip(run.outputs, expected, reference, strict=True):
            assert array.tobytes() == other.tobytes() == third.tobytes()


@pytest.mark.slow
def test_several_models_are_weighed(tmp_path: Path) -> None:
    models = [digits(3.0), Workload("ds_cnn", npusim.load("ds_cnn"), 1.0)]
    ways = {}
    for how in ("mean", "sum", "geomean", "max"):
        space = space_file({"clock_mhz": [200]}, combine=how).space
        study = explore(models, space, sampling("grid"), tmp_path / how, make_executor=InProcess)
        ways[how] = study.records[0]
    one, other = (ways["mean"].by_model[name]["latency_ms"] for name in ("digits_cnn", "ds_cnn"))
    assert {how: record.values["latency_ms"] for how, record in ways.items()} == pytest.approx(
        {
            "mean": (3 * one + other) / 4,
            "sum": 3 * one + other,
            "geomean": (one**3 * other) ** 0.25,
            "max": max(one, other),
        }
    )
    area = ways["mean"].by_model["ds_cnn"]["area_mm2.total"]
    assert {record.values["area_mm2.total"] for record in ways.values()} == {area}
    write_tables(study)
    assert "latency_ms [ds_cnn]" in (study.path / "points.csv").read_text().splitlines()[0]


def test_lines_are_small_and_plain(grid: Study) -> None:
    line = json.loads((grid.path / "points.jsonl").read_text().splitlines()[0])
    assert list(line) == ["point", "parameters", "values", "sha256"]
    assert Record(0, line["values"]) == grid.records[0]


def test_a_fault_of_ours_is_a_reason_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from npusim.study import evaluate

    def broken(*arguments: Any, **named: Any) -> Any:
        raise ZeroDivisionError("oh\nno")

    monkeypatch.setattr(evaluate.api, "compile_program", broken)
    study = explore(
        [digits()], space_file().space, sampling("grid"), tmp_path / "study", make_executor=InProcess
    )
    assert {record.reason for record in study.records} == {
        "a fault of npusim, please report it with the hardware: ZeroDivisionError: oh no"
    }


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_objective_that_a_model_does_not_have(jobs: int, tmp_path: Path) -> None:
    space = space_file(objectives=["layers.99.cycles"]).space
    with pytest.raises(NpusimError, match=r"objective layers.99.cycles: digits_cnn has no number there"):
        explore(
            [digits()],
            space,
            sampling("grid"),
            tmp_path / "study",
            make_executor=lambda job: executor(job, jobs),
        )


@pytest.mark.slow
def test_the_interface_of_python(tmp_path: Path) -> None:
    from npusim import explore as room

    (tmp_path / "space.toml").write_text("[parameters]\nclock_mhz = [200, 400]\n")
    file = room.read_space(str(tmp_path / "space.toml"))
    study = room.explore(
        [room.Workload("d", npusim.load("digits_cnn"))], file.space, file.sampling, tmp_path / "s"
    )
    assert [record.point for record in room.Study.open(study.path).front] == [1, 0]
    assert all(getattr(room, name).__doc__ for name in room.__all__)
