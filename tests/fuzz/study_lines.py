"""Folders of studies: lines, descriptions and bases edited, with checksums or in the old format without, by
`npusim study` and `explore`."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from npusim.study.lines import checksum

from .child import Report
from .command import attempt
from .harness import Kind
from .texts import changed_bytes, changed_tree

SPACE = """extends = "edge-128"
objectives = ["latency", "energy"]
limits = { area = "<= 1.2" }
[parameters]
mac_array.rows = [8, 16]
vector.lanes = [4, 8]
"""
FILES = ("points.jsonl", "points.jsonl", "points.jsonl", "study.json", "base.json")


@cache
def finished() -> dict[str, bytes]:
    """The files of a finished study of four points."""
    from .command import npusim

    with tempfile.TemporaryDirectory(prefix="npusim-study-") as name:
        folder = Path(name)
        (folder / "space.toml").write_text(SPACE)
        words = (
            "explore",
            "digits_cnn",
            str(folder / "space.toml"),
            "--study",
            str(folder / "study"),
            "-j",
            "1",
        )
        assert npusim(*words)[0] == 0
        return {each: (folder / "study" / each).read_bytes() for each in set(FILES)}


def mutants(rng: random.Random) -> Iterator[dict[str, bytes]]:
    """The files of studies without end, one or two of them changed."""
    while True:
        old = rng.randrange(2) == 0
        files = _old(finished()) if old else dict(finished())
        for _ in range(rng.choice((1, 1, 2))):
            name = rng.choice(FILES)
            files[name] = _changed(name, files[name], rng)
        if not old and rng.randrange(2):
            files = _signed(files)
        yield files


def _old(files: dict[str, bytes]) -> dict[str, bytes]:
    """As npusim 0.1.0 wrote them: without checksums."""
    lines = [json.loads(line) for line in files["points.jsonl"].splitlines()]
    plain = json.loads(files["study.json"]) | {"format": 1}
    base = json.loads(files["base.json"])
    for each in (plain, base, *lines):
        each.pop("sha256", None)
    base = {
        "point": -1,
        "values": base.get("values", {}),
        "by_model": {},
        "reason": base.get("infeasible", ""),
    }
    return {
        "study.json": json.dumps(plain, indent=1).encode(),
        "points.jsonl": "".join(json.dumps(line) + "\n" for line in lines).encode(),
        "base.json": json.dumps(base, indent=1).encode(),
    }


def _changed(name: str, data: bytes, rng: random.Random) -> bytes:
    """A value, a line or bytes of a file changed."""
    if rng.randrange(4) == 0:
        return changed_bytes(data, rng)
    try:
        if name != "points.jsonl":
            tree = json.loads(data)
            changed_tree(tree, rng)
            return json.dumps(tree).encode()
        lines = data.splitlines(keepends=True)
        at = rng.randrange(len(lines))
        kind = rng.randrange(6)
        if kind == 0:
            lines[at] *= rng.choice((0, 2))
        elif kind == 1:
            lines[at] = lines[at][: rng.randrange(len(lines[at]))] + rng.choice((b"", b"\n"))
        else:
            tree = json.loads(lines[at])
            changed_tree(tree, rng)
            lines[at] = (
                json.dumps(tree, ensure_ascii=bool(rng.randrange(2))).encode("utf-8", "backslashreplace")
                + b"\n"
            )
        return b"".join(lines)
    except (ValueError, IndexError):
        return data[: rng.randrange(len(data) + 1)]


def _signed(files: dict[str, bytes]) -> dict[str, bytes]:
    """With checksums that fit what was changed: what is behind them must hold as well."""
    signed = dict(files)
    try:
        plain = json.loads(files["study.json"])
        plain.pop("sha256", None)
        study = checksum(json.dumps(plain, sort_keys=True).encode())
        signed["study.json"] = json.dumps(plain | {"sha256": study}).encode()
    except (ValueError, AttributeError, TypeError):
        return files
    for name in ("points.jsonl", "base.json"):
        lines = []
        for line in files[name].splitlines():
            body = line.rpartition(b', "sha256": "')[0] or line.rstrip(b"}")
            lines.append(body + b', "sha256": "' + checksum(study.encode(), body).encode() + b'"}\n')
        signed[name] = b"".join(lines)
    return signed


def run(seed: int, folder: Path, report: Report) -> None:
    """Draw a changed study again, or go on with it."""
    rng = random.Random(f"study {seed}")
    study = folder / "study"
    study.mkdir()
    for name, data in next(mutants(rng)).items():
        (study / name).write_bytes(data)
    before = study / "points.jsonl"
    kept = before.read_bytes()
    if rng.randrange(3):
        attempt(report, ["study", str(study)])
    else:
        (folder / "space.toml").write_text(SPACE)
        words = ["explore", "digits_cnn", str(folder / "space.toml"), "--study", str(study), "-j", "1"]
        if attempt(report, words) == 2 and before.read_bytes() not in kept:
            report.note("broken invariant", "a refused study was changed by more than a torn line")
    shutil.rmtree(study / "front", ignore_errors=True)


KIND = Kind("edited folders of studies by `npusim study` and `explore`", run, prepare=finished)
