"""The folder of a study on disk, which grows line by line and survives being killed at any moment.

    study.json     description of the search: space, models by digest, sampler, version; written once
    points.jsonl   a line per computed point (`npusim.study.lines`), appended with a single write

If a kill left an incomplete last line, it is cut off when the study is opened again. Nothing else is rewritten until
the study is complete, when the lines are sorted by point. Links in the folder are not followed.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from npusim.base import files
from npusim.isa.base import user_file
from npusim.isa.base.errors import NpusimError
from npusim.study.evaluate import Evaluator, Job, Record
from npusim.study.lines import BASE_POINT, BEGIN, LONGEST_LINE_BYTES, Lines, checksum, require_sound
from npusim.study.space import Space

OLD_FORMAT, FORMAT = 1, 2
"""The formats of studies. Lines of format 1 have no checksums, so its studies can be read but not continued."""

DESCRIPTION = "study.json"
POINTS = "points.jsonl"
CHECKSUM = "sha256"
NAME = "name"
"""The key that may differ when a search is continued in a folder: the name of the space file."""


class StudyError(NpusimError):
    """A study that cannot be opened or continued."""


class Folder:
    """The folder of a study, for one process that writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._points: int | None = None

    @property
    def exists(self) -> bool:
        """Return whether the folder holds a study."""
        return (self.path / DESCRIPTION).is_file()

    def describe(self, description: Mapping[str, Any]) -> None:
        """Begin a study, or check that the folder holds the same one. Raises StudyError if it does not."""
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
        text = json.dumps(plain | {CHECKSUM: _checksum(plain)}, indent=1, ensure_ascii=False) + "\n"
        files.write(self.path / DESCRIPTION, files.text(text), follow=False)

    def description(self) -> dict[str, Any]:
        """Read the description. Raises StudyError for a folder that is no study, and for a damaged description."""
        where = self.path / DESCRIPTION
        if not where.exists() and not where.is_symlink():
            raise StudyError(f"{self.path}: is not a study: it has no {DESCRIPTION}")
        text = user_file.text(where, user_file.STUDY, StudyError, follow=False)
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError) as fault:
            raise StudyError(f"{where}: damaged: {fault}") from None
        known = (OLD_FORMAT, FORMAT)
        if (
            not isinstance(plain, dict)
            or type(plain.get("format")) is not int
            or plain["format"] not in known
        ):
            raise StudyError(f"{where}: is not the description of a study that this npusim knows")
        given = plain.pop(CHECKSUM, None)
        if plain["format"] != OLD_FORMAT and given != _checksum(plain):
            raise StudyError(f"{where}: damaged: it does not match its checksum, so it was edited")
        try:
            require_sound(plain)
        except (ValueError, NpusimError) as fault:
            raise StudyError(f"{where}: damaged: {fault}") from None
        return plain

    @cached_property
    def format(self) -> int:
        """Return the format of the study in the folder."""
        return int(self.description()["format"])

    @cached_property
    def lines(self) -> Lines:
        """Return the line format of the study in the folder."""
        plain = self.description()
        models = tuple(model["name"] for model in plain["models"])
        study = "" if plain["format"] == OLD_FORMAT else _checksum(plain)
        return Lines(Space.from_plain(plain["space"]), models, study)

    def _require_same(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Raise StudyError for a description of another space, model or version, whose points must not be mixed."""
        if old["format"] != FORMAT:
            raise StudyError(
                f"{self.path}: is a study of format {old['format']}, whose points have no checksums: it can be "
                "looked at, not continued; give another name with --study"
            )
        differing = [path for path in _differences(old, new) if path != NAME]
        if not differing:
            return
        shown = ", ".join(differing[:3]) + (", ..." if len(differing) > 3 else "")
        raise StudyError(
            f"{self.path}: is a study of something else: {shown} changed; give another name with --study"
        )

    def records(self) -> Iterator[Record]:
        """Return the records on disk, each point once, without an incomplete last line. Raises StudyError."""
        file = self.path / POINTS
        if not self.exists or not (file.exists() or file.is_symlink()):
            return
        seen = set()
        with user_file.opened(file, user_file.POINTS, StudyError, follow=False) as lines:
            count = 0
            while line := lines.readline(LONGEST_LINE_BYTES + 1):
                count += 1
                if not line.endswith(b"\n") and len(line) <= LONGEST_LINE_BYTES:
                    return
                try:
                    record = self.lines.read(line)
                except ValueError as fault:
                    raise StudyError(
                        f"{file}: line {count} is damaged: {fault}; delete the line to compute it again"
                    ) from None
                if record.point not in seen:
                    seen.add(record.point)
                    yield record

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the study for this process, and cut off an incomplete last line.

        Raises StudyError if another process holds it, or if the file does not consist of lines.
        """
        handle = self._opened()
        try:
            self._lock(handle)
            self._cut_torn_line(handle)
            self._points = handle
            yield
        finally:
            self._points = None
            os.close(handle)

    def _opened(self) -> int:
        file = self.path / POINTS
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)
        if file.is_symlink():
            raise StudyError(f"{file}: is a symbolic link, which is not followed here")
        try:
            handle = os.open(file, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)
        except OSError as fault:
            raise StudyError(f"{file}: cannot be written: {fault.strerror}") from None
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise StudyError(f"{file}: is not a regular file")
        return handle

    def _lock(self, handle: int) -> None:
        try:
            import fcntl
        except ImportError:  # not on Windows
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StudyError(f"{self.path}: another npusim is working on this study") from None

    def _cut_torn_line(self, handle: int) -> None:
        """Cut off an incomplete last line if it begins like a line of a study; other content is not touched."""
        size = os.fstat(handle).st_size
        begin = max(0, size - LONGEST_LINE_BYTES - 1)
        os.lseek(handle, begin, os.SEEK_SET)
        tail = os.read(handle, size - begin)
        torn = tail[tail.rfind(b"\n") + 1 :]
        if not torn:
            return
        if len(torn) > LONGEST_LINE_BYTES or torn[: len(BEGIN)] != BEGIN[: len(torn)]:
            raise StudyError(
                f"{self.path / POINTS}: does not end as the points of a study end, so it is left as it is"
            )
        os.ftruncate(handle, size - len(torn))

    def append(self, record: Record) -> None:
        """Append a record with a single write, so that a kill leaves at worst an incomplete last line."""
        assert self._points is not None, "append outside of writing()"
        line = self.lines.write(record)
        try:
            self.lines.read(line)  # a record may come from a cluster
        except ValueError as fault:
            raise StudyError(
                f"{self.path}: point {record.point}: what was computed is no record: {fault}"
            ) from None
        written = os.write(self._points, line)
        while written < len(line):
            written += os.write(self._points, line[written:])

    def sort(self, records: Sequence[Record]) -> None:
        """Sort the lines by point."""
        ordered = sorted(records, key=lambda record: record.point)
        content = b"".join(map(self.lines.write, ordered))
        files.write(self.path / POINTS, lambda file: file.write(content), follow=False)


