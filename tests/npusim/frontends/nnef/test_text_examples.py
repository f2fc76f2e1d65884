"""What chapter 3 shows, in documents of our own: each construct once, run or expanded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npusim
from npusim.frontends.nnef.call_network import Network
from npusim.frontends.nnef.document import loads
from npusim.frontends.nnef.places import DocumentError
from tests.npusim.frontends.nnef.documents import provisional


def expanded(body: str, fragments: str = "", *whole: str) -> Network:
    return loads(provisional(body, fragments)).network(whole)


def operations(network: Network) -> list[str]:
    return [call.operation for call in network.calls[1:]]


def alpha(expression: str, parameters: str = "", given: str = "") -> object:
    """What an expression is in the provisional dialect, as an attribute of a call."""
    signature = f"a: tensor{', ' * bool(parameters)}{parameters}"
    call = f"y = foo(x{', ' * bool(given)}{given})"
    text = f"fragment foo( {signature} ) -> ( b: tensor ) {{ b = leaky_relu(a, alpha = {expression}) }}"
    return expanded(call, text, "leaky_relu").calls[-1].attributes["alpha"]


# 3.1, lexical elements


def test_names_are_of_ascii_letters_digits_and_underscores() -> None:
    network = expanded("_a1 = relu(x) B__2 = relu(_a1) y = relu(B__2)", "", "relu")
    assert [call.results for call in network.calls] == [("x",), ("_a1",), ("B__2",), ("y",)]


@pytest.mark.parametrize(
    "keyword",
    [
        *("graph", "fragment", "tensor", "extent", "scalar", "logical", "string"),
        *("shape_of", "length_of", "range_of"),
        *("for", "in", "if", "else"),
    ],
)
def test_keywords_are_no_names(keyword: str) -> None:
    with pytest.raises(DocumentError, match=r"rule (L4|G8|G6|E7)"):
        expanded(f"{keyword} = relu(x) y = relu({keyword})")


@pytest.mark.parametrize(
    ("literal", "value"), [("7.0", 7.0), ("0.5", 0.5), ("1e2", 100.0), ("1.5e-1", 0.15), ("2.5E+1", 25.0)]
)
def test_numbers_have_a_fraction_and_a_signed_exponent(literal: str, value: float) -> None:
    assert alpha(literal) == value


def test_white_space_stands_between_all_elements_and_a_comment_ends_with_its_line() -> None:
    body = "\ty\n=\r\n relu\v(\f x ) # y = tanh(x)"
    assert operations(expanded(body, "", "relu")) == ["relu"]


# 3.2, syntax

DECLARED = """
fragment pair( input: tensor, sizes: extent[] = [1] ) -> ( output: tensor )
fragment both( input: tensor, slope: scalar = 0.5, on: logical = true, how: string = 'a' )
-> ( output: tensor, extra: tensor )
fragment many( parts: tensor[], spans: (extent, extent)[] = [] ) -> ( output: tensor )
"""


def test_declarations_have_types_defaults_and_several_results() -> None:
    network = expanded(
        "p, q = both(x) r = pair(p, sizes = [2,3]) y = many([r, q], spans = [(1,2)])", DECLARED
    )
    both, pair, many = network.calls[1:]
    assert both.attributes == {"slope": 0.5, "on": True, "how": "a"}
    assert both.results == ("p", "q")
    assert pair.attributes == {"sizes": [2, 3]}
    assert many.tensors == {"parts": ("r", "q")}
    assert many.attributes == {"spans": [(1, 2)]}


def test_arguments_stand_by_position_and_by_name_in_any_order() -> None:
    network = expanded("p, q = both(how = 'b', on = false, input = x) y = pair(p)", DECLARED)
    assert network.calls[1].attributes == {"slope": 0.5, "on": False, "how": "b"}
    assert network.calls[2].attributes == {"sizes": [1]}


def test_a_graph_with_fragments_of_its_own_runs(tmp_path: Path) -> None:
    """The skeleton of a whole document: version, two fragments, a graph; here with bodies that compute."""
    path = tmp_path / "net.nnef"
    path.write_text("""version 1.0

fragment scaled( input: tensor, flag: logical ) -> ( output: tensor )
{
    output = input * 2.0 if flag else input
}

