"""What a document becomes: its calls, one line each."""

from __future__ import annotations

import pytest

from npusim.frontends.nnef.call_network import Call, Network
from npusim.frontends.nnef.document import loads
from npusim.frontends.nnef.places import DocumentError
from tests.npusim.frontends.nnef.documents import flat, fragment, own


def shown(call: Call) -> str:
    operands = [
        *map(str, call.tensors.values()),
        *(f"{name}={value}" for name, value in call.attributes.items()),
    ]
    results = ", ".join(result if isinstance(result, str) else str(list(result)) for result in call.results)
    return f"{results} = {call.operation}({', '.join(operands)})".replace("'", "")


def calls(network: Network) -> list[str]:
    """The calls after `external`."""
    return [shown(call) for call in network.calls[1:]]


def expanded(text: str, *whole: str) -> list[str]:
    return calls(loads(text).network(whole))


def test_a_flat_network_is_its_calls_with_all_defaults() -> None:
    network = loads(
        flat("w = variable(shape = [4,4,3,3], label = 'a/w'); z = conv(x, w);y = copy(z);")
    ).network()
    assert [shown(call) for call in network.calls] == [
        "x = external(shape=[1, 4, 8, 8])",
        "w = variable(shape=[4, 4, 3, 3], label=a/w)",
        "z = conv(x, w, 0.0, border=constant, padding=[], stride=[], dilation=[], groups=1)",
        "y = copy(z)",
    ]
    assert (network.name, network.inputs, network.outputs) == ("net", ("x",), ("y",))
    assert network.items == dict.fromkeys("xwzy", "scalar")
    assert network.missing() == ("a/w",)


def test_a_call_knows_where_it_stands() -> None:
    call = loads(flat("\n  y = relu(x);")).network({"relu"}).calls[1]
    assert str(call.place) == "graph.nnef, line 5, column 7"
    assert str(call.fault("S1", "no")).startswith("graph.nnef, line 5, column 7: relu of y: no (rule S1: ")


def test_fragments_are_expanded_and_their_tensors_have_names_of_their_own() -> None:
    text = own(fragment("c = relu(a); b = add(c, a);"), "z = foo(x); y = foo(z);")
    assert expanded(text, "relu") == [
        "z/c = relu(x)",
        "z = add(z/c, x)",
        "y/c = relu(z)",
        "y = add(y/c, z)",
    ]


def test_equal_names_within_one_result_get_numbers() -> None:
    text = own(
        fragment("c = relu(a); b = abs(c);").replace("foo", "bar") + fragment("c = bar(a); b = bar(c);"),
    )
    network = loads(text).network({"relu"})
    assert calls(network) == ["y/c/c = relu(x)", "y/c = abs(y/c/c)", "y/c.2 = relu(y/c)", "y = abs(y/c.2)"]
    assert [name for name, _ in network.calls[1].within] == ["foo", "bar"]


def test_operators_of_tensors_are_operations() -> None:
    body = "y = -x ^ 2.0 * 3.0 - x / 2.0 + 1.0; c = !(x < 1.0 && y >= 2.0 || x == y); z = +x; w = select(c, z, y);"
    text = own("", body).replace("( y )", "( w )")
    assert expanded(text) == [
        "y/y = neg(x)",
        "y/z = pow(y/y, 2.0)",
        "y/z.2 = mul(y/z, 3.0)",
        "y/z.3 = div(x, 2.0)",
        "y/z.4 = sub(y/z.2, y/z.3)",
        "y = add(y/z.4, 1.0)",
        "c/z = lt(x, 1.0)",
        "c/z.2 = ge(y, 2.0)",
        "c/z.3 = and(c/z, c/z.2)",
        "c/z.4 = eq(x, y)",
        "c/z.5 = or(c/z.3, c/z.4)",
        "c = not(c/z.5)",
        "z = copy(x)",
        "w = select(c, z, y)",
    ]


