"""ONNX Runtime's own quantized test models, from the reference material: corner cases of a reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim

SHARED = Path(__file__).parents[5] / "shared/onnx/ort_testdata"

pytestmark = pytest.mark.skipif(not SHARED.exists(), reason="../shared/onnx is not there")
onnx = pytest.importorskip("onnx", reason="onnx is not installed")

NAMES = (
    [model["name"] for model in json.loads((SHARED / "index.json").read_text())["models"]]
    if SHARED.exists()
    else []
)

REFUSED = {"float8__te.cast_fp8_1_fp32": "has elements of type float8e4m3fn, which npusim lacks"}

HALF = 2e-3
"""Two units in the last place of float16: ONNX Runtime keeps float32 between operations of it."""


@pytest.mark.parametrize("name", NAMES)
def test_model(name: str) -> None:
    path = SHARED / f"{name}.onnx"
    graph = onnx.load(str(path)).graph
    with np.load(SHARED / f"{name}.npz") as archive:
        inputs = {key.removeprefix("in_"): archive[key] for key in archive.files if key.startswith("in_")}
        wanted: list[Any] = [archive[f"out{place}"] for place in range(len(graph.output))]
    shapes = {value.name: value.type.tensor_type.shape.dim for value in graph.input if value.name in inputs}
    sizes = {
        key: inputs[key].shape
        for key, dims in shapes.items()
        if not all(size.HasField("dim_value") for size in dims)
    }
    if name in REFUSED:
        with pytest.raises(npusim.NpusimError, match=REFUSED[name]):
            npusim.load(path)
        return
    found = npusim.run(path, inputs=inputs, sizes=sizes).outputs
    assert found is not None
    for own, other in zip(found, wanted, strict=True):
        assert (own.shape, own.dtype) == (other.shape, other.dtype)
        tolerance = 0 if other.dtype.kind != "f" else HALF if other.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(own, other, rtol=tolerance, atol=tolerance)
