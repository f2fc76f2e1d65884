"""Operators on codes, and QOperator, dynamic and int4 models, beside the reference material."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npusim
from tests.npusim.frontends.onnx.cases import TOLERANCE, cases, outcome

FAMILIES = [
    "ConvInteger", "DequantizeLinear.s16", "DequantizeLinear.s32", "DequantizeLinear.s4", "DequantizeLinear.s8",
    "DequantizeLinear.u16", "DequantizeLinear.u4", "DequantizeLinear.u8", "DynamicQuantizeLinear", "MatMulInteger",
    "QLinearConv", "QLinearMatMul", "QuantizeLinear.s16", "QuantizeLinear.s4", "QuantizeLinear.s8",
    "QuantizeLinear.u16", "QuantizeLinear.u4", "QuantizeLinear.u8", "ms.DynamicQuantizeMatMul",
    "ms.MatMulIntegerToFloat", "ms.MatMulNBits", "ms.QGemm", "ms.QLinearAdd", "ms.QLinearAveragePool",
    "ms.QLinearConcat", "ms.QLinearGlobalAveragePool", "ms.QLinearLeakyRelu", "ms.QLinearMul", "ms.QLinearSigmoid",
    "ms.QLinearSoftmax", "ms.QLinearWhere",
]  # fmt: skip

KNOWN = {"ms.QLinearSigmoid[11]": 1}
"""Values that differ by one code: ONNX Runtime's exp is not the nearest float32 (arithmetic.md counts it too)."""

MODELS = {
    "mnist_qop_u8s8": "out",
    "mobilenetv2_050_128_qop_u8u8": "out",
    "magika_v3_3_dynamic": "out",
    "gpt_int4_blocked": "def",
}
"""Whole models, and whether ONNX Runtime's results are theirs or those of the definition."""


@pytest.mark.slow
@pytest.mark.cases(4)
@pytest.mark.parametrize("family", FAMILIES)
def test_cases_have_their_bytes(shared: Path, family: str) -> None:
    """Every case, on the machine."""
    wrong = {}
    for case in cases(shared, family):
        text, differing = outcome(case)
        if text and KNOWN.get(case.name) != differing:
            wrong[case.name] = text
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.cases(2)
@pytest.mark.parametrize("name", MODELS)
def test_models_have_their_results(shared: Path, name: str) -> None:
    """Codes are equal, floats nearly so."""
    folder = shared / "onnx/golden"
    wanted = "def.npz" if MODELS[name] == "def" else "npz"
    with np.load(folder / f"{name}.npz") as given, np.load(folder / f"{name}.{wanted}") as golden:
        for run in range(3):
            inputs = [given[key] for key in given.files if key.startswith(f"in{run}_")]
            sizes = {"T": inputs[0].shape[-1]} if name.startswith("gpt") else None
            results = npusim.run(shared / f"onnx/models/{name}.onnx", inputs=inputs, sizes=sizes).outputs
            expected = [golden[key] for key in golden.files if key.startswith(f"out{run}_")]
            assert results is not None
            for mine, theirs in zip(results, expected, strict=True):
                if name.startswith(("mnist", "mobilenet")):  # their outputs are codes times a scale
                    np.testing.assert_array_equal(mine, theirs)
                else:
                    np.testing.assert_allclose(mine, theirs, rtol=TOLERANCE, atol=TOLERANCE)
