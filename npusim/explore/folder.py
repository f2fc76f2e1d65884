"""A study on disk: a folder that grows line by line and survives being killed at any moment.

    study.json     what is searched: space, models by digest, sampler, version; written once
    points.jsonl   a line per computed point, appended with a single write

A line that was torn by a kill is cut off when the study is opened again; nothing else is ever rewritten until
the study is complete, when the lines are sorted by point.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from npusim import files
from npusim.explore.evaluate import Record
from npusim.explore.space import Space
from npusim.isa.errors import NpusimError

FORMAT = 1
DESCRIPTION = "study.json"
POINTS = "points.jsonl"
NAME = "name"
"""What may differ between searches that go on in one folder: the name of the space file."""


class StudyError(NpusimError):
    """A study that cannot be opened or continued."""


def to_line(record: Record, space: Space) -> bytes:
    """A record as the line of the file, newline included."""
    plain: dict[str, Any] = {"point": record.point, "parameters": space.point(record.point)}
    if record.reason:
        plain["infeasible"] = record.reason
    else:
        plain["values"] = dict(record.values)
    if record.by_model:
        plain["models"] = {name: dict(values) for name, values in record.by_model.items()}
    return json.dumps(plain, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def from_line(line: bytes) -> Record:
    """The record of a line. Raises ValueError for one that is not whole."""
    plain = json.loads(line)
    if not isinstance(plain, dict) or not isinstance(plain.get("point"), int):
        raise ValueError("not a record")
    return Record(
        plain["point"], plain.get("values", {}), plain.get("models", {}), plain.get("infeasible", "")
    )


class Folder:
    """The folder of a study, for one process that writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._points: int | None = None

    @property
    def exists(self) -> bool:
        """Whether a study has begun here."""
        return (self.path / DESCRIPTION).is_file()

    def describe(self, description: Mapping[str, Any]) -> None:
        """Begin a study, or check that the one that is there is the same. Raises StudyError if not."""
        plain = {"format": FORMAT, **json.loads(json.dumps(description))}
        if self.exists:
            self._require_same(self.description(), plain)
            return
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise StudyError(f"{self.path}: is there, and is not a study; give another name with --study")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise StudyError(f"{self.path}: cannot be created: {fault.strerror}") from None
        text = json.dumps(plain, indent=1, ensure_ascii=False) + "\n"
        files.write(self.path / DESCRIPTION, files.text(text))

    def description(self) -> dict[str, Any]:
        """What is searched. Raises StudyError for a folder that is not a study of this version."""
        where = self.path / DESCRIPTION
        try:
            plain = json.loads(where.read_bytes())
        except OSError as fault:
            raise StudyError(f"{self.path}: is not a study: {DESCRIPTION}: {fault.strerror}") from None
        except ValueError as fault:
            raise StudyError(f"{where}: damaged: {fault}") from None
        if not isinstance(plain, dict) or plain.get("format") != FORMAT:
            raise StudyError(f"{where}: is not the description of a study that this npusim knows")
        return plain

    def _require_same(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Points of another space, model or version must not be mixed with these."""
        differing = [path for path in _differences(old, new) if path != NAME]
        if not differing:
            return
        shown = ", ".join(differing[:3]) + (", ..." if len(differing) > 3 else "")
        raise StudyError(
            f"{self.path}: is a study of something else: {shown} changed; give another name with --study"
        )

    def records(self) -> Iterator[Record]:
        """The records on disk, each point once; a torn last line is left out. Raises StudyError."""
        file = self.path / POINTS
        if not file.exists():
            return
        seen = set()
        with file.open("rb") as lines:
            for count, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    return
                try:
                    record = from_line(line)
                except ValueError:
                    raise StudyError(
                        f"{file}: line {count} is damaged; delete the line to compute it again"
                    ) from None
                if record.point not in seen:
                    seen.add(record.point)
                    yield record

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the study for this process, with a torn last line cut off. Raises StudyError if another has it."""
        file = self.path / POINTS
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            self._lock(handle)
            self._cut_torn_line(handle)
            self._points = handle
            yield
        finally:
            self._points = None
            os.close(handle)

    def _lock(self, handle: int) -> None:
        try:
            import fcntl
        except ImportError:  # not on Windows
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StudyError(f"{self.path}: another npusim is working on this study") from None

    @staticmethod
    def _cut_torn_line(handle: int) -> None:
        size = os.fstat(handle).st_size
        end = size
        while end:
            begin = max(0, end - 65_536)
            os.lseek(handle, begin, os.SEEK_SET)
            found = os.read(handle, end - begin).rfind(b"\n")
            if found >= 0:
                end = begin + found + 1
                break
            end = begin
        if end < size:
            os.ftruncate(handle, end)

    def append(self, line: bytes) -> None:
        """Add a line: one write, so that a kill leaves it out or, at worst, torn."""
        assert self._points is not None, "append outside of writing()"
        written = os.write(self._points, line)
        while written < len(line):
            written += os.write(self._points, line[written:])

    def sort(self, records: Sequence[Record], space: Space) -> None:
        """Replace the lines by the same ones in the order of the points."""
        ordered = sorted(records, key=lambda record: record.point)
        content = b"".join(to_line(record, space) for record in ordered)
        files.write(self.path / POINTS, lambda file: file.write(content))


def _differences(old: Any, new: Any, path: str = "") -> list[str]:
    """The paths at which two plain values differ, those of tables one by one."""
    if isinstance(old, dict) and isinstance(new, dict) and path != "space.parameters":
        keys = list(dict.fromkeys([*old, *new]))
        return [
            each
            for key in keys
            for each in _differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
        ]
    same = old == new and (not isinstance(old, dict) or list(old) == list(new))
    return [] if same else [path.removeprefix("space.")]
