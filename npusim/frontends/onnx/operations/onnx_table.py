"""The table of supported ONNX operations, one row each."""

from __future__ import annotations

from npusim.frontends.forms import qdq_operations
from npusim.frontends.forms.node_rows import Row, registered
from npusim.frontends.onnx.operations import (
    block_quantized,
    grouped_attention,
    onnx_attention,
    onnx_axes,
    onnx_control,
    onnx_elementwise,
    onnx_images,
    onnx_matrices,
    onnx_moves,
    onnx_recurrent,
    onnx_windows,
    qoperators,
    quantized_experts,
    quantized_products,
    shape_constants,
)

_MODULES = (
    block_quantized, grouped_attention, onnx_attention, onnx_axes, onnx_control, onnx_elementwise, onnx_images,
    onnx_matrices, onnx_moves, onnx_recurrent, onnx_windows, qdq_operations, qoperators, quantized_experts,
    quantized_products, shape_constants,
)  # fmt: skip

ROWS: tuple[Row, ...] = tuple(
    sorted((row for module in _MODULES for row in module.ROWS), key=lambda row: (row.domain, row.name))
)
"""All rows, sorted by domain and name."""

_BY_NAME = {(row.domain, row.name): row for row in ROWS}


def row(domain: str, name: str) -> Row | None:
    """Return the row of an operation, or of one that the user registered as "domain.name"; None if there is none."""
    return _BY_NAME.get((domain, name)) or registered(domain, name)
