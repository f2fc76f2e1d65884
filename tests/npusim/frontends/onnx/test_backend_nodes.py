"""The tests of the package `onnx` for backends: those that npusim has to give right, by operation."""

from __future__ import annotations

import pytest

from npusim.frontends.onnx.operations.onnx_table import row
from tests.examples import NIGHT, TURN
from tests.npusim.frontends.onnx.backend import Node, files, nodes, outcome

pytest.importorskip("onnx", reason="onnx is not installed")

SAID_SO = (
    *("bfloat16", "float8", "float4", "string", "is sequence", "is optional", "no tensors", "npusim lacks"),
    *(
        "npusim does not have the operation",
        "training_mode",
        "cannot be written out",
        "opset_import",
        "no diagonals",
    ),
    *(
        "npusim has constant scales",
        "storage_order",
        "decides shapes",
        "along one or two axes",
        "uint64",
        "float64",
        "npusim has 'linear'",
        "npusim has 'avg'",
        "npusim has that of 9 or newer",
        "npusim samples images",
    ),
    *("operands are all", "element types are"),
)
"""Parts of the lines that refuse what npusim does not have; docs/onnx.md lists it."""

OTHERWISE = {
    "test_attention_4d_causal_fp16": "half precision on the way, in another order",
    "test_attention_4d_causal_fp16_expanded": "half precision on the way, in another order",
    "test_resize_downsample_scales_linear_align_corners": "sizes that are no whole numbers; as ONNX Runtime has it",
    "test_resize_downsample_scales_cubic_align_corners": "sizes that are no whole numbers; as ONNX Runtime has it",
}
"""Tests whose values differ, and why."""

EVERY = 7 if NIGHT else 21
"""Each so-many-th test is run here, by night three times as many; all of them by
`python -m tests.npusim.frontends.onnx.backend`."""
NIGHTLY = () if NIGHT else ("averagepool", "lppool", "maxpool")
"""Files of tests that compute their data for seconds, pixel by pixel in Python, when they are imported."""


def _chosen() -> list[Node]:
    """Those of operations that are in the table."""
    chosen_files = [file for file in files() if file.rpartition(".")[2] not in NIGHTLY]
    every = [
        node for node in nodes(chosen_files) if all(row("", each.op_type) for each in node.model.graph.node)
    ]
    return every[TURN % EVERY :: EVERY]


@pytest.mark.slow
def test_nodes() -> None:
    chosen = _chosen()
    wrong = {node.name: said for node in chosen if (said := outcome(node)) and node.name not in OTHERWISE}
    refused = {name for name, said in wrong.items() if any(words in said for words in SAID_SO)}
    assert {name: said for name, said in wrong.items() if name not in refused} == {}
    assert len(chosen) > 1050 / EVERY
    assert len(refused) < len(chosen) / 4
