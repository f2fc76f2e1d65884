"""Keeps generated models in the user's cache directory, so that each is generated once per version of npusim.

A cached file is named MODEL-CHECKSUM.tflite. CHECKSUM is the SHA-256 of the name of the model, of the source files that
generate it, and of the content. So a changed generator does not use older files, and a damaged file or one of another
model is not used. If the directory cannot be written, models are not cached, without a message.
"""

from __future__ import annotations

import os
import pkgutil
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from npusim.base import files
from npusim.isa.base import user_file
from npusim.isa.base.errors import NpusimError

_GENERATOR_SOURCES = {
    "npusim.frontends.tflite": ("flatbuffer.py",),
    "npusim.models": ("options.py", "writer.py", "synthesis.py", "topologies.py"),
}
"""Source files that determine a model, by package."""
_OF_ANY_VERSION = r"-[0-9a-f]{64}\.tflite|-[0-9a-f]{8}-[0-9a-f]{8}\.tflite"
"""The part of a file name behind the model: of this version, and of 0.1.0."""


def cache_folder() -> Path | None:
    """Return the cache directory: NPUSIM_CACHE_DIR, or npusim in XDG_CACHE_HOME, or ~/.cache/npusim."""
    if chosen := os.environ.get("NPUSIM_CACHE_DIR"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # the XDG specification wants relative paths ignored
        return Path(base, "npusim")
    try:
        return Path.home() / ".cache" / "npusim"
    except RuntimeError:  # no home directory
        return None


def cached(name: str, generate: Callable[[], bytes]) -> bytes:
    """Return the file of model `name`, from the cache or else from `generate`."""
    folder, generator = cache_folder(), _generator()
    if folder is None or generator is None:
        return generate()
    for path in _files(folder, name):
        with suppress(NpusimError):
            data = user_file.contents(path, user_file.MODEL, follow=False)
            if path.name == _file_name(name, generator, data):
                return data
    data = generate()
    with suppress(NpusimError, OSError):
        _store(folder, name, _file_name(name, generator, data), data)
    return data


def _file_name(name: str, generator: bytes, data: bytes) -> str:
    """Return the file name of a model with this content."""
    inputs = (name.encode(), generator, data)
    return f"{name}-{sha256(b''.join(sha256(content).digest() for content in inputs)).hexdigest()}.tflite"


@cache
def _generator() -> bytes | None:
    """Return the generator's source; None if npusim is installed without source files."""
    try:
        sources = [
            pkgutil.get_data(package, source)
            for package, files_of in _GENERATOR_SOURCES.items()
            for source in files_of
        ]
    except OSError:
        return None
    return b"\0".join(source or b"" for source in sources)


def _files(folder: Path, name: str) -> list[Path]:
    """Return the cached files of a model, of any version."""
    pattern = re.compile(re.escape(name) + f"(?:{_OF_ANY_VERSION})")
    try:
        return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name))
    except OSError:
        return []


def _store(folder: Path, name: str, file_name: str, data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    files.write(folder / file_name, lambda file: file.write(data), follow=False)
    for outdated in _files(folder, name):
        if outdated.name != file_name:
            outdated.unlink(missing_ok=True)
    files.clear_remnants(folder, re.compile(rf"\.?{re.escape(name)}(?:{_OF_ANY_VERSION})\.\d+\.partial"))
