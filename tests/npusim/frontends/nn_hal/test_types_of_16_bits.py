"""Operations of the NN HAL take 16-bit types where the specification names them, and refuse them elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from npusim.frontends.nn_hal.operations.operation_table import OPERATIONS
from npusim.frontends.nn_hal.operations.signatures import TENSORS

NAMED = {
    "AXIS_ALIGNED_BBOX_TRANSFORM": {"TENSOR_QUANT16_ASYMM"},
    "BOX_WITH_NMS_LIMIT": {"TENSOR_QUANT16_ASYMM"},
    "CAST": {"TENSOR_QUANT16_ASYMM", "TENSOR_QUANT16_SYMM"},
    "GENERATE_PROPOSALS": {"TENSOR_QUANT16_ASYMM", "TENSOR_QUANT16_SYMM"},
    "HEATMAP_MAX_KEYPOINT": {"TENSOR_QUANT16_ASYMM"},
    "QUANTIZED_16BIT_LSTM": {"TENSOR_QUANT16_SYMM"},
    "QUANTIZED_LSTM": {"TENSOR_QUANT16_SYMM"},
    "RANK": {"TENSOR_QUANT16_ASYMM", "TENSOR_QUANT16_SYMM"},
    "ROI_ALIGN": {"TENSOR_QUANT16_ASYMM"},
    "ROI_POOLING": {"TENSOR_QUANT16_ASYMM"},
}
"""The operations whose text names 16-bit types, and which."""
TEXT = Path(__file__).parents[5] / "shared" / "specs" / "nnapi_operation_codes.txt"


def test_operations_take_the_16_bit_types_that_the_specification_names() -> None:
    """Signatures call them Q16S and Q16A."""
    found = {}
    for row in OPERATIONS:
        kinds = {TENSORS[name].name for name in re.findall(r"\bQ16[SA]\b", " ".join((row.types, *row.forms)))}
        if kinds:
            found[row.type.name] = kinds
    assert found == NAMED


@pytest.mark.skipif(not TEXT.exists(), reason=f"{TEXT} is not there")
def test_these_are_named_in_the_text() -> None:
    named = {}
    for section in TEXT.read_text("utf-8").split("\n§\n"):
        code = re.search(r"ANEURALNETWORKS_([A-Z0-9_]+) = \d+", section)
        kinds = set(re.findall(r"TENSOR_QUANT16_[A-Z]+", section))
        if code and kinds:
            named[code[1]] = kinds
    assert named == NAMED
