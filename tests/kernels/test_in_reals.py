"""rescale="float32": operators on codes compute on the reals that these stand for."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.parameters import Activated
from npusim.kernels.operators.movement.value_conversions import QUANTIZE, QuantizeParameters
from npusim.kernels.table import operator

FIRST, SECOND, RESULT = Quantization((0.25,), (3,)), Quantization((0.5,), (-7,)), Quantization((1.0,), (10,))


def _sum(rescale: str, outputs: TensorType) -> Call:
    shape = (256,)
    return Call(
        Activated(rescale=rescale),  # type: ignore[arg-type]
        (TensorType("uint8", shape, FIRST), TensorType("int8", shape, SECOND)),
        (outputs,),
        {},
    )


def test_a_sum_of_codes_is_the_sum_of_their_reals() -> None:
    """Types may differ, which no sum in integers takes, and halves go to even."""
    a = np.arange(256, dtype=np.uint8)
    b = np.random.default_rng(5).integers(-128, 128, 256, dtype=np.int8)
    call = _sum("float32", TensorType("uint8", (256,), RESULT))
    assert operator("add").broken_rule(call) is None
    [found] = operator("add").compute(call, [a, b])
    reals = (a.astype(np.float64) - 3) * 0.25 + (b.astype(np.float64) + 7) * 0.5
    assert found.dtype == np.uint8
    assert np.array_equal(found, np.clip(np.rint(reals) + 10, 0, 255))
    assert (reals % 1 == 0.5).any()


def test_results_may_stay_real() -> None:
    call = _sum("float32", TensorType("float32", (256,)))
    a, b = np.full(256, 4, np.uint8), np.full(256, -6, np.int8)
    [found] = operator("add").compute(call, [a, b])
    assert np.array_equal(found, np.full(256, 0.75, np.float32))


def test_an_operator_says_which_ways_it_has() -> None:
    call = _sum("fused", TensorType("uint8", (256,), RESULT))
    cast = Call(call.parameters.changed(activation="none"), call.inputs, call.outputs, {})
    assert "not after one fused" in (operator("div").broken_rule(cast) or "")


@pytest.mark.parametrize(
    ("dtype", "bits", "lowest", "highest"),
    [
        ("int8", 0, -128, 127),
        ("uint8", 0, 0, 255),
        ("int8", 4, -8, 7),
        ("uint8", 4, 0, 15),
        ("uint16", 0, 0, 65535),
    ],
)
def test_reals_become_the_nearest_codes_of_their_bits(
    dtype: str, bits: int, lowest: int, highest: int
) -> None:
    reals = np.array([-1e30, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1e30, np.inf, -np.inf, np.nan], np.float32)
    kinds = TensorType("float32", reals.shape), TensorType(dtype, reals.shape, Quantization((1.0,), (4,)))
    call = Call(QuantizeParameters(rescale="float32", bits=bits), kinds[:1], kinds[1:], {})
    assert QUANTIZE.broken_rule(call) is None
    [found] = QUANTIZE.compute(call, [reals])
    assert found.tolist() == [lowest, 2, 2, 4, 4, 6, 6, highest, highest, lowest, lowest]


def test_fewer_bits_are_of_float32_only() -> None:
    kinds = TensorType("float32", (1,)), TensorType("int8", (1,), RESULT)
    call = Call(QuantizeParameters(bits=4), kinds[:1], kinds[1:], {})
    assert "fewer bits" in (QUANTIZE.broken_rule(call) or "")
