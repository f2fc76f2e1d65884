"""Operators other than convolutions and arithmetic against the bytes of the LiteRT reference kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npusim.kernels import (
    arg_max,
    concatenation,
    dequantize,
    hard_swish,
    leaky_relu,
    logistic,
    pad,
    relu,
    relu6,
    resize_bilinear,
    softmax,
    tanh,
)
from npusim.kernels.operator import Operator

from .litert_cases import litert_cases

OPERATORS: dict[str, Operator] = {
    "SOFTMAX": softmax.OPERATOR,
    "LOGISTIC": logistic.OPERATOR,
    "TANH": tanh.OPERATOR,
    "RELU": relu.OPERATOR,
    "RELU6": relu6.OPERATOR,
    "LEAKY_RELU": leaky_relu.OPERATOR,
    "HARD_SWISH": hard_swish.OPERATOR,
    "RESIZE_BILINEAR": resize_bilinear.OPERATOR,
    "ARG_MAX": arg_max.OPERATOR,
    "DEQUANTIZE": dequantize.OPERATOR,
    "PAD": pad.OPERATOR,
    "CONCATENATION": concatenation.OPERATOR,
}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", OPERATORS)
def test_reference_gives_the_bytes_of_litert(shared: Path, name: str, dtype: str) -> None:
    cases = list(litert_cases(shared, name, dtype))
    assert len(cases) == 40
    for case in cases:
        entry = OPERATORS[name]
        assert [rule.__doc__ for rule in entry.rules if not rule(case.call)] == [], case.name
        results = entry.reference(case.call, case.values)
        for result, expected in zip(results, case.expected, strict=True):
            assert result.dtype == expected.dtype
            np.testing.assert_array_equal(result, expected, err_msg=case.name)
