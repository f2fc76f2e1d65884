"""Operations beside the Khronos runtime (PyPI nnef), where it is installed and does not crash."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.examples import some
from tests.npusim.frontends.nnef.bodies import bodies
from tests.npusim.frontends.nnef.models import folder, result

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("nnef") is None,
        reason="the Khronos runtime is not installed: pip install nnef",
    ),
]

_RUNTIME = Path(__file__).with_name("khronos_session.py")

_BODIES = 90
"""How many bodies are compared by day, of 242."""
_ALIKE = 0.45
"""The share of bodies that the runtime executes, and more."""


def test_operations_give_what_the_runtime_gives(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    found = {}
    for number, (body, shape, variables) in enumerate(some(list(bodies()), _BODIES, "bodies")):
        arrays = {name: generator.standard_normal(extents, np.float32) for name, extents in variables.items()}
        path = folder(tmp_path / str(number), body, shape, arrays)
        x = generator.standard_normal(shape, np.float32)
        np.savez(path / "inputs.npz", x)
        found[path] = body, result(path, x)
    subprocess.run([sys.executable, str(_RUNTIME), *map(str, found)], check=False, capture_output=True)
    wrong, alike = [], 0
    for path, (body, ours) in found.items():
        if not (path / "outputs.npz").exists():
            continue  # refused, or crashed
        with np.load(path / "outputs.npz") as archive:
            wanted = archive["arr_0"]
        if ours.shape == wanted.shape and np.allclose(ours, wanted, rtol=1e-4, atol=1e-4, equal_nan=True):
            alike += 1
        else:
            wrong.append(body)
    assert wrong == []
    assert alike >= _ALIKE * len(found)