fragment lifted( input: tensor, param: scalar ) -> ( output: tensor )
{
    output = max(input, 0.0) + param
}

graph foobar( input ) -> ( output )
{
    input = external(shape = [4,10])
    hidden = scaled(input, flag = true)
    output = lifted(hidden, param = 3.5)
}
""")
    values = np.linspace(-2, 2, 40, dtype=np.float32).reshape(4, 10)
    (output,) = npusim.run(path, inputs=[values]).outputs or ()
    assert np.array_equal(output, np.maximum(values * 2, 0) + np.float32(3.5))


def test_a_document_without_fragments_is_flat_and_a_graph_is_always_there() -> None:
    assert operations(expanded("y = relu(x)", "", "relu")) == ["relu"]
    with pytest.raises(DocumentError, match="found the end of the text"):
        loads("version 1.0\nfragment foo( a: tensor ) -> ( b: tensor ) { b = relu(a) }\n")


def test_left_sides_are_names_tuples_and_arrays_of_each_other() -> None:
    fragments = (
        "fragment deep( a: tensor ) -> ( p: tensor, v: tensor[] ) { p = relu(a) v = [a, p] }"
        " fragment foo( a: tensor ) -> ( b: tensor )"
        " { p, [q, r] = deep(a) ((s, t), [u]) = ((p, q), [r]) b = s + t + u }"
    )
    assert operations(expanded("y = foo(x)", fragments, "relu")) == ["relu", "add", "add"]


# 3.3, semantics


def test_a_recursion_sums_an_array_and_its_condition_alone_is_evaluated_first() -> None:
    fragments = """fragment total( items: scalar[] ) -> ( sum: scalar )
{
    sum = items[0] + total(items = items[1:]) if length_of(items) > 0 else 0.0
}
fragment foo( a: tensor, k: scalar[] ) -> ( b: tensor )
{
    b = a * total(items = k)
}"""
    for values, total in (("[]", 0.0), ("[0.5]", 0.5), ("[1.0,2.0,4.0]", 7.0)):
        network = expanded(f"y = foo(x, k = {values})", fragments)
        assert network.calls[-1].tensors == {"x": "x", "y": total}
        assert network.warnings == ()


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("length_of([1,2] + [3,4])", 4.0),
        ("([1,2] + [3,4])[2]", 3.0),
        ("([1,2] * 2)[2]", 1.0),
        ("length_of([1,2] * 2)", 4.0),
        ("[1,2,3][1]", 2.0),
        ("length_of([1,2,3][0:2])", 2.0),
        ("length_of([1,2,3][:2])", 2.0),
        ("[1,2,3][1:][0]", 2.0),
        ("[1,2,3][1:3][1]", 3.0),
        ("length_of([1,2,3][2:2])", 0.0),
        ("range_of([5,6,7])[2]", 2.0),
        ("range_of('abc')[1]", 1.0),
        ("[i * i for i in [1,2,3]][2]", 9.0),
        ("length_of([i for i in [1,2,3] if i > 1])", 2.0),
        ("[[1,2][i] * [3,4][i] for i in range_of([1,2])][1]", 8.0),
        ("(1, 2)[1]", 2.0),
        ("length_of('ab' + 'c')", 3.0),
        ("length_of('ab' * 3)", 6.0),
        ("1 if 'abc'[1] == 'b' else 0", 1.0),
        ("1 if 'abc'[1:] == 'bc' else 0", 1.0),
        ("1 if string(2.5) == '2.5' else 0", 1.0),
        ("1 if string(true) == 'true' else 0", 1.0),
        ("extent(true)", 1.0),
        ("extent('12')", 12.0),
        ("extent(7.9)", 7.0),
        ("extent(0.0 - 7.9)", -8.0),
        ("1 if logical(0) else 0", 0.0),
        ("1 if logical(3) else 0", 1.0),
        ("1 if logical(0.0) else 0", 0.0),
        ("1 if logical('') else 0", 0.0),
        ("1 if logical('x') else 0", 1.0),
    ],
)
def test_an_expression_of_whole_numbers_has_its_value(expression: str, value: float) -> None:
    assert alpha(f"scalar({expression})") == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("scalar(true)", 1.0),
        ("scalar(false)", 0.0),
        ("scalar('2.5')", 2.5),
        ("scalar(3)", 3.0),
        ("1.0 + 2.0 * 3.0", 7.0),
        ("2.0 ^ 3.0", 8.0),
        ("1.0 if 1.0 < 2.0 && !(2.0 <= 1.0) || false else 0.0", 1.0),
        ("1.0 if 1.0 > 2.0 else 2.0 if 1.0 != 1.0 else 3.0", 3.0),
    ],
)
def test_an_expression_of_scalars_has_its_value(expression: str, value: float) -> None:
    assert alpha(expression) == value


def test_a_chain_of_calls_and_operators_is_the_calls_one_after_the_other() -> None:
    fragments = "fragment foo( a: tensor, c: tensor ) -> ( b: tensor ) { b = add(relu(a), c) + a * c }"
    network = expanded("d = abs(x) y = foo(x, d)", fragments, "relu")
    assert operations(network) == ["abs", "relu", "add", "mul", "add"]


def test_a_tuple_is_unpacked_or_subscripted_alike() -> None:
    unpacked = "fragment foo( a: tensor ) -> ( b: tensor ) { t = (a, relu(a)) p, q = t b = p + q }"
    subscripted = "fragment foo( a: tensor ) -> ( b: tensor ) { t = (a, relu(a)) b = t[0] + t[1] }"
    one, other = (expanded("y = foo(x)", text, "relu") for text in (unpacked, subscripted))
    for network in (one, other):
        assert operations(network) == ["relu", "add"]
        assert network.calls[-1].tensors == {"x": "x", "y": network.calls[1].results[0]}


def test_a_literal_stands_for_a_tensor_of_one_element() -> None:
    network = expanded("y = foo(x)", "fragment foo( a: tensor ) -> ( b: tensor ) { b = add(a, 2.0) }")
    assert network.calls[-1].tensors == {"x": "x", "y": 2.0}


def test_positions_that_a_pool_gives_are_what_desample_takes(tmp_path: Path) -> None:
    path = tmp_path / "pool.nnef"
    window = "size = [1,1,2,2], stride = [1,1,2,2], border = 'ignore'"
    path.write_text(
        f"version 1.0\ngraph net( x ) -> ( y, i, z ) {{ x = external(shape = [1,1,2,4])\n"
        f"y, i = max_pool_with_index(x, {window})\nz = desample(y, i, {window}) }}"
    )
    values = np.float32([[1, 5, 2, 0], [3, 4, 7, 6]])
    top, index, back = npusim.run(path, inputs=[values.reshape(1, 1, 2, 4)]).outputs or ()
    assert top.reshape(-1).tolist() == [5, 7]
    assert index.reshape(-1).tolist() == [1, 6]
    assert back.reshape(2, 4).tolist() == [[0, 5, 0, 0], [0, 0, 7, 0]]


def test_shapes_go_from_externals_through_the_graph_once_they_are_known(tmp_path: Path) -> None:
    path = tmp_path / "open.nnef"
    path.write_text(
        "version 1.0\ngraph net( x ) -> ( y ) { x = external(shape = [0,3]) z = relu(x) y = concat([z, z], axis = 1) }"
    )
    for rows in (1, 5):
        (output,) = (
            npusim.run(path, inputs=[np.ones((rows, 3), np.float32)], sizes={"x": (rows, 3)}).outputs or ()
        )
        assert output.shape == (rows, 6)


def test_a_label_joins_a_variable_and_its_data(tmp_path: Path) -> None:
    from npusim.frontends.nnef.tensor_file import dump

    (tmp_path / "block1").mkdir()
    (tmp_path / "block1/w.dat").write_bytes(dump(np.float32([[1, 2]])))
    (tmp_path / "graph.nnef").write_text(
        "version 1.0\ngraph net( x ) -> ( y )\n{ x = external(shape = [1,2])\n"
        "variable42 = variable(shape = [1,2], label = 'block1/w')\ny = add(x, variable42) }"
    )
    (output,) = npusim.run(tmp_path, inputs=[np.float32([[10, 20]])]).outputs or ()
    assert output.tolist() == [[11, 22]]
