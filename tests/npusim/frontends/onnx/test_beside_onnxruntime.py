"""One node of every operation beside ONNX Runtime, which computes it from the same file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npusim
from npusim.frontends.onnx.operations.onnx_table import ROWS
from tests.npusim.frontends.onnx.coded_singles import CODED
from tests.npusim.frontends.onnx.models import Single, model_of, written
from tests.npusim.frontends.onnx.older_singles import OLDER
from tests.npusim.frontends.onnx.singles import SINGLES

TOLERANCE = 1e-5


@pytest.mark.cases(140)
@pytest.mark.parametrize("case", [*SINGLES, *CODED, *OLDER], ids=lambda case: f"{case.name}-{case.opset}")
def test_same_as_onnxruntime(tmp_path: Path, case: Single) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    path = written(tmp_path, model_of(case))
    how = runtime.SessionOptions()
    how.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    how.log_severity_level = 4
    session = runtime.InferenceSession(str(path), how, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    wanted = session.run(None, dict(zip(names, case.inputs, strict=True)))
    found = npusim.run(path, inputs=case.inputs).outputs
    assert found is not None
    for own, other in zip(found, wanted, strict=True):
        assert (own.shape, own.dtype) == (other.shape, other.dtype)
        if other.dtype.kind == "f":
            np.testing.assert_allclose(own, other, rtol=TOLERANCE, atol=TOLERANCE)
        else:
            np.testing.assert_array_equal(own, other)


ELSEWHERE = {"Constant", "If", "Loop", "Scan"}
"""Operations whose tests need more than a node."""


def test_every_plain_operation_is_compared() -> None:
    compared = {case.operation for case in (*SINGLES, *OLDER)}
    rows = {
        row.name for row in ROWS if not row.domain and "Linear" not in row.name and "Integer" not in row.name
    }
    assert rows - compared - ELSEWHERE - {"Swish", "SimplifiedLayerNormalization"} == set()
