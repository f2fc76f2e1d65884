"""Partition files: what their lines mean, how they are written, and what they refuse."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.base.errors import NpusimError
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.placing import (
    Forced,
    PartitionWarning,
    Use,
    line_of,
    lines,
    parse,
    placed,
    read,
    taken,
)

from ..graphs import Sketch

SHARED = Path(__file__).parents[3] / "shared"
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zs", "Zl", "Zp")), min_size=1)


def two_convolutions() -> Graph:
    sketch = Sketch("two", seed=1)
    first = sketch.conv(sketch.input(1, 8, 8, 4), 4, padding=((1, 1), (1, 1)))
    sketch.conv(first, 4, padding=((1, 1), (1, 1)))
    return sketch.graph()


GRAPH = two_convolutions()
FIRST, SECOND = GRAPH.nodes
BETWEEN = GRAPH.tensors[FIRST.outputs[0]].name
IMAGE = GRAPH.tensors[GRAPH.inputs[0]].name


def on_host(graph: Graph) -> list[bool]:
    return [bool(node.on_host) for node in graph.nodes]


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("conv_2d", [True, True]),
        ("CONV_2D", [True, True]),
        (f"conv_2d::{BETWEEN}", [True, False]),
        (f"conv_2d:{BETWEEN}", [False, True]),
        (f"conv_2d:{IMAGE}:{BETWEEN}", [True, False]),
        (f"# all\n\nconv_2d:{IMAGE}-conv_2d:{BETWEEN}", [True, True]),
    ],
)
def test_a_line_takes_the_operators_with_all_of_its_names(text: str, taken: list[bool]) -> None:
    assert on_host(placed(GRAPH, parse(text, "a.txt"))) == taken


def test_the_reason_says_which_line_it_was() -> None:
    (node, _) = placed(GRAPH, parse(f"\nconv_2d:{IMAGE}", "a.txt")).nodes
    assert node.on_host == "forced to the host by line 2 of a.txt"


def test_the_lines_of_a_graph_take_its_operators_one_by_one() -> None:
    first, second = lines(GRAPH)
    assert on_host(placed(GRAPH, parse(first, "a.txt"))) == [True, False]
    assert on_host(placed(GRAPH, parse(second, "a.txt"))) == [False, True]


@given(NAMES, st.lists(NAMES), st.lists(NAMES))
def test_a_line_that_was_written_is_read_again(kind: str, inputs: list[str], outputs: list[str]) -> None:
    if kind.lstrip().startswith("#"):
        return
    assert parse(line_of(kind, inputs, outputs), "f") == (
        Forced(kind, tuple(inputs), tuple(outputs), "line 1 of f"),
    )


@pytest.mark.parametrize("text", ["a:b:c:d", ":a", "conv_2d-", "::"])
def test_what_is_no_line_is_refused_with_its_number(text: str) -> None:
    with pytest.raises(NpusimError, match=r"a\.txt: line 2: .* is not KIND"):
        parse(f"conv_2d\n{text}", "a.txt")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("conv_2", "did you mean conv_2d"),
        ("conv_2d:nobody", "no conv_2d of two has a tensor 'nobody'"),
        (f"conv_2d:{IMAGE},{BETWEEN}", "reads and writes all of these tensors at once"),
    ],
)
def test_a_line_of_a_file_that_takes_nothing_is_a_warning(text: str, said: str) -> None:
    with pytest.warns(PartitionWarning, match=f"line 1 of a.txt.*{said}"):
        placed(GRAPH, parse(text, "a.txt"))


def test_an_option_that_takes_nothing_is_an_error() -> None:
    with pytest.raises(NpusimError, match="--host: conv_2: two has no such operator; did you mean conv_2d"):
        placed(GRAPH, [Forced("conv_2")])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NpusimError, match="no such file"):
        read(tmp_path / "none.txt")


def test_what_takes_something_is_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        placed(GRAPH, parse("conv_2d", "a.txt"))


def protocol() -> list[dict[str, Any]]:
    """The cases of partition files that lie beside the checkout."""
    file = SHARED / "nnadapter" / "protocol" / "partition.jsonl"
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.is_file() else []


@pytest.mark.skipif(not protocol(), reason="../shared/nnadapter/protocol/partition.jsonl is not there")
@pytest.mark.filterwarnings("ignore::npusim.kernels.graph.placing.PartitionWarning")
@pytest.mark.parametrize("case", protocol(), ids=lambda case: case["id"])
def test_partition_files_of_nnadapter_force_what_they_say(case: dict[str, Any]) -> None:
    uses = [Use(each["type"], each["inputs"], each["outputs"]) for each in case["operators"]]
    assert sorted(taken("net", uses, parse(case["config"], "file"))) == case["forced_to_cpu"]
