"""Small spaces and models for the tests of searches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import npusim
from npusim.study.evaluate import Workload
from npusim.study.space_file import Sampling, SpaceFile, from_values

PARAMETERS: dict[str, Any] = {
    "mac_array.rows": [8, 16],
    "scratchpad.size_kib": {"from": 32, "to": 128, "factor": 2},
    "dram.bandwidth_gb_per_s": [0.5, 2.0],
    "clock_mhz": [200, 400],
}


def space_file(parameters: dict[str, Any] | None = None, **tables: Any) -> SpaceFile:
    """A space file of plain values; 24 points unless it is given other parameters."""
    return from_values({"parameters": parameters or PARAMETERS, **tables}, Path("space.toml"))


def sampling(kind: str, **more: Any) -> Sampling:
    """How points are chosen."""
    return Sampling(kind=kind, **more)  # type: ignore[arg-type]


def digits(weight: float = 1.0) -> Workload:
    """The smallest built-in model."""
    return Workload("digits_cnn", npusim.load("digits_cnn"), weight)
