"""Keeps generated models in the user's cache directory, so that each is generated once per version of npusim.

A cached file is named MODEL-GENERATOR-CHECKSUM.tflite: GENERATOR is a checksum of the source files that made
it, so that a changed generator finds nothing of its predecessor, and CHECKSUM that of the content, so that a
damaged file is not used. Where the directory cannot be written, nothing is kept and nothing is said.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from zlib import crc32

_GENERATOR_SOURCES = ("flatbuffer.py", "writer.py", "synthesis.py", "topologies.py")


def cache_folder() -> Path | None:
    """Where models are kept: NPUSIM_CACHE_DIR, or npusim in XDG_CACHE_HOME, or ~/.cache/npusim."""
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
    """The file of model `name`, from the cache or else from `generate`."""
    folder, generator = cache_folder(), _generator_checksum()
    if folder is None or generator is None:
        return generate()
    prefix = f"{name}-{generator:08x}-"
    data = _load(folder, prefix)
    if data is None:
        data = generate()
        with suppress(OSError):
            _store(folder, name, f"{prefix}{crc32(data):08x}.tflite", data)
    return data


@cache
def _generator_checksum() -> int | None:
    """The key of what this version generates; None where npusim is installed without its source files."""
    try:
        sources = [pkgutil.get_data(__package__, source) for source in _GENERATOR_SOURCES]
    except OSError:
        return None
    return crc32(b"".join(source or b"" for source in sources))


def _load(folder: Path, prefix: str) -> bytes | None:
    with suppress(OSError):
        for path in sorted(folder.glob(f"{prefix}*.tflite")):
            data = path.read_bytes()
            if path.name == f"{prefix}{crc32(data):08x}.tflite":
                return data
    return None


def _store(folder: Path, name: str, file_name: str, data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # Renamed when complete: another process sees the whole file or none.
    partial = folder / f"{file_name}.{os.getpid()}.partial"
    try:
        partial.write_bytes(data)
        partial.replace(folder / file_name)
    finally:
        partial.unlink(missing_ok=True)
    for outdated in folder.glob(f"{name}-????????-????????.tflite"):
        if outdated.name != file_name:
            outdated.unlink(missing_ok=True)
