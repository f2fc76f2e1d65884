"""The cache folder of compiled models, one file `<token>.nnc` each, written so that it is always complete."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

from npusim.base import files
from npusim.frontends.nnadapter.nnadapter_codes import InvalidParameter, text_of
from npusim.isa.base import user_file

SUFFIX = ".nnc"

LONGEST_TOKEN_BYTES = 200
"""File systems allow 255 bytes; the suffix and the temporary name during writing take up to 30."""

_SEPARATORS = frozenset('/\\:*?"<>|')
"""Characters that separate paths or are illegal in file names on some system."""

_WRITING = threading.Lock()
"""Serializes the threads of a process, because temporary files are named after the process."""

_REMNANTS = re.compile(rf"\..*{re.escape(SUFFIX)}\.\d+\.partial", re.DOTALL)
"""Temporary names that `npusim.base.files` gives to files of this folder."""


def checked_token(token: object) -> str:
    """Return a caller's token. Raises InvalidParameter if it cannot name a file."""
    if not isinstance(token, str):
        raise InvalidParameter(f"token: is {text_of(token)}, must be text that can name a file")
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
    """Return a caller's folder as a path. Raises InvalidParameter for anything that cannot be one."""
    if not isinstance(folder, str | os.PathLike):
        raise InvalidParameter(f"cache_dir: is {text_of(folder)}, must be the path of a folder")
    text = os.fspath(folder)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidParameter(f"cache_dir: is {text!r}, must be the path of a folder")
    return Path(text)


def path_of(folder: Path, token: str) -> Path:
    """Return the file of a token."""
    return folder / f"{token}{SUFFIX}"


def read(folder: Path, token: str) -> bytes | None:
    """Return the bytes of the file of a token, None without a file. Raises NpusimError if it cannot be read."""
    path = path_of(folder, token)
    if not os.path.lexists(path):
        return None
    return user_file.contents(path, user_file.COMPILED)


def write(folder: Path, token: str, data: bytes) -> Path:
    """Write bytes to the file of a token and return it. Raises NpusimError if folder or file cannot be written.

    If the process is killed or the computer loses power, the file is the old or the new one. Temporary files of killed
    processes are removed.
    """
    path = path_of(folder, token)
    with _WRITING:
        files.make_folder(path.parent)
        files.clear_remnants(path.parent, _REMNANTS)
        files.write(path, lambda file: file.write(data), follow=False, durable=True)
    return path
