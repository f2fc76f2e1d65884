"""What is written is read back as the same network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.frontends.nnef import nnef_writer
from npusim.frontends.nnef.call_network import Network
from npusim.frontends.nnef.document import load, loads
from npusim.frontends.nnef.places import DocumentError
from npusim.frontends.nnef.tensor_file import dump
from tests.npusim.frontends.nnef.documents import flat, own

BODY = """w = variable(shape = [4,4,3,3], label = 'block/w');
k = constant<integer>(shape = [2], value = [1,2]);
z = conv(x, w, padding = [(0,1),(0,1)], stride = [2,2], border = 'ignore');
[p, q] = split(z, axis = 1, ratios = [1,3]);
m, v = moments(p, axes = [2,3]);
c = cast<integer>(m);
s = select(true, v, 1e-07);
g = gather(s, c, axis = 1);
t = sum_reduce(g, axes = [0], normalize = true);
y = concat([t, t], axis = 0);"""

CODES = (
    '"w": zero_point_linear_quantize(zero_point = [[0,1,2,3]], scale = [[0.5,1.0,2.0,1e-06]], bits = 8,'
    " signed = true, symmetric = false);"
)


def calls(network: Network) -> list[Any]:
    return [
        (call.operation, call.results, call.tensors, call.attributes, call.item) for call in network.calls
    ]


@pytest.mark.parametrize("name", ["net", "net.tgz", "net.tar.gz", "net.tar"])
def test_a_model_comes_back(name: str, tmp_path: Path) -> None:
    whole = {"moments"}
    files = {"block/w.dat": dump(np.ones((4, 4, 3, 3), np.int8), quantized=True)}
    network = loads(flat(BODY), CODES, files).network(whole)
    nnef_writer.write(tmp_path / name, network, {"block/w": files["block/w.dat"]})
    again = load(tmp_path / name).network(whole)
    assert calls(again) == calls(network)
    assert again.missing() == ()
    scale = again.quantization["w"].tensors["scale"]
    assert scale.tolist() == [[0.5, 1.0, 2.0, 1e-06]]
    nnef_writer.write(tmp_path / f"again_{name}", network, {"block/w": files["block/w.dat"]})
    if name != "net":
        assert (tmp_path / f"again_{name}").read_bytes() == (tmp_path / name).read_bytes()


def test_a_flat_text_is_short_where_defaults_say_the_same() -> None:
    network = loads(
        flat("w = external<logical>(shape = [1]); y = max_pool(x, size = [1,1,2,2], stride = []);").replace(
            "( x )", "( x, w )"
        )
    ).network({"max_pool"})
    assert nnef_writer.graph_text(network) == (
        "version 1.0;\n\ngraph net(x, w) -> (y)\n{\n    x = external<scalar>(shape = [1, 4, 8, 8]);\n"
        "    w = external<logical>(shape = [1]);\n    y = max_pool(x, size = [1, 1, 2, 2]);\n}\n"
    )


def test_tensors_of_expanded_fragments_get_identifiers() -> None:
    network = loads(own("", "y_z = relu(x); y = softmax(y_z);")).network()
    text = nnef_writer.graph_text(network)
    again = loads(text).network()
    assert [call.operation for call in again.calls] == [call.operation for call in network.calls]
    assert len(again.items) == len(network.items)


def test_identifiers_are_those_of_the_language_and_differ() -> None:
    names = ["a", "a/b", "a_b", "a.b", "2x", "for", "", "é", "a"]
    assert nnef_writer.identifiers(names) == {
        "a": "a",
        "a/b": "a_b",
        "a_b": "a_b_2",
        "a.b": "a_b_3",
        "2x": "_2x",
        "for": "_for",
        "": "_",
        "é": "__2",
    }


LITERALS: tuple[tuple[Any, str], ...] = (
    (True, "true"),
    (3, "3"),
    (-3, "-3"),
    (0.1, "0.1"),
    (1.0, "1.0"),
    (1e-07, "1e-07"),
    (1e300, "1e+300"),
    (-2.5, "-2.5"),
    ("a", "'a'"),
    ("it's", '"it\'s"'),
    ([], "[]"),
    ([(0, 1)], "[(0, 1)]"),
    (np.int64(4), "4"),
)


@pytest.mark.parametrize(("value", "text"), LITERALS)
def test_values_as_literals(value: Any, text: str) -> None:
    assert nnef_writer.literal(value) == text


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "both ' and \"", "a\nb"])
def test_a_value_without_a_literal_is_refused(value: Any) -> None:
    with pytest.raises(DocumentError, match="NNEF has no literal for"):
        nnef_writer.literal(value)


def test_an_operation_that_is_not_standard_is_refused() -> None:
    network = loads(flat("y = relu(x);")).network({"relu"})
    other = replace(network, calls=(replace(network.calls[1], operation="my_relu"),))
    with pytest.raises(DocumentError, match="my_relu is no standard operation of NNEF"):
        nnef_writer.graph_text(other)
