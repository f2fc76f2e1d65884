"""Model files: one reader per format, each returning a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from npusim.frontends.tflite import reader as tflite
from npusim.isa.base import user_file
from npusim.isa.base.errors import FormatError, NpusimError
from npusim.kernels.graph.check import check_bound
from npusim.kernels.graph.graph import Graph

_HEAD_BYTES = 64


@dataclass(frozen=True, slots=True)
class Format:
    """A model file format.

    recognises: (path, first bytes of the file, empty for a folder) -> True if it is surely of this format.
    read:       path -> graph, which is checked as a whole afterwards; raises FormatError or GraphError with a text that
                does not repeat the path.
    """

    name: str
    suffixes: tuple[str, ...]
    recognises: Callable[[Path, bytes], bool]
    read: Callable[[Path], Graph]


FORMATS: tuple[Format, ...] = (
    Format("TensorFlow Lite", (".tflite", ".lite"), tflite.recognises, tflite.read),
)


def read(path: str | Path) -> Graph:
    """The graph of a model file, whose format its content tells or, failing that, its suffix.

    Raises FormatError for a file that is missing, damaged or of no known format, GraphError for a model
    whose parts do not fit together; the text of either begins with the path.
    """
    path = Path(path)
    try:
        return check_bound(_format_of(path).read(path))
    except OSError as fault:
        raise FormatError(f"{path}: cannot be read: {fault.strerror or fault}") from fault
    except NpusimError as fault:
        raise type(fault)(f"{path}: {fault}") from fault


def _format_of(path: Path) -> Format:
    if not path.exists():
        raise FormatError("no such file")
    head = b""
    if not path.is_dir():
        with user_file.opened(path, user_file.MODEL, FormatError, "") as file:
            head = file.read(_HEAD_BYTES)
    for row in FORMATS:
        if row.recognises(path, head):
            return row
    if path.is_dir():
        raise FormatError("is a folder, not a model file")
    if not head:
        raise FormatError("is empty")
    for row in FORMATS:
        if path.suffix.lower() in row.suffixes:
            return row
    known = ", ".join(f"{row.name} ({', '.join(row.suffixes)})" for row in FORMATS)
    raise FormatError(f"neither content nor suffix {path.suffix!r} is of a known model format: {known}")
