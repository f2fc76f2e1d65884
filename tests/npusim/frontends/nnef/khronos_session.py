"""The Khronos runtime on folders of models, each in a forked process, for it may crash.

python khronos_session.py FOLDER...      writes outputs.npz into each folder that it can execute
"""

from __future__ import annotations

import os
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


def apart(folder: Path) -> None:
    """Run a model in a child process: a crash or an exception there is a model without outputs."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run(folder)
            status = 0
        finally:
            os._exit(status)
    os.waitpid(child, 0)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        apart(Path(name))
