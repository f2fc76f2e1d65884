"""What npusim is measured beside: LiteRT, Vela, and the models. Each may be missing."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import BenchmarkError, Sample, run_fresh
from npusim.verification.litert import PACKAGE

LITERT_VERSION = PACKAGE.partition("==")[2]
VELA_VERSION = "5.2.0"
VELA_VARIABLE = "NPUSIM_VELA"
MODELS_VARIABLE = "NPUSIM_MODELS"


class Missing(Exception):
    """A peer or a model is not on this machine; the text says what is missing and how to get it."""


def model(name: str) -> Path:
    """The file of a reference model, from the folder NPUSIM_MODELS or ../shared/models."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "models"
    folder = Path(os.environ.get(MODELS_VARIABLE) or beside)
    file = folder / f"{name}.tflite"
    if not file.is_file():
        raise Missing(f"no {file.name} in {folder}; {MODELS_VARIABLE} may name a folder that has it")
    return file


def shared(*parts: str, must: bool = True) -> Path:
    """A file of the folder ../shared beside the checkout. Raises Missing if there is none and there `must` be."""
    file = Path(__file__).resolve().parents[2].joinpath("shared", *parts)
    if must and not file.is_file():
        raise Missing(f"no {'/'.join(parts)} in ../shared")
    return file


def table(*parts: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file in ../shared, without comment lines. Raises Missing if there is none."""
    with shared(*parts).open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def require_litert() -> None:
    """Raise Missing unless the peer's version of LiteRT is installed in this environment."""
    _require_version("ai-edge-litert", LITERT_VERSION, _installed("ai-edge-litert"))


def vela_compile(network: Path) -> Sample:
    """One compilation by the Vela command line in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        return run_fresh(_vela_command(network, folder))


def vela_cycles(network: Path, accelerator: str = "ethos-u55-128") -> int:
    """The cycles that Vela estimates for a network on an Ethos-U55 (weights in 0.5 GB/s flash, 500 MHz)."""
    with tempfile.TemporaryDirectory() as folder:
        run_fresh(_vela_command(network, folder, accelerator))
        (summary,) = Path(folder).glob("*_summary_*.csv")
        with summary.open(newline="") as file:
            return round(float(next(csv.DictReader(file))["cycles_total"]))


class Estimate(NamedTuple):
    """What Vela says of a network: cycles, those of each kind of operator, and the kinds that it leaves to the CPU."""

    cycles: int
    by_operator: Mapping[str, float]
    on_cpu: frozenset[str]


def vela_estimate(network: Path, accelerator: str) -> Estimate:
    """Vela's estimate by operators. Raises Missing without Vela, BenchmarkError where it does not take the network."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *_vela_command(network, folder, accelerator),
            "--verbose-performance",
            "--show-cpu-operations",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        tables = [next(Path(folder).glob(f"*{end}"), None) for end in ("_summary_*.csv", "per-layer.csv")]
        if done.returncode or None in tables:
            raise BenchmarkError(f"Vela does not compile {network.name}: {done.stderr.strip()[-200:]}")
        summary, layers = (list(csv.DictReader(each.read_text().splitlines())) for each in tables if each)
    spent: dict[str, float] = {}
    for row in layers:
        kind = row["Original Operator"]
        spent[kind] = spent.get(kind, 0.0) + float(row["Op Cycles"])
    on_cpu = re.findall(r"CPU: (\w+) =", done.stdout)
    return Estimate(round(float(summary[0]["cycles_total"])), spent, frozenset(on_cpu))


def _vela_command(network: Path, folder: str, accelerator: str = "ethos-u55-128") -> list[str]:
    return [str(_vela()), str(network), "--accelerator-config", accelerator, "--output-dir", folder]


def require_vela() -> None:
    """Raise Missing unless the peer's version of Vela is found."""
    _vela()


@cache
def _vela() -> Path:
    """Vela from NPUSIM_VELA (it may live in an environment of its own), beside this Python, or from PATH."""
    named = os.environ.get(VELA_VARIABLE)
    beside = Path(sys.executable).with_name("vela")
    found = named or (str(beside) if beside.is_file() else shutil.which("vela"))
    if not found or not os.access(found, os.X_OK):
        where = f"{VELA_VARIABLE}={named} is no program" if named else "no vela beside this Python or on PATH"
        raise Missing(f"{where}; pip install ethos-u-vela=={VELA_VERSION}, or {VELA_VARIABLE}=/path/to/vela")
    _require_version("ethos-u-vela", VELA_VERSION, _version_of_program(Path(found)))
    return Path(found)


def _version_of_program(program: Path) -> str | None:
    done = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=False)
    words = done.stdout.split()
    return words[-1] if done.returncode == 0 and words else None


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _require_version(package: str, wanted: str, found: str | None) -> None:
    if found is None:
        raise Missing(f"{package} does not run here; pip install {package}=={wanted}")
    if found != wanted:
        raise Missing(f"{package} is {found}, the limits are for {wanted}; pip install {package}=={wanted}")
