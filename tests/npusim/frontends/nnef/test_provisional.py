"""The provisional dialect: a document in it, and the calls of the same document in the final one."""

from __future__ import annotations

from pathlib import Path

import pytest

import npusim
from npusim.frontends.frontend import ModelWarning
from npusim.frontends.nnef.call_network import Network
from npusim.frontends.nnef.document import loads
from npusim.frontends.nnef.places import DocumentError
from tests.npusim.frontends.nnef.documents import flat, fragment, own, provisional

FOO_OF_ARRAY = "a: tensor<scalar>, v: scalar[], n: integer"

PAIRS = (
    ("y = relu(x)", flat("y = relu(x);"), ""),
    ("y = relu(x);", flat("y = relu(x);"), ""),
    ("a = relu(x) y = neg(a)", flat("a = relu(x); y = neg(a);"), ""),
    (
        "m, v = moments(x, axes = [2]) y = add(m, v)",
        flat("m, v = moments(x, axes = [2]); y = add(m, v);"),
        "",
    ),
    (
        "a = relu(x)\n(m, v) = moments(a, axes = [2])\ny = add(m, v)",
        flat("a = relu(x); (m, v) = moments(a, axes = [2]); y = add(m, v);"),
        "",
    ),
    (
        "a = relu(x)\n[p, q] = split(a, axis = 1, ratios = [1,1])\ny = add(p, q)",
        flat("a = relu(x); [p, q] = split(a, axis = 1, ratios = [1,1]); y = add(p, q);"),
        "",
    ),
    ("y = transpose(x, perm = [0,2,3,1])", flat("y = transpose(x, axes = [0,2,3,1]);"), ""),
    ("y = transpose(x, axes = [0,2,3,1])", flat("y = transpose(x, axes = [0,2,3,1]);"), ""),
    ("y = matmul(x, x, trA = true)", flat("y = matmul(x, x, transposeA = true);"), ""),
    ("extension = relu(x) y = copy(extension)", flat("extension0 = relu(x); y = copy(extension0);"), ""),
    (
        "y = foo(x, size = [2,1,1,1])",
        own(
            fragment("b = tile(a, repeats = size);", "a: tensor<scalar>, size: integer[]"),
            "y = foo(x, size = [2,1,1,1]);",
        ),
        "fragment foo( a: tensor, size: extent[] ) -> ( b: tensor ) { b = tile(a, repeats = size) }",
    ),
    (
        "y = foo(x)",
        own(fragment("c = a; p, q = moments(c, axes = [1]); b = p + q;")),
        "fragment foo( a: tensor ) -> ( b: tensor ) { c = a\n(p, q) = moments(c, axes = [1])\nb = p + q }",
    ),
    (
        "y = foo(x)",
        own(fragment("c = a; [p, q] = split(c, axis = 1, ratios = [1,1]); b = p + q;")),
        "fragment foo( a: tensor ) -> ( b: tensor ) { c = a\n[p, q] = split(c, axis = 1, ratios = [1,1])\nb = p + q }",
    ),
    (
        "y = foo(x)",
        own(fragment("c = [a, relu(a)]; p, q = c[0], c[1]; b = p + q;")),
        "fragment foo( a: tensor ) -> ( b: tensor ) { c = [a, relu(a)]\np, q = c[0], c[1]\nb = p + q }",
    ),
    (
        "y = foo(x)",
        own(fragment("c = relu(a); b = tanh(c);")),
        "fragment foo( a: tensor ) -> ( b: tensor ) { c = relu(a)\nb = tanh(c) }",
    ),
    (
        "y = foo(x)",
        own(fragment("c = relu(a); [p, q] = split(c, axis = 1, ratios = [1,1]); b = p + q;")),
        "fragment foo( a: tensor ) -> ( b: tensor )"
        " { c = relu(a)\n[p, q] = split(c, axis = 1, ratios = [1,1])\nb = p + q }",
    ),
    (
        "y = foo(x)",
        own(fragment("c = relu(a); (p, q), r = moments(c, axes = [1]), a; b = p + q * r;")),
        "fragment foo( a: tensor ) -> ( b: tensor )"
        " { c = relu(a)\n(p, q), r = moments(c, axes = [1]), a\nb = p + q * r }",
    ),
    (
        "y = foo(x, v = [1.0,2.0], n = 1)",
        own(
            fragment("p = v[n]; q = v[0]; [c, d] = [a * p, a * q]; b = c + d;", FOO_OF_ARRAY),
            "y = foo(x, v = [1.0,2.0], n = 1);",
        ),
        "fragment foo( a: tensor, v: scalar[], n: extent ) -> ( b: tensor )"
        " { p = v[n]\nq = v[0] [c, d] = [a * p, a * q]\nb = c + d }",
    ),
    (
        "y = foo(x, v = [1.0,2.0], n = 1)",
        own(
            fragment("b = relu(a) if n > (n) else a;", FOO_OF_ARRAY),
            "y = foo(x, v = [1.0,2.0], n = 1);",
        ),
        "fragment foo( a: tensor, v: scalar[], n: extent ) -> ( b: tensor ) { b = relu(a) if n > (n) else a }",
    ),
    (
        "y = foo(x)",
        own(fragment("b = relu(a);").replace("foo", "bar") + fragment("b = bar(a);")),
        "fragment foo( a: tensor ) -> ( b: tensor ) { b = bar(a) }"
        " fragment bar( a: tensor ) -> ( b: tensor ) { b = relu(a) }",
    ),
    (
        "y = foo(x, k = [1.0,2.0,3.0])",
        own(
            fragment(
                "b = concat([for i in k if i > 1.0 yield a * i], axis = 1);", "a: tensor<scalar>, k: scalar[]"
            ),
            "y = foo(x, k = [1.0,2.0,3.0]);",
        ),
        "fragment foo( a: tensor, k: scalar[] ) -> ( b: tensor )"
        " { b = concat([a * i for i in k if i > 1.0], axis = 1) }",
    ),
    (
        "y = foo(x, k = 2.9)",
        own(
            fragment("b = tile(a, repeats = [1,1,1,integer(k)]);", "a: tensor<scalar>, k: scalar"),
            "y = foo(x, k = 2.9);",
        ),
        "fragment foo( a: tensor, k: scalar ) -> ( b: tensor ) { b = tile(a, repeats = [1,1,1,extent(k)]) }",
    ),
    (
        "y = foo(x)",
        own(fragment("b = select(a < 0.0, a, relu(a));")),
        "fragment foo( a: tensor ) -> ( b: tensor ) { b = select(a < 0.0, a, relu(a)) }",
    ),
)


