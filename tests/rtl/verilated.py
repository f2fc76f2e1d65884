"""The SystemVerilog units as shared libraries: built by Verilator once per configuration, driven through ctypes."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from npusim.models.cache import cache_folder

from . import words

HERE = Path(__file__).parent
SOURCES = HERE / "sv"
LIBRARIES = (cache_folder() or HERE.parents[1] / "build") / "rtl"
"""Where libraries are kept, for all checkouts: that of the whole machine takes a minute or two to build."""
PACKAGES = ("npu_types.sv", "npu_arithmetic.sv", "npu_floats.sv", "npu_reals.sv", "npu_blocks.sv")
IMPORTED = "real_lanes.cpp"
"""What the packages import, part of every library."""
OLDEST = (5, 6)
NEEDED = ("verilator", "g++")
WARNINGS = ("-Wall", "-Wno-WIDTH", "-Wno-UNUSED", "-Wno-DECLFILENAME")
RUNTIME = ("verilated", "verilated_threads")
_PRELUDE = """#include "V{top}.h"
#include "V{top}___024root.h"
using Top = V{top};
#define CELLS(name) rootp->{top}__DOT__##name
"""
"""What an interface knows of the module: its class and its memories."""
_COMPILE = ("g++", "-std=c++17", "-ffp-contract=off", "-fPIC", "-pthread")


class BuildError(Exception):
    """Verilator or the compiler refused the sources."""


def missing_tool() -> str | None:
    """What is needed and not installed; None if nothing."""
    absent = next((f"{tool} is not installed" for tool in NEEDED if shutil.which(tool) is None), None)
    if absent is None and (found := _version_number()) < OLDEST:
        return (
            f"verilator {OLDEST[0]}.{OLDEST[1]:03} or newer is not installed, but {found[0]}.{found[1]:03} is"
        )
    return absent


def _version_number() -> tuple[int, int]:
    """Of "Verilator 5.006 2023-01-22 ...": (5, 6)."""
    major, _, minor = _version().split()[1].partition(".")
    return int(major), int(minor or 0)


def _sources() -> list[Path]:
    """All SystemVerilog files, packages first."""
    packages = [SOURCES / name for name in PACKAGES]
    return [*packages, *sorted(path for path in SOURCES.glob("*.sv") if path not in packages)]


@lru_cache(maxsize=1)
def _version() -> str:
    return subprocess.run(["verilator", "--version"], capture_output=True, text=True, check=True).stdout


@lru_cache(maxsize=1)
def _fingerprint() -> str:
    """Of everything that a library is built from."""
    parts = [_version(), words.package(), words.header(), Path(__file__).read_text()]
    parts += [path.read_text() for path in (*_sources(), *sorted(HERE.glob("*.cpp")))]
    return _digest(parts)


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def library(top: str, interface: str, parameters: Mapping[str, int]) -> ctypes.CDLL:
    """The module `top` with the given parameters and the C interface of that file.

    Built on first use and kept in `LIBRARIES`. Raises BuildError with the tools' output.
    """
    name = "-".join([top, *(f"{key.lower()}{value}" for key, value in parameters.items()), _fingerprint()])
    path = LIBRARIES / f"{name}.so"
    LIBRARIES.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        if not path.exists():
            path.unlink(missing_ok=True)  # a link whose file somebody removed
            with tempfile.TemporaryDirectory(dir=LIBRARIES) as folder:
                path.symlink_to(_compiled(*_translated(top, interface, parameters, Path(folder))))
    return ctypes.CDLL(str(path))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Test processes that want the same file build it once."""
    with path.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _translated(
    top: str, interface: str, parameters: Mapping[str, int], folder: Path
) -> tuple[Path, Path, Path]:
    """The module as C++ in `folder`: a file of what runs once, a file of what runs often, the library-to-be.

    One C++ file each: most of the time of the small ones goes into Verilator's headers. The library is named by their
    text, because a change of the sources, of another unit or of an instruction word, leaves most modules as they were,
    and compiling takes fifteen times as long as translating.
    """
    package = folder / "isa_words.sv"
    package.write_text(words.package())
    Path(folder, "isa_words.h").write_text(words.header())
    sources = [str(path) for path in (package, *_sources())]
    chosen = [f"-G{key}={value}" for key, value in parameters.items()]
    # Newer versions know more warnings.
    strict = () if _version_number() == OLDEST else ("-Wno-fatal",)
    verilator = ["verilator", "--cc", "-O3", "--output-split", "0", *WARNINGS, *strict]
    _run([*verilator, "--top-module", top, *chosen, "--Mdir", str(folder), *sources])
    once = sorted(folder.glob("*__Slow.cpp"))
    often = [HERE / interface, HERE / IMPORTED, *sorted({*folder.glob("*.cpp")} - {*once})]
    units = folder / "once.unit.cpp", folder / "often.unit.cpp"
    for unit, parts in zip(units, (once, often), strict=True):
        unit.write_text(_PRELUDE.format(top=top) + "".join(f'#include "{part}"\n' for part in parts))
    read = [*once, *often, *sorted(folder.glob("*.h"))]
    texts = [_version(), Path(__file__).read_text(), *(path.read_text() for path in read)]
    return *units, LIBRARIES / f"{top}-{_digest(texts)}.so"


def _compiled(once: Path, often: Path, library: Path) -> Path:
    """The library of two C++ files, which is there if equal ones were compiled before."""
    with _locked(library):
        if not library.exists():
            objects = []
            # What runs once, to start the model, is a third: optimising it would cost more than it saves.
            for unit, level in ((once, "-O0"), (often, "-O1")):
                objects.append(str(unit.with_suffix(".o")))
                _run([*_COMPILE, level, f"-I{unit.parent}", *_includes(), "-c", str(unit), "-o", objects[-1]])
            built = once.with_suffix(".so")
            _run([*_COMPILE, "-shared", *objects, str(_runtime()), "-o", str(built)])
            os.replace(built, library)
    return library


def _includes() -> list[str]:
    root = _run(["verilator", "--getenv", "VERILATOR_ROOT"]).strip()
    return [f"-I{root}/include", f"-I{root}/include/vltstd"]


def _runtime() -> Path:
    """Verilator's own C++, compiled once."""
    path = LIBRARIES / f"verilated-{_digest([_version(), Path(__file__).read_text()])}.o"
    with _locked(path):
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=LIBRARIES) as folder:
                unit, built = Path(folder, "runtime.cpp"), Path(folder, "runtime.o")
                unit.write_text("".join(f'#include "{name}.cpp"\n' for name in RUNTIME))
                _run([*_COMPILE, "-O1", *_includes(), "-c", str(unit), "-o", str(built)])
                os.replace(built, path)
    return path


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{command[0]} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout
