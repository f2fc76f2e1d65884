"""The documents of the reference material: illegal ones, expressions, the provisional dialect, whole networks."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from npusim.frontends.nnef.document import Document, load, loads
from npusim.frontends.nnef.places import DocumentError
from tests.yardstick import cost


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def document(files: dict[str, str]) -> Document:
    data = {name: base64.b64decode(text) for name, text in files.items() if name.endswith(".dat")}
    return loads(files["graph.nnef"], files.get("graph.quant"), data)


def test_illegal_documents_are_refused_where_the_khronos_parser_does(shared: Path) -> None:
    """Rules of shapes (S1) need the operations, and a missing data file is no fault of a structure."""
    refused = 0
    for case in lines(shared / "nnef/documents/illegal.jsonl"):
        if case["rule"] == "S1" or case["title"] == "data file missing":
            document(case["files"]).network()
            continue
        with pytest.raises(DocumentError) as raised:
            document(case["files"]).network()
        message = str(raised.value)
        refused += 1
        assert len(message.splitlines()) == 1, case["id"]
        place = re.match(r"graph\.(?:nnef|quant), line (\d+), column \d+: ", message)
        assert place or message.startswith("a/w.dat: "), (case["id"], message)
        theirs = re.search(r"\[(\d+):\d+\]", case["message"])
        if place and theirs and "called at line" not in message and case["rule"] != "B6":
            assert place[1] == theirs[1], (case["id"], message)
    assert refused > 100


def test_expressions_have_their_values(shared: Path) -> None:
    cases = lines(shared / "nnef/documents/expressions.jsonl")
    assert cases
    for case in cases:
        (call,) = [
            c for c in loads(case["graph"]).network({"leaky_relu"}).calls if c.operation == "leaky_relu"
        ]
        assert call.attributes["alpha"] == case["value"], case["id"]


def test_provisional_documents_are_the_final_ones(shared: Path) -> None:
    cases = lines(shared / "nnef/documents/provisional.jsonl")
    assert cases
    for case in cases:
        ours, final = (
            [(c.operation, c.results, c.tensors, c.attributes, c.item) for c in loads(text).network().calls]
            for text in (case["provisional"], case["final"])
        )
        assert ours == final, case["id"]


def test_cases_of_operations_are_read(shared: Path) -> None:
    for case in lines(shared / "nnef/ops/cases.jsonl"):
        network = loads(case["graph"]).network()
        assert list(network.inputs) == case["inputs"]
        assert list(network.outputs) == case["outputs"]
        assert set(network.missing()) == set(case["variables"])
    for case in lines(shared / "nnef/quantized_ops/cases.jsonl"):
        assert document(case["files"]).network().missing() == ()


def test_networks_are_read_fast(shared: Path) -> None:
    paths = [
        *(shared / "nnef/converted").glob("*.tgz"),
        *(shared / "nnef/khronos_examples").glob("*.nnef"),
        *(path for path in (shared / "nnef/tract_cases").iterdir() if path.is_dir()),
    ]
    assert len(paths) > 10
    for path in paths:
        read: list[Any] = []
        # 0.3 s where the yardstick takes 10 ms.
        limit = 30
        assert cost(lambda path=path, read=read: read.append(load(path).network()), limit, 3) < limit, (
            path.name
        )
        network = read[0]
        if path.suffix == ".tgz":
            assert network.missing() == ()
            assert set(network.variables) <= set(network.quantization)
