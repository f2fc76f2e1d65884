"""Graphs drawn at random, written in every format and read again: the same bytes, or refused with their layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npusim
from npusim.frontends.targets import TARGETS, target_of
from npusim.isa.base.errors import GraphError, NpusimError
from npusim.kernels.graph import reference
from npusim.kernels.graph.graph import Graph
from npusim.kernels.table import NAMES

from ...graphs import random_inputs
from ...random_graphs import random_graph

GRAPHS = 40
EXACT = ("nnef", "tflite", "hal")
"""Formats that rescale as the graph does."""


def drawn(seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    return random_graph(
        lambda low, high: int(rng.integers(low, high + 1)), most_steps=6, portable=seed % 2 == 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_random_graphs_keep_their_bytes(name: str, tmp_path: Path) -> None:
    target = target_of(name, Path())
    file, count = tmp_path / f"m{target.suffixes[0]}", 0
    for seed in range(GRAPHS):
        graph = drawn(seed)
        try:
            content = target.written(graph, file.name)
        except GraphError as refusal:
            assert str(refusal).startswith("layer"), refusal  # noqa: PT017
            continue
        count += 1
        file.write_bytes(content)
        again = npusim.load(file)
        inputs = random_inputs(graph, seed)
        before, after = (reference.evaluate(each, inputs) for each in (graph, again))
        for ours, theirs in zip(graph.outputs, again.outputs, strict=True):
            np.testing.assert_array_equal(before[ours], after[theirs], strict=True)
    assert count > GRAPHS // 2


def test_operators_of_a_format_are_operators() -> None:
    for target in TARGETS:
        assert target.operators <= set(NAMES), target.name
        assert len(target.operators) > 50


def test_the_suffix_says_the_format_where_no_name_does() -> None:
    assert [target_of("", Path(f"m{row.suffixes[0].upper()}")).name for row in TARGETS] == [
        row.name for row in TARGETS
    ]
    assert target_of("", Path("m")).name == "nnef"
    assert target_of("hal", Path("m.onnx")).name == "hal"
    with pytest.raises(NpusimError, match=r"^--to caffe: may be nnef, onnx, tflite, hal$"):
        target_of("caffe", Path("m"))