def test_what_is_kept_whole_stays_one_call() -> None:
    text = flat("z = softmax(x); y = leaky_relu(z, alpha = 0.1);")
    assert expanded(text, "softmax", "leaky_relu") == [
        "z = softmax(x, axes=[1])",
        "y = leaky_relu(z, alpha=0.1)",
    ]
    assert expanded(text, "softmax", "prelu") == ["z = softmax(x, axes=[1])", "y = prelu(z, 0.1)"]
    assert expanded(text)[-3:] == ["y/z = lt(z, 0.0)", "y/z.2 = mul(0.1, z)", "y = select(y/z, y/z.2, z)"]


def test_a_fragment_of_the_document_may_be_kept_whole() -> None:
    assert expanded(own(fragment("b = max(min(a, 6.0), 0.0);")), "foo") == ["y = foo(x)"]


def test_a_fragment_without_a_body_is_a_call() -> None:
    text = own(
        "fragment foo( a: tensor<scalar>, k: integer = 3 ) -> ( b: tensor<scalar>, c: tensor<logical>[] );",
        "y, [p, q] = foo(x);",
    )
    network = loads(text).network()
    assert calls(network) == ["y, [p, q] = foo(x, k=3)"]
    assert network.items["p"] == "logical"


def test_an_alias_of_a_tensor_becomes_a_copy_in_the_graph_only() -> None:
    text = own(fragment("c = a; b = c;"), "z = foo(x); y = relu(z);")
    assert expanded(text, "relu") == ["z = copy(x)", "y = relu(z)"]
    text = own(fragment("c = a; b = relu(c);"))
    assert expanded(text, "relu") == ["y = relu(x)"]


def test_a_literal_result_becomes_a_constant() -> None:
    assert expanded(own(fragment("b = 2.5;"))) == ["y = constant(shape=[1], value=[2.5])"]


def test_arrays_are_unpacked_with_the_names_of_the_left_side() -> None:
    text = flat(
        "[a, b] = split(x, axis = 1, ratios = [1,3]); m, v = moments(a, axes = [2]); y = concat([m, v, b], axis = 1);"
    )
    assert expanded(text, "moments") == [
        "[a, b] = split(x, axis=1, ratios=[1, 3])",
        "m, v = moments(a, axes=[2])",
        "y = concat((m, v, b), axis=1)",
    ]


def test_an_array_of_tensors_goes_through_a_fragment() -> None:
    text = own(fragment("v = split(a, axis = 1, ratios = [1,1,2]); b = add_n([for i in v yield relu(i)]);"))
    assert expanded(text, "relu", "add_n") == [
        "[y/values, y/values.2, y/values.3] = split(x, axis=1, ratios=[1, 1, 2])",
        "y/y = relu(y/values)",
        "y/y.2 = relu(y/values.2)",
        "y/y.3 = relu(y/values.3)",
        "y = add_n((y/y, y/y.2, y/y.3))",
    ]


def test_copy_n_and_add_n_are_made_of_others() -> None:
    text = flat("[p, q] = copy_n(x, times = 2); y = add_n([p, q, x]);")
    sums = ["y/add_n.2/y = add(q, x)", "y = add(p, y/add_n.2/y)"]
    assert expanded(text) == ["p = copy(x)", "q = copy(x)", *sums]


def test_recursion_ends_where_its_condition_says() -> None:
    text = own(
        fragment("b = foo(relu(a), n = n - 1) if n > 0 else a;", "a: tensor<scalar>, n: integer"),
        "y = foo(x, n = 3);",
    )
    assert len(expanded(text, "relu")) == 4  # three of relu, and the copy that gives the last its name


@pytest.mark.slow
def test_a_deep_recursion_is_expanded_and_an_endless_one_refused() -> None:
    recursive = fragment("b = foo(relu(a), n = n - 1) if n != 0 else a;", "a: tensor<scalar>, n: integer")
    assert len(expanded(own(recursive, "y = foo(x, n = 990);"), "relu")) == 991
    with pytest.raises(
        DocumentError, match=r"'foo' is the 1001st fragment within another; in 'foo', called at line 6"
    ):
        expanded(own(recursive, "y = foo(x, n = -1);"), "relu")


