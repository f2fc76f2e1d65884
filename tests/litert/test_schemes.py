"""Models with int16 values run where the table of quantization schemes in docs/operators.md says."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from npusim.frontends.tflite import reader as tflite

from .rows import ROWS, model
from .test_dynamic_range import CODES
from .test_operators import compiled

MODELS = 4
"""Random models of each operator."""
_SPEC = importlib.util.spec_from_file_location(
    "generate_schemes", Path(__file__).parents[2] / "docs/generate.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
generate: Any = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = generate
_SPEC.loader.exec_module(generate)


@cache
def cells() -> dict[str, tuple[str, ...]]:
    """The table, by operator of TFLite."""
    found: dict[str, tuple[str, ...]] = generate.scheme_cells()
    return found


@pytest.mark.cases(50)
@pytest.mark.parametrize("code", [code for code in ROWS if code != "CAST"])
def test_int16_models_run_where_the_table_says(code: str) -> None:
    cell = cells().get(code, ["-"] * 4)[generate.SCHEMES.index("int16x8")]
    assert ("int16" in ROWS[code].dtypes) == (cell != "-")
    if cell == "-":
        return
    units: set[str] = set()
    for seed in range(MODELS):
        program = compiled(tflite.parse(model(code, "int16", seed), code), small=False)
        layers = [] if program is None else program.layers
        units |= {layer.unit for layer in layers if layer.op == ROWS[code].op}
    assert units <= {*cell.split(", "), "host", "none"}
    assert cell == "host" or units & {*cell.split(", "), "none"}


def test_dynamic_range_models_are_those_that_run_live() -> None:
    found = {code for code, cell in cells().items() if cell[generate.SCHEMES.index("dynamic range")] != "-"}
    assert found == set(CODES)
