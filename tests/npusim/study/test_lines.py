"""Lines of a study: what is not exactly a line of this study is damage, named by its number, and never a result."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from npusim.isa.base.errors import NpusimError
from npusim.study.executors import InProcess
from npusim.study.explore import explore
from npusim.study.folder import Folder, StudyError
from npusim.study.lines import Lines
from npusim.study.study import Study

from .spaces import digits, sampling, space_file

SPACE = {"mac_array.rows": [8, 16], "vector.lanes": [4, 8]}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of four points."""
    folder = tmp_path_factory.mktemp("lines") / "study"
    file = space_file(SPACE, objectives=["latency", "energy"])
    explore([digits()], file.space, sampling("grid"), folder, make_executor=InProcess)
    return folder


@pytest.fixture
def study(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "study")
    return tmp_path / "study"


def lines_of(study: Path) -> list[bytes]:
    return (study / "points.jsonl").read_bytes().splitlines(keepends=True)


def old_format(study: Path) -> None:
    """Turn a study into what npusim 0.1.0 wrote: no checksums anywhere."""
    plain = json.loads((study / "study.json").read_bytes())
    del plain["sha256"]
    (study / "study.json").write_text(json.dumps(plain | {"format": 1}))
    written = [json.loads(line) for line in lines_of(study)]
    for line in written:
        del line["sha256"]
    (study / "points.jsonl").write_text("".join(json.dumps(line) + "\n" for line in written))
    base = json.loads((study / "base.json").read_bytes())
    plain = {"point": -1, "values": base["values"], "by_model": {}, "reason": ""}
    (study / "base.json").write_text(json.dumps(plain, indent=1))


WRONG = [
    ("{}", "point: not a whole number from 0 to 3"),
    ('{"point": 0}', "parameters: not those of point 0"),
    ('{"point": -1}', "point: not a whole number from 0 to 3"),
    ('{"point": 4}', "point: not a whole number from 0 to 3"),
    ('{"point": true, "values": {}}', "point: not a whole number from 0 to 3"),
    ('{"point": 1e0, "values": {}}', "point: not a whole number from 0 to 3"),
    ('{"point": 0, P}', "values: missing, or not a table"),
    ('{"point": 0, P, "values": {}}', "values: not exactly latency_ms, energy_uj.total"),
    ('{"point": 1, P, "values": {}}', "parameters: not those of point 1"),
    ('{"point": 0, P, "values": {"latency_ms": 1, "energy_uj.total": 1}, "models": {"x": {}}}', "models: not exactly"),
    ('{"point": 0, P, "values": {"latency_ms": null, "energy_uj.total": 1}}', "latency_ms: not a number from"),
    ('{"point": 0, P, "values": {"latency_ms": true, "energy_uj.total": 1}}', "latency_ms: not a number from"),
    ('{"point": 0, P, "values": {"latency_ms": NaN, "energy_uj.total": 1}}', "not valid JSON"),
    ('{"point": 0, P, "values": {"latency_ms": [], "energy_uj.total": 1}}', "latency_ms: not a number from"),
    ('{"point": 0, P, "values": {"latency_ms": 1e31, "energy_uj.total": 1}}', "latency_ms: not a number from"),
    ('{"point": 0, P, "values": {"latency_ms": 18446744073709551616, "energy_uj.total": 1}}', "not a number from"),
    ('{"point": 0, P, "infeasible": ""}', "infeasible: not a reason"),
    ('{"point": 0, P, "infeasible": 5}', "infeasible: not a reason"),
    ('{"point": 0, P, "infeasible": "no", "values": {}}', "infeasible: there are values too"),
    ('{"point": 0, ' + '"a": [' * 2000 + "]" * 2000 + "}", "not valid JSON"),
    ("9" * 5000, "not valid JSON"),
    ("[1]", "not a record"),
    ("hello", "not valid JSON"),
    ("", "not valid JSON"),
]  # fmt: skip
"""Lines of format 1, P standing for the parameters of point 0, and what is wrong with them."""


