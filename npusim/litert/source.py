"""Find the model file that an interpreter was created with.

LiteRT's C interface does not pass it to a delegate. But the interpreter asks the delegate for its pointer within its
constructor, whose arguments are the path or bytes of the file. They are read from the call stack.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from mmap import mmap
from pathlib import Path
from typing import NamedTuple

from npusim.frontends.tflite.records import ModelRecord, decode
from npusim.isa.base import user_file
from npusim.isa.base.errors import FormatError, NpusimError

_ARGUMENTS = ("model_path", "model_content")
_APART = ("experimental_preserve_all_tensors", "experimental_disable_delegate_node_fusion")
_CALLS_UP = 16

PACKAGE, TRIED = "ai-edge-litert", "2.3.0"
_MAJOR = "2"


class Source(NamedTuple):
    """A model: its name in messages, and its subgraphs, the main one first."""

    name: str
    subgraphs: tuple[ModelRecord, ...]


def require_version() -> None:
    """Raise NpusimError for a version of LiteRT whose structures are not known."""
    installed = installed_version()
    if installed and installed.split(".")[0] != _MAJOR:
        raise NpusimError(
            f"npusim.litert: {PACKAGE} {installed} is installed, the delegate knows the structures of {_MAJOR}.x: "
            f"pip install {PACKAGE}=={TRIED}"
        )


def installed_version() -> str:
    """Return the version of LiteRT; empty if another package provides it."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return ""


class Given(NamedTuple):
    """The model that an interpreter was created with: a path or bytes, None if neither is visible.

    apart:       whether it puts each operator in a partition of its own.
    interpreter: the interpreter itself; None if it is not visible.
    """

    model: str | bytes | None
    apart: bool = False
    interpreter: object = None


def given_to_interpreter() -> Given:
    """Return the arguments of the interpreter's constructor, which is above this call on the stack."""
    frame = sys._getframe(1)
    for _ in range(_CALLS_UP):
        names = frame.f_locals
        if all(name in names for name in _ARGUMENTS):
            path, content = (names[name] for name in _ARGUMENTS)
            model = os.fsdecode(path) if path else bytes(content) if content else None
            return Given(model, any(names.get(name) for name in _APART), names.get("self"))
        if frame.f_back is None:
            break
        frame = frame.f_back
    return Given(None)


def read(model: str | Path | bytes) -> Source:
    """Return the records of a model. Raises FormatError."""
    if isinstance(model, bytes):
        return _source("model", model, "model_content")
    data = user_file.mapped(model, user_file.MODEL, FormatError)
    return _source(Path(model).stem, data, str(model))


def _source(name: str, data: bytes | mmap, shown: str) -> Source:
    try:
        record = decode(data)
        return Source(name, tuple(record.other(number) for number in range(record.subgraphs)))
    except FormatError as fault:
        raise FormatError(f"{shown}: {fault}") from None
