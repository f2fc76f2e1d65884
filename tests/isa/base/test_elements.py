"""The table of element types agrees with numpy, and tensors say by it what they are."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.isa.base.elements import ELEMENTS, ElementType, element, is_element, names
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.hardware.cpu import ELEMENT_CYCLES

KINDS = {"i": "signed", "u": "unsigned", "f": "real", "c": "complex", "b": "truth"}
CODES = Quantization((0.5,), (0,))


@pytest.mark.parametrize("row", ELEMENTS, ids=names())
def test_a_row_is_what_numpy_says_of_its_name(row: ElementType) -> None:
    dtype = np.dtype(row.name)
    assert (row.bits, row.kind) == (8 * dtype.itemsize, KINDS[dtype.kind])
    if dtype.kind in "iu":
        assert row.limits == (np.iinfo(dtype).min, np.iinfo(dtype).max)
    assert row.rates in ELEMENT_CYCLES
    assert element(row.name) is row


def test_names_are_unique_and_others_are_none() -> None:
    assert len(set(names())) == len(ELEMENTS)
    assert not is_element("float")
    assert element("bool").limits == (0, 1)
    with pytest.raises(TypeError, match="float32 has no smallest and largest whole number"):
        _ = element("float32").limits


@pytest.mark.parametrize(
    ("kind", "real", "quantized", "quantized8"),
    [
        (TensorType("int8", (2,), CODES), False, True, True),
        (TensorType("uint8", (2,), CODES), False, True, True),
        (TensorType("int16", (2,), CODES), False, True, False),
        (TensorType("int8", (2,)), False, False, False),
        (TensorType("float16", (2,)), True, False, False),
        (TensorType("float32", (2,), CODES), True, False, False),
        (TensorType("bool", (2,)), False, False, False),
    ],
    ids=str,
)
def test_a_tensor_knows_whether_it_holds_codes(
    kind: TensorType, real: bool, quantized: bool, quantized8: bool
) -> None:
    assert (kind.real, kind.quantized, kind.quantized8) == (real, quantized, quantized8)


def test_bytes_follow_from_the_bits() -> None:
    assert TensorType("float64", (3, 0, 2)).size_bytes == 0
    assert TensorType("float64", (3, 0, 2)).spanned_bytes == 6 * 8
    assert TensorType("int16", (3, 5)).size_bytes == 30