@pytest.mark.parametrize(("line", "fault"), WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_a_line_that_is_none_is_named(line: str, fault: str, study: Path) -> None:
    text = line.replace(" P", ' "parameters": {"mac_array.rows": 8, "vector.lanes": 4}') + "\n"
    (study / "points.jsonl").write_text(text)
    with pytest.raises(
        StudyError, match=r"points\.jsonl: line 1 is damaged: has no checksum; delete the line"
    ):
        Study.open(study)
    old_format_of = study.with_name("old")
    shutil.copytree(study, old_format_of)
    (old_format_of / "points.jsonl").write_text("")
    old_format(old_format_of)
    (old_format_of / "points.jsonl").write_text(text)
    with pytest.raises(StudyError) as caught:
        Study.open(old_format_of)
    assert "points.jsonl: line 1 is damaged: " in str(caught.value)
    assert fault in str(caught.value)
    assert str(caught.value).endswith("; delete the line to compute it again")


def test_an_edited_value_is_not_believed(study: Path) -> None:
    lines = lines_of(study)
    value = json.loads(lines[2])["values"]["latency_ms"]
    lines[2] = lines[2].replace(str(value).encode(), b"1e-9")
    (study / "points.jsonl").write_bytes(b"".join(lines))
    with pytest.raises(
        StudyError, match="line 3 is damaged: does not match its checksum, so it was edited or"
    ):
        Study.open(study)
    # With the line deleted, as the message says, the point is computed again.
    (study / "points.jsonl").write_bytes(b"".join(lines[:2] + lines[3:]))
    file = space_file(SPACE, objectives=["latency", "energy"])
    again = explore([digits()], file.space, sampling("grid"), study, make_executor=InProcess)
    assert again.records[2].values["latency_ms"] == value


def test_a_line_of_another_study_is_not_believed(study: Path, tmp_path: Path) -> None:
    file = space_file(SPACE, objectives=["latency", "energy"])
    models = [replace(digits(), weight=2.0)]
    explore(models, file.space, sampling("grid"), tmp_path / "other", make_executor=InProcess)
    (study / "points.jsonl").write_bytes((tmp_path / "other" / "points.jsonl").read_bytes())
    with pytest.raises(StudyError, match="line 1 is damaged: does not match its checksum"):
        Study.open(study)


def test_every_changed_byte_of_a_line_is_seen(study: Path) -> None:
    lines, folder = lines_of(study), Folder(study)
    whole = lines[1]
    assert folder.lines.read(whole).point == 1
    for at in range(len(whole) - 1):
        for byte in (whole[at] ^ 1, whole[at] ^ 0x20):
            changed = whole[:at] + bytes([byte]) + whole[at + 1 :]
            with pytest.raises(ValueError, match="checksum"):
                folder.lines.read(changed)


def test_a_study_of_format_1_is_read_and_not_continued(study: Path) -> None:
    records, base = Study.open(study).records, Study.open(study).base
    old_format(study)
    assert Study.open(study).records == records
    assert Study.open(study).base == base
    file = space_file(SPACE, objectives=["latency", "energy"])
    with pytest.raises(
        StudyError, match="of format 1, whose points have no checksums: it can be looked at, not"
    ):
        explore([digits()], file.space, sampling("grid"), study, make_executor=InProcess)


def test_an_edited_description_is_not_believed(study: Path) -> None:
    file = study / "study.json"
    file.write_text(file.read_text().replace('"mac_array.rows": [', '"mac_array.rows": [4, '))
    plain = json.loads(file.read_bytes())
    plain["space"]["parameters"]["mac_array.rows"] = [4, 16]
    file.write_text(json.dumps(plain))
    with pytest.raises(
        StudyError, match=r"study\.json: damaged: it does not match its checksum, so it was edited"
    ):
        Study.open(study)


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("space",), None, "is missing"),
        (("space",), 5, "not a description"),
        (("space", "parameters"), {"mac_array.rows": ["x"]}, "is not a whole number"),
        (("space", "parameters"), {"mac_array.rows": []}, "mac_array.rows: has no values"),
        (("space", "objectives"), [], "objectives: there are none"),
        (("space", "objectives"), [{"key": "nothing", "goal": "min"}], "no such key"),
        (("space", "objectives"), [{"key": "latency_ms", "goal": "up"}], "neither min nor max"),
        (("space", "combine"), "any", "combine: not one of mean, sum, geomean, max"),
        (("space", "hardware", "clock_mhz"), -1, "clock_mhz: -1 is not a number"),
        (("models",), [], "models: there are none"),
        (("models",), [{"name": 1, "digest": "", "weight": 1}], "models: not text"),
        (("models",), [{"name": "a", "digest": "", "weight": -1}], "a weight is not above 0"),
        (("sampler",), {"seed": 0}, "sampler: no table with a kind"),
        (("sampler",), {"kind": "none"}, "sampler: kind, seed or batch is not valid"),
        (("npusim_version",), 3, "npusim_version: not text"),
        (("format",), True, "is not the description of a study that this npusim knows"),
    ],
)
def test_a_description_of_format_1_is_checked(
    path: tuple[str, ...], value: Any, fault: str, study: Path
) -> None:
    old_format(study)
    plain = json.loads((study / "study.json").read_bytes())
    table = plain
    for key in path[:-1]:
        table = table[key]
    if value is None:
        del table[path[-1]]
    else:
        table[path[-1]] = value
    (study / "study.json").write_text(json.dumps(plain))
    with pytest.raises(StudyError) as caught:
        Study.open(study)
    assert fault in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"point": -1}', '{"point": 0, "values": {}}', "NaN"])
