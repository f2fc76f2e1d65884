"""The folder of kept compiled models: one file `<token>.nnc` each, the old or the new one whatever happens."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

from npusim.base import files
from npusim.frontends.nnadapter.nnadapter_errors import InvalidParameter, said
from npusim.isa.base import user_file

SUFFIX = ".nnc"

LONGEST_TOKEN_BYTES = 200
"""File systems allow 255; the suffix and what a file is called while it is written take up to 30."""

_SEPARATORS = frozenset('/\\:*?"<>|')
"""Characters that part a path, or that no file name may have, on the systems that Python runs on."""

_WRITING = threading.Lock()
"""Threads of a process write one after the other: a file that is written is called after the process."""

_REMNANTS = re.compile(rf"\..*{re.escape(SUFFIX)}\.\d+\.partial", re.DOTALL)
"""What `npusim.base.files` calls a file of this folder while it is written."""


def checked_token(token: object) -> str:
    """A caller's token, which names a file. Raises InvalidParameter for one that cannot."""
    if not isinstance(token, str):
        raise InvalidParameter(f"token: is {said(token)}, must be text that can name a file")
    if not token:
        raise InvalidParameter(
            "token: is empty, must be text that can name a file, such as 32 hexadecimal digits"
        )
    fault = _fault(token)
    if fault:
        raise InvalidParameter(f"token: {token[:40]!r} {fault}; it names a file")
    return token


def _fault(token: str) -> str:
    if wrong := next((sign for sign in token if sign in _SEPARATORS or not sign.isprintable()), ""):
        return f"has a {wrong!r}, which may not be in it"
    if token[0] in ". " or token[-1] in ". ":
        return "begins or ends with a point or space, which it may not"
    size_bytes = len(token.encode("utf-8", "surrogatepass"))
    if size_bytes > LONGEST_TOKEN_BYTES:
        return f"has {size_bytes} bytes, may have {LONGEST_TOKEN_BYTES}"
    return ""


def checked_folder(folder: object) -> Path:
    """A caller's folder. Raises InvalidParameter for what cannot be one, whatever there is on the disk."""
    if not isinstance(folder, str | os.PathLike):
        raise InvalidParameter(f"cache_dir: is {said(folder)}, must be the path of a folder")
    text = os.fspath(folder)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidParameter(f"cache_dir: is {text!r}, must be the path of a folder")
    return Path(text)


def path_of(folder: Path, token: str) -> Path:
    """The file of a token."""
    return folder / f"{token}{SUFFIX}"


def read(folder: Path, token: str) -> bytes | None:
    """The bytes of the file of a token; None if there is none. Raises NpusimError for one that cannot be read."""
    path = path_of(folder, token)
    if not os.path.lexists(path):
        return None
    return user_file.contents(path, user_file.COMPILED)


def write(folder: Path, token: str, data: bytes) -> Path:
    """Keep bytes under a token; returns the file. Raises NpusimError for a folder or file that cannot be written.

    A process that is killed meanwhile, or a computer that loses its power, leaves the file as it was, or whole. What
    killed processes left in the folder is cleared away.
    """
    path = path_of(folder, token)
    with _WRITING:
        files.make_folder(path.parent)
        files.clear_remnants(path.parent, _REMNANTS)
        files.write(path, lambda file: file.write(data), follow=False, durable=True)
    return path