def calls(network: Network) -> list[object]:
    return [
        (call.operation, call.results, call.tensors, call.attributes, call.item) for call in network.calls
    ]


@pytest.mark.parametrize(("body", "final", "fragments"), PAIRS)
def test_both_dialects_say_the_same(body: str, final: str, fragments: str) -> None:
    network = loads(provisional(body, fragments)).network({"relu", "moments"})
    expected = str(calls(loads(final).network({"relu", "moments"}))).replace("extension0", "extension")
    assert str(calls(network)) == expected
    assert network.warnings == ()


def test_an_assignment_ends_in_front_of_the_next_left_side() -> None:
    """Whatever stands in front of a bracket, the call or subscript that it closes keeps it."""
    rights = ("relu(a)", "a", "(a)", "v[n] * a", "a * v[1]", "relu(a) if n > (n) else a", "[a, a][n]", "-a")
    lefts = ("p", "[p, q]", "(p, q)", "p, q", "[p], q")
    gives = {"p": "a", "[p, q]": "[a, a]", "(p, q)": "(a, a)", "p, q": "a, a", "[p], q": "[a], a"}
    for right in rights:
        for left in lefts:
            body = f"c = {right}{{}}{left} = {gives[left]}{{}}b = c + p"
            documents = [
                provisional(
                    "y = foo(x, v = [1.0,2.0], n = 1)",
                    f"fragment foo( a: tensor, v: scalar[], n: extent ) -> ( b: tensor ) {{ {text} }}",
                )
                for text in (body.format("\n", "\n"), body.format("; ", "; "))
            ]
            without, beside = (calls(loads(document).network({"relu"})) for document in documents)
            assert str(without) == str(beside), body