def test_a_damaged_base_is_named(text: str, study: Path) -> None:
    (study / "base.json").write_text(text)
    with pytest.raises(StudyError, match=r"base\.json: damaged: .*; delete it to compute it again$"):
        Study.open(study)
    (study / "points.jsonl").write_bytes(b"".join(lines_of(study)[:2]))
    file = space_file(SPACE, objectives=["latency", "energy"])
    with pytest.raises(StudyError, match=r"base\.json: damaged: .*; delete it to compute it again$"):
        explore([digits()], file.space, sampling("grid"), study, make_executor=InProcess)
    assert len(lines_of(study)) == 2  # known before the work


# Whose file it is


NOT_OURS = [b"my notes, without an end of line", b'{"point" : 1', b"x" * 100_000, b"mine\nand mine"]


@pytest.mark.parametrize("content", NOT_OURS, ids=["notes", "json", "long", "lines"])
def test_what_is_no_torn_line_is_not_cut(content: bytes, study: Path) -> None:
    (study / "points.jsonl").write_bytes(content)
    file = space_file(SPACE, objectives=["latency", "energy"])
    with pytest.raises(StudyError, match="so it is left as it is"):
        explore([digits()], file.space, sampling("grid"), study, make_executor=InProcess)
    assert (study / "points.jsonl").read_bytes() == content


@pytest.mark.parametrize("name", ["points.jsonl", "study.json", "base.json"])
def test_links_of_a_study_are_not_followed(name: str, study: Path, tmp_path: Path) -> None:
    target = tmp_path / "mine"
    shutil.copy(study / name, target)
    with target.open("ab") as file:
        file.write(b'{"point": 0')
    before = target.read_bytes()
    (study / name).unlink()
    (study / name).symlink_to(target)
    space = space_file(SPACE, objectives=["latency", "energy"])
    with pytest.raises(StudyError, match="is a symbolic link, which is not followed here"):
        explore([digits()], space.space, sampling("grid"), study, make_executor=InProcess)
    with pytest.raises(StudyError, match="is a symbolic link, which is not followed here"):
        Study.open(study)
    assert target.read_bytes() == before


@pytest.mark.parametrize("name", ["points.jsonl", "study.json", "base.json"])
def test_a_pipe_in_a_study_is_not_waited_for(name: str, study: Path) -> None:
    (study / name).unlink()
    os.mkfifo(study / name)
    with pytest.raises(StudyError):
        Study.open(study)
    space = space_file(SPACE, objectives=["latency", "energy"])
    with pytest.raises(NpusimError):
        explore([digits()], space.space, sampling("grid"), study, make_executor=InProcess)


def test_a_reason_of_any_length_and_any_marks_is_a_line() -> None:
    from npusim.study.evaluate import Record

    lines = Lines(space_file(SPACE).space, ("a",), "0")
    found = lines.read(lines.write(Record(0, reason='\udc80 "sha256": "x\n' + "long" * 5000)))
    assert found.reason.startswith('\udc80 "sha256": "x\n')
    assert len(found.reason) == 10_000
