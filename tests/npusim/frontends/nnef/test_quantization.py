"""Quantization files: what an entry says, and what is refused with line, column and rule."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.frontends.nnef.document import loads
from npusim.frontends.nnef.nnef_rules import RULES
from npusim.frontends.nnef.places import DocumentError
from tests.npusim.frontends.nnef.documents import flat, fragment, own

GRAPH = flat("w = variable(shape = [4,4,3,3], label = 'w'); z = conv(x, w); y = relu(z);")
ZERO_POINT = (
    "zero_point_linear_quantize(zero_point = 3, scale = 0.5, bits = 8, signed = true, symmetric = false)"
)


def test_an_entry_has_tensors_and_attributes() -> None:
    text = f"# of activations\n\"z\": {ZERO_POINT};\n'y' : linear_quantize(bits = 4, max = 1.5, min = -0.5) ;"
    entries = loads(GRAPH, text).network().quantization
    assert list(entries) == ["z", "y"]
    assert entries["z"].operation == "zero_point_linear_quantize"
    assert entries["z"].attributes == {"bits": 8, "signed": True, "symmetric": False}
    assert {name: (array.tolist(), array.dtype) for name, array in entries["z"].tensors.items()} == {
        "zero_point": (3, np.int64),
        "scale": (0.5, np.float64),
    }
    assert entries["y"].tensors["min"].tolist() == -0.5
    assert str(entries["y"].place) == "graph.quant, line 3, column 1"


def test_values_per_channel_are_arrays() -> None:
    text = (
        '"w": zero_point_linear_quantize(zero_point = [0,0,0,0], scale = [0.5,0.25,1e-3,2.0], bits = 8, signed = true,'
        ' symmetric = true); "z": linear_quantize(min = [[-1.0,-2.0]], max = [[1.0,2.0]], bits = 8);'
    )
    entries = loads(GRAPH, text).network().quantization
    assert entries["w"].tensors["scale"].tolist() == [0.5, 0.25, 1e-3, 2.0]
    assert entries["w"].tensors["zero_point"].dtype == np.int64
    assert entries["z"].tensors["min"].shape == (1, 2)


def test_a_fragment_of_the_document_may_quantize_with_its_defaults() -> None:
    text = own(fragment("b = a * s;", "a: tensor<scalar>, s: tensor<scalar> = 2.0, bits: integer = 8"))
    entry = loads(text, '"y": foo(bits = 4);').network().quantization["y"]
    assert (entry.tensors["s"].tolist(), entry.attributes) == (2.0, {"bits": 4})


def test_an_empty_file_says_nothing() -> None:
    assert loads(GRAPH, " # nothing\n").network().quantization == {}
    assert loads(GRAPH).network().quantization == {}


REFUSED = (
    # rule, text, line:column, words
    ("Q1", f'"z": {ZERO_POINT}', "1:105", "expected ';' after the entry of 'z'"),
    ("Q1", f"z: {ZERO_POINT};", "1:1", "expected the name of a tensor in quotes"),
    ("Q1", f'"z" {ZERO_POINT};', "1:5", "expected ':' after tensor 'z'"),
    ("Q1", '"z": ;', "1:6", "expected a quantization"),
    ("Q1", '"z": 8;', "1:6", "expected a quantization"),
    ("G10", '"z": linear_quantize;', "1:21", "expected '('"),
    ("Q2", '"z": no_quantize(bits = 8);', "1:6", "there are min_max_linear_quantize"),
    ("Q2", '"z": concat(axis = 1);', "1:6", "the first parameter of 'concat' is no tensor"),
    ("Q2", '"z": linear_quantize(0.0, 1.0, 8);', "1:22", "an argument by position"),
    ("Q2", '"z": linear_quantize(x = 1.0, min = 0.0, max = 1.0, bits = 8);', "1:22", "which is left out"),
    ("Q2", '"z": linear_quantize(min = y, max = 1.0, bits = 8);', "1:28", "'min' is given no literal"),
    ("C3", '"z": linear_quantize(min = 0.0, max = 1.0);', "1:6", "lacks a value for 'bits'"),
    ("C5", '"z": linear_quantize(min = 0.0, max = 1.0, bits = 8, mode = 1);', "1:54", "no parameter 'mode'"),
    (
        "C6",
        '"z": linear_quantize(min = 0.0, min = 0.0, max = 1.0, bits = 8);',
        "1:33",
        "'min' of 'linear_quantize' is",
    ),
    (
        "C9",
        '"z": linear_quantize(min = 0.0, max = 1.0, bits = 8.5);',
        "1:51",
        "'bits' is integer, not scalar",
    ),
    ("C9", '"z": linear_quantize(min = 0, max = 1.0, bits = 8);', "1:28", "not integer"),
    ("C9", '"z": linear_quantize(min = [0], max = 1.0, bits = 8);', "1:28", "not integer[]"),
    (
        "C9",
        '"z": linear_quantize(min = [], max = 1.0, bits = 8);',
        "1:28",
        "or an array of its values, not []",
    ),
    ("C9", '"z": linear_quantize(min = [(0.0,1.0)], max = 1.0, bits = 8);', "1:28", "not (scalar, scalar)[]"),
    ("C9", '"z": linear_quantize(min = true, max = 1.0, bits = 8);', "1:28", "not logical"),
    ("T4", '"z": linear_quantize(min = [0.0, 1], max = 1.0, bits = 8);', "1:28", "no common type"),
    ("G7", '"z": linear_quantize(min = 0.0 - 1.0, max = 1.0, bits = 8);', "1:32", "values are literals"),
    ("Q3", f'"z": {ZERO_POINT};\n"z": {ZERO_POINT};', "2:1", "'z' has an entry already"),
    ("Q4", f'"nothing": {ZERO_POINT};', "1:1", "the graph has no tensor 'nothing'"),
    ("Q5", f'"z": {ZERO_POINT};'.replace("0.5", "0.0"), "1:57", "scale 0 is not above 0"),
    ("Q5", f'"z": {ZERO_POINT};'.replace("0.5", "[0.5,-1.0]"), "1:57", "scale -1 is not above 0"),
    ("Q5", f'"z": {ZERO_POINT};'.replace("bits = 8", "bits = 0"), "1:69", "bits 0 are not 1 to 64"),
    ("Q5", f'"z": {ZERO_POINT};'.replace("bits = 8", "bits = 65"), "1:69", "bits 65 are not 1 to 64"),
    ("Q5", '"z": linear_quantize(min = 1.0, max = 1.0, bits = 8);', "1:28", "min is not below max"),
    ("Q5", '"z": logarithmic_quantize(max = 0.0, bits = 8);', "1:33", "max 0 is not above 0"),
    (
        "Q10",
        '"z": linear_quantize(min = [[0.0],[0.0,0.5]], max = 1.0, bits = 8);',
        "1:28",
        "of different lengths",
    ),
    (
        "Q10",
        '"z": linear_quantize(min = [0.0,0.5], max = [1.0,1.0,1.0], bits = 8);',
        "1:45",
        "'max' has shape [3], 'min' [2]",
    ),
    ("L1", '"z": 2linear_quantize();', "1:6", "begins with a digit"),
)


@pytest.mark.parametrize(("rule", "text", "place", "words"), REFUSED)
def test_the_broken_rule_is_named_with_its_place(rule: str, text: str, place: str, words: str) -> None:
    with pytest.raises(DocumentError) as raised:
        loads(GRAPH, text).network()
    message = str(raised.value)
    line, _, column = place.partition(":")
    assert message.startswith(f"graph.quant, line {line}, column {column}: ")
    assert words in message
    assert message.endswith(f"(rule {rule}: {RULES[rule]})")
    assert len(message.splitlines()) == 1
