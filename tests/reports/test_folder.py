"""`npusim run --report DIR`: the files, that they agree with each other, and what is refused before the work."""

from __future__ import annotations

import csv
import subprocess
import sys
from io import BytesIO, StringIO
from pathlib import Path

import pytest

from npusim.base import extras
from npusim.numbers.measure import measure
from npusim.numbers.run import RunResult
from npusim.reports import folder, report
from npusim.reports.run import tables
from npusim.reports.run.series import Charts

from ..command_line import command
from ..npusim.numbers.fake_run import execution, program

pytestmark = pytest.mark.slow

parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow, the extra parquet, is not installed")


@pytest.fixture(scope="module")
def result() -> RunResult:
    return measure(program(), execution())


RUN = ("run", "digits_cnn", "--timing-only")


def test_report_writes_every_file(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    target = tmp_path / "new" / "folder"
    words = [sys.executable, "-m", "npusim", *RUN, "--report", target]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in target.iterdir()) == sorted(each.name for each in folder.files())
    assert all(path.stat().st_size > 0 for path in target.iterdir())
    assert (target / "report.html").read_text("utf-8").startswith("<!doctype html>")
    assert (target / "roofline.png").read_bytes().startswith(b"\x89PNG")
    (target / "report.html").write_text("old")
    request.getfixturevalue("one_figure")
    again = command(*RUN, "--report", target)
    assert (again.status, again.err) == (0, "")
    assert (target / "report.html").read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("name", tables.TABLES)
def test_csv_and_parquet_hold_the_same(name: str, result: RunResult) -> None:
    columns = tables.TABLES[name](Charts(result))
    rows = list(csv.DictReader(StringIO(tables.to_csv(columns))))
    file = BytesIO()
    tables.write_parquet(columns, file)
    stored = parquet.read_table(BytesIO(file.getvalue())).to_pydict()
    assert list(stored) == list(columns)
    assert stored == {key: list(values) for key, values in columns.items()}
    for key, values in stored.items():
        assert [row[key] for row in rows] == ["" if value is None else str(value) for value in values]


def test_layers_are_those_of_the_option(result: RunResult) -> None:
    assert tables.to_csv(tables.layers(Charts(result))) == report("--csv").render(result)


def test_the_page_lists_the_files_beside_it(result: RunResult) -> None:
    source = folder.page(result)
    assert [
        each.name for each in folder.files() if each.name != folder.PAGE and each.name not in source
    ] == []


def _a_file(tmp_path: Path) -> tuple[Path, str]:
    (tmp_path / "taken").write_text("mine")
    return tmp_path / "taken", "is a file; give the name of a folder"


def _below_a_file(tmp_path: Path) -> tuple[Path, str]:
    (tmp_path / "taken").write_text("mine")
    return tmp_path / "taken" / "report", "is a file"


def _a_folder_in_the_way(tmp_path: Path) -> tuple[Path, str]:
    (tmp_path / "out" / "report.html").mkdir(parents=True)
    return tmp_path / "out", "report.html: is a folder; give the name of a file"


@pytest.mark.parametrize("case", [_a_file, _below_a_file, _a_folder_in_the_way])
def test_what_cannot_be_written_is_refused_before_the_work(case: object, tmp_path: Path) -> None:
    target, words = case(tmp_path)  # type: ignore[operator]
    before = sorted(tmp_path.rglob("*"))
    done = command(*RUN, "--report", target)
    assert (done.status, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert words in done.err
    assert sorted(tmp_path.rglob("*")) == before


def test_two_options_may_not_write_one_file(tmp_path: Path) -> None:
    done = command(*RUN, "--report", tmp_path, "--json", tmp_path / "result.json")
    assert done.status == 2
    assert "is also --json; give each a file of its own" in done.err


def test_without_pyarrow_the_folder_has_all_but_parquet(monkeypatch: pytest.MonkeyPatch) -> None:
    full = [each.name for each in folder.files()]
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    assert [each.name for each in folder.files()] == [each for each in full if not each.endswith(".parquet")]
    assert any(each.endswith(".parquet") for each in full)


LIGHT = (
    "import sys\nfrom npusim.reports.run import html, tables, figures\nfrom npusim.reports import folder\n"
)
LIGHT += "heavy = {'jinja2', 'matplotlib', 'pandas', 'pyarrow'} & set(sys.modules)\nassert not heavy, heavy"


def test_what_is_heavy_is_imported_when_it_is_used() -> None:
    subprocess.run([sys.executable, "-c", LIGHT], check=True)