SUM_OF = """fragment sum_of( items: scalar[] ) -> ( sum: scalar )
{
    sum = items[0] + sum_of(items[1:]) if length_of(items) > 0 else 0.0
}
fragment foo( a: tensor, k: scalar[] ) -> ( b: tensor )
{
    b = a * sum_of(k)
}"""


def test_the_texts_own_example_passes_an_array_by_position_and_is_warned_of() -> None:
    network = loads(provisional("y = foo(x, k = [1.0,2.0,4.0])", SUM_OF)).network()
    assert network.calls[-1].tensors == {"x": "x", "y": 7.0}
    assert network.warnings == (
        "line 4: 'items' of 'sum_of' is an attribute; write items = ...",
        "line 8: 'items' of 'sum_of' is an attribute; write items = ...",
    )


BARFOO = """version 1.0

fragment foo( input: tensor, size: extent[] = [1] ) -> ( output: tensor )

fragment bar( input: tensor, alpha: scalar = 0.5 )
-> ( output: tensor, extra: tensor[] )

graph barfoo( input ) -> ( output )
{
    input = external(shape = [1,10])
    intermediate, extra = bar(input, alpha = 2)
    output = foo(intermediate, size = [3,5])
}
"""


def test_the_texts_own_graph_gives_an_integer_for_a_scalar_and_is_warned_of() -> None:
    network = loads(BARFOO).network()
    assert [call.operation for call in network.calls] == ["external", "bar", "foo"]
    assert network.calls[1].attributes == {"alpha": 2.0}
    assert network.calls[2].attributes == {"size": [3, 5]}
    assert network.warnings == (
        "line 11: integer 2 for a scalar; write 2.0",
        "line 11: 'extra' is assigned an array, tensor[]; write [a, b] = ...",
    )


def test_an_array_under_one_name_is_read_by_nothing() -> None:
    for text, place in (
        (BARFOO.replace("foo(intermediate", "foo(extra"), "line 12, column 18: 'extra' is an array"),
        (
            BARFOO.replace("-> ( output )\n{", "-> ( output, extra )\n{"),
            "line 13, column 1: result 'extra' of the graph is an array",
        ),
    ):
        with pytest.raises(DocumentError, match=place):
            loads(text)
    network = loads(provisional("v = split(x, axis = 1, ratios = [1,1])\ny = relu(x)")).network({"relu"})
    assert network.calls[1].results == (("v/values", "v/values.2"),)
    assert network.warnings == ("line 5: 'v' is assigned an array, tensor<scalar>[]; write [a, b] = ...",)


def test_a_fragment_may_hold_a_variable() -> None:
    fragments = (
        "fragment foo( a: tensor ) -> ( b: tensor ) { w = variable(shape = [1], label = 'w') b = a + w }"
    )
    network = loads(provisional("z = foo(x) y = foo(z)", fragments)).network()
    assert [(variable.name, variable.label) for variable in network.variables.values()] == [
        ("z/w", "w"),
        ("y/w", "w"),
    ]


def test_shape_of_gives_at_least_two_extents() -> None:
    fragments = "fragment foo( a: tensor ) -> ( b: tensor ) { b = reshape(a, shape = shape_of(1.0)) }"
    assert loads(provisional("y = foo(x)", fragments)).network().calls[-1].attributes["shape"] == [1, 1]


def test_warnings_of_a_document_go_with_its_graph(tmp_path: Path) -> None:
    (tmp_path / "net.nnef").write_text(provisional("y = leaky_relu(x, alpha = 2)"))
    with pytest.warns(ModelWarning, match=r"net\.nnef: line 5: integer 2 for a scalar; write 2\.0"):
        graph = npusim.load(tmp_path / "net.nnef")
    assert graph.notes == ("line 5: integer 2 for a scalar; write 2.0",)