def test_defaults_and_names_of_arguments() -> None:
    text = own(
        fragment(
            "b = scale * (neg(a) if turned else a);",
            "a: tensor<scalar>, scale: scalar = 2.0, turned: logical = false",
        ),
        "p = foo(x); q = foo(turned = true, a = p); y = foo(q, scale = 3.0);",
    )
    assert expanded(text) == ["p = mul(2.0, x)", "q/y = neg(p)", "q = mul(2.0, q/y)", "y = mul(3.0, q)"]


GENERIC = (
    ("external(shape = [1])", "scalar"),
    ("external<logical>(shape = [1])", "logical"),
    ("constant(shape = [1], value = [1])", "integer"),
    ("constant<integer>(shape = [1], value = [1])", "integer"),
    ("constant(shape = [1], value = [true])", "logical"),
    ("constant(shape = [1], value = [])", "scalar"),
    ("cast<integer>(x)", "integer"),
    ("select(true, 1, 2)", "integer"),
    ("copy(lt(x, 0.0))", "logical"),
)


@pytest.mark.parametrize(("call", "item"), GENERIC)
def test_what_a_generic_operation_holds(call: str, item: str) -> None:
    text = own("", f"z = {call}; y = relu(x);")
    if call.startswith("external"):
        text = text.replace("( x )", "( x, z )")
    network = loads(text).network({"relu"})
    assert network.items["z"] == item
    assert network.calls[-2].item == item


def test_a_generic_fragment_binds_its_type_at_each_call() -> None:
    body = "fragment foo<?>( a: tensor<?> ) -> ( b: tensor<?> ) { c = copy<?>(a); b = concat([c, a], axis = 0); }"
    network = loads(own(body, "p = lt(x, 0.0); q = foo(p); y = foo(x);")).network()
    assert [network.items[name] for name in ("q", "q/c", "y", "y/c")] == [
        "logical",
        "logical",
        "scalar",
        "scalar",
    ]


def test_variables_may_share_a_label() -> None:
    body = "a = variable(shape = [1], label = 'w'); b = variable(shape = [1], label = 'w'); y = add(a, b);"
    network = loads(flat(body)).network()
    assert {name: variable.label for name, variable in network.variables.items()} == {"a": "w", "b": "w"}
    assert network.missing() == ("w",)


def test_update_is_a_call_with_its_variable() -> None:
    body = "w = variable(shape = [1], label = 'w'); y = add(w, x); u = update(w, y);"
    assert expanded(flat(body))[-1] == "u = update(w, y)"


def test_shapes_are_asked_for_only_where_a_document_needs_them() -> None:
    asked: list[str] = []

    def infer(call: Call, shapes: dict[str, tuple[int, ...]]) -> None:
        asked.append(call.operation)
        shapes.update(dict.fromkeys(call.result_names(), (1, 4, 8, 8)))

    text = own(fragment("c = relu(a); v = unstack(c, axis = 1); b = stack(v, axis = 1);"))
    network = loads(text).network({"relu"}, infer)  # type: ignore[arg-type]
    assert asked == ["external", "relu"]
    assert len(network.calls[2].result_names()) == 4
    text = own(fragment("b = reshape(a, shape = [shape_of(a)[1], -1]);"))
    assert loads(text).network(infer=infer).calls[-1].attributes["shape"] == [4, -1]  # type: ignore[arg-type]
    with pytest.raises(DocumentError, match="the shape of x is needed before shapes are known"):
        loads(text).network()
    assert loads(own(fragment("b = reshape(a, shape = shape_of(1.0));"))).network().calls[-1].attributes[
        "shape"
    ] == [1]


def test_white_space_and_comments_stand_anywhere() -> None:
    text = (
        "# first\nversion\t1.0 ; # of the document\ngraph net(x)->(y){x=external(shape=[1# one\n,\f4\v]);\r\n"
    )
    text += "y\r=relu(x);}# end"
    assert expanded(text, "relu") == ["y = relu(x)"]