def _checksum(description: Mapping[str, Any]) -> str:
    return checksum(json.dumps(description, sort_keys=True).encode())


def _differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Return the paths at which two plain values differ; tables are compared key by key."""
    if isinstance(old, dict) and isinstance(new, dict) and path != "space.parameters":
        keys = list(dict.fromkeys([*old, *new]))
        return [
            difference
            for key in keys
            for difference in _differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
        ]
    same = old == new and (not isinstance(old, dict) or list(old) == list(new))
    return [] if same else [path.removeprefix("space.")]


BASE = "base.json"


def keep_base(folder: Folder, job: Job) -> None:
    """Compute the record of the base hardware, unless the study in `folder` has it."""
    if (folder.path / BASE).is_file():
        return
    line = folder.lines.write(Evaluator(job).base())
    files.write(folder.path / BASE, lambda file: file.write(line), follow=False)


def read_base(folder: Folder) -> Record | None:
    """Return the record of the base hardware; None if the study does not have it yet. Raises StudyError."""
    file = folder.path / BASE
    if not file.exists() and not file.is_symlink():
        return None
    content = user_file.contents(file, user_file.STUDY, StudyError, follow=False)
    try:
        if folder.format == OLD_FORMAT:
            content = _in_the_form_of_a_line(content)
        return folder.lines.read(content, base=True)
    except ValueError as fault:
        raise StudyError(f"{file}: damaged: {fault}; delete it to compute it again") from None


def _in_the_form_of_a_line(content: bytes) -> bytes:
    """Convert a record of format 1, which called two keys `by_model` and `reason`, to today's format."""
    plain = json.loads(content)
    if not isinstance(plain, dict) or plain.get("point") != BASE_POINT:
        raise ValueError("not a record")
    if plain.get("reason"):
        return json.dumps({"point": BASE_POINT, "infeasible": plain["reason"]}).encode()
    kept = {"point": BASE_POINT, "values": plain.get("values"), "models": plain.get("by_model")}
    return json.dumps(kept).encode()
