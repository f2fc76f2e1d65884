"""What the start of the command line may cost, in counts that do not depend on the load of the computer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

RUN = ("run", "ds_cnn", "--timing-only")

LOADED = """
import contextlib, io, sys
from npusim.cli.app import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
print(*sorted(sys.modules))
"""

NEEDED = {
    "numpy": "arrays",
    "simpy": "the event loop",
    "tflite": "the tables of the model's file",
}
"""The third-party packages of a timing-only run, and what each is for."""

PARTS = {"flatbuffers": "tflite"}
"""Packages that only another one imports."""


def loaded(folder: Path, *words: str) -> Counter[str]:
    """Return how many modules a command loads from each top-level package outside the standard library.

    Built-in models are cached in `folder`: other versions of npusim may share the cache of the user.
    """
    environment = os.environ | {"NPUSIM_CACHE_DIR": str(folder)}

    def run() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", LOADED, *words],
            capture_output=True, text=True, check=True, timeout=300, env=environment,
        )  # fmt: skip
        return done.stdout.splitlines()[-1].split()

    if words[0] == "run":
        run()  # a built-in model that is not cached yet is generated first
    standard = {*sys.stdlib_module_names, "__main__"}
    tops = (name.partition(".")[0] for name in run())
    return Counter(top for top in tops if top not in standard and not top.startswith("_"))


def test_a_timing_only_run_loads_what_it_uses(tmp_path: Path) -> None:
    """A new package, or a module that a run does not need, shows here."""
    modules = loaded(tmp_path, *RUN)
    assert set(modules) - {"npusim"} <= set(NEEDED) | set(PARTS)
    assert modules["npusim"] <= 219  # the goal is 120
    assert modules["tflite"] <= 20  # of 187


@pytest.mark.parametrize(("words", "most"), [(("--help",), 11), (("hw", "list"), 58)])
def test_other_commands_load_little(words: tuple[str, ...], most: int, tmp_path: Path) -> None:
    """The help of all commands and the list of presets come without any package."""
    modules = loaded(tmp_path, *words)
    assert modules["npusim"] <= most
    assert set(modules) == {"npusim"}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for byte code and models: what one command has compiled the next finds there."""
    return tmp_path_factory.mktemp("compiled")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the limit was measured with Python 3.11")
@pytest.mark.parametrize(
    ("words", "most"), [((*RUN, "--no-lever"), 1.25), (("--help",), 0.14), (("hw", "list"), 0.5)]
)
def test_instructions(words: tuple[str, ...], most: float, compiled: Path) -> None:
    """A process with its byte code present executes at most so many instructions, in 10^9."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPYCACHEPREFIX": str(compiled), "NPUSIM_CACHE_DIR": str(compiled / "models")}
    environment |= {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "npusim", *words]
    subprocess.run(command, env=environment, capture_output=True, check=True, timeout=300)
    measured = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={os.devnull}", *command],
        env=environment, capture_output=True, text=True, check=True, timeout=900,
    )  # fmt: skip
    found = re.search(r"Collected : (\d+)", measured.stderr)
    assert found is not None
    assert int(found[1]) / 1e9 <= most
