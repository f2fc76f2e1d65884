"""The Khronos runtime in a process of its own, for it may crash: folders by line, a file of outputs in each."""

from __future__ import annotations

import sys
from pathlib import Path

import nnef  # type: ignore[import-not-found]
import numpy as np


def run(folder: Path) -> None:
    """Executes the model with the arrays of inputs.npz, by position, into outputs.npz."""
    with np.load(folder / "inputs.npz") as archive:
        inputs = [archive[name] for name in archive.files]
    outputs = nnef.Session(str(folder), lowered=["clamp", "moments", "silu", "gelu", "selu"])(*inputs)
    np.savez(folder / "outputs.npz", *outputs)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
