"""Documents that ask for more than there is: one line, soon, in little memory. And how long a large one takes."""

from __future__ import annotations

import sys
import threading
import tracemalloc

import pytest

from npusim.frontends.nnef.document import loads
from npusim.frontends.nnef.places import DocumentError
from tests.examples import tried
from tests.npusim.frontends.nnef.documents import flat, fragment, own, provisional
from tests.yardstick import cost


def doubling(kind: str, call: str) -> str:
    """Fragments of which each calls the one before it twice."""
    first = f"fragment f0( a: {kind} ) -> ( b: {kind} ) {{ b = a + a; }}\n"
    rest = (
        f"fragment f{index}( a: {kind} ) -> ( b: {kind} ) {{ b = f{index - 1}(a = f{index - 1}(a = a)); }}\n"
        for index in range(1, 60)
    )
    return own(first + "".join(rest), call)


LARGE = (
    (own("", f"y = relu({'(' * 10000}x{')' * 10000});"), "brackets are nested deeper than 64 levels"),
    (own("", f"y = relu({'[' * 10000}x{']' * 10000});"), "brackets are nested deeper than 64 levels"),
    (own("", f"y = {'relu(' * 10000}x{')' * 10000};"), "brackets are nested deeper than 64 levels"),
    (flat(f"y = relu({'[' * 10000}x{']' * 10000});"), "brackets are nested deeper than 64 levels"),
    (flat(f"{'[' * 10000}x{']' * 10000} = relu(x);"), "brackets are nested deeper than 64 levels"),
    (own(fragment("b = a;", f"a: {'(' * 10000}integer")), "brackets are nested deeper than 64 levels"),
    (own(fragment("b = a;", f"a: integer{'[]' * 10000}")), "a type is nested deeper than 64 levels"),
    (own(fragment(f"b = a{'[0]' * 10000};")), "more than 64 subscripts in a row"),
    (
        provisional("y = relu(x)", f"fragment foo( a: tensor ) -> ( b: tensor ) {{ b = a{'[a]' * 10000} }}"),
        "more than 64 subscripts in a row",
    ),
    (flat(f"y = mul(x, {'9' * 100000});"), "a number of 100000 characters; at most 400 are read"),
    (flat(f"y = mul(x, {'9' * 100000}.5);"), "at most 400 are read"),
    (flat(f"y = reshape(x, shape = [{'9' * 100000}]);"), "at most 400 are read"),
    (flat("y = mul(x, 1e999999999);"), "beyond the largest number"),
    (own("", "y = add_n(copy_n(x, times = 1000000000));"), "at most 1,048,576 are made"),
    (own("", "y = add_n(split(x, axis = 1, ratios = [1] * 1000000));"), "at most 16,384 are made"),
    (own("", "y = reshape(x, shape = [1] * 1000 * 1000 * 1000);"), "at most 1,048,576 are made"),
    (
        own(fragment("".join(f"k{i} = [1] * 1000000;" for i in range(9)) + "b = a;")),
        "more than 3,000,000 expressions",
    ),
    (
        own(fragment("k = [1] * 1000000; m = [for i in k yield [for j in k yield i]]; b = a;")),
        "more than 3,000,000",
    ),
    (own(fragment("b = foo(a);")), "'foo' is the 1001st fragment within another"),
    (
        own(
            fragment(f"b = {'(1 + ' * 60}foo(a = a){')' * 60};", "a: integer", "b: integer"),
            "y = tile(x, repeats = [foo(a = 1)]);",
        ),
        "fragments and expressions nest too deeply",
    ),
    (doubling("tensor<scalar>", "y = f59(x);"), "the document expands to more than 16,384 operations"),
    (doubling("integer", "y = tile(x, repeats = [f59(a = 0)]);"), "more than 3,000,000 expressions"),
)


@pytest.mark.slow
@pytest.mark.cases(6)
@pytest.mark.parametrize(("text", "words"), LARGE, ids=range(len(LARGE)))
def test_what_is_too_much_is_refused(text: str, words: str) -> None:
    limit = sys.getrecursionlimit()
    with pytest.raises(DocumentError) as raised:
        loads(text).network({"relu"})
    message = str(raised.value)
    assert words in message
    assert message.startswith("graph.nnef, line ")
    assert len(message.splitlines()) == 1
    assert len(message) < 400
    assert sys.getrecursionlimit() == limit


def test_little_stack_left_is_a_refusal_too() -> None:
    text = own("", f"y = relu({'(' * 60}x{')' * 60});")

    def below(frames: int) -> str:
        if frames:
            return below(frames - 1)
        try:
            loads(text)
        except DocumentError as fault:
            return str(fault)
        return ""

    left = sys.getrecursionlimit() - len_of_stack() - 60
    assert "too deeply for what is left of the stack" in below(left)


def len_of_stack() -> int:
    frame, count = sys._getframe(), 0
    while frame.f_back is not None:
        frame, count = frame.f_back, count + 1
    return count


@pytest.mark.slow
def test_a_long_array_takes_memory_like_its_text() -> None:
    text = flat(f"z = constant(shape = [100000], value = [{'1.5,' * 99_999}1.5]); y = relu(x);")
    tracemalloc.start()
    network = loads(text).network({"relu"})
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(network.calls[1].attributes["value"]) == 100_000  # type: ignore[arg-type]
    assert peak_bytes < 20 << 20


def network_text(layers: int) -> str:
    lines = ["c0 = copy(x);"]
    for index in range(layers):
        lines.append(f"k{index} = variable(shape = [4, 4, 3, 3], label = 'layer{index}/kernel');")
        lines.append(
            f"d{index} = conv(c{index}, k{index}, 0.0, padding = [(1,1), (1,1)], border = 'constant',"
            " stride = [1, 1], dilation = [1, 1], groups = 1);"
        )
        lines.append(f"c{index + 1} = relu(d{index});")
    return flat("\n".join([*lines, f"y = copy(c{layers});"]))


@pytest.mark.slow
def test_time_grows_with_the_number_of_operations() -> None:
    def read(layers: int) -> None:
        assert len(loads(network_text(layers)).network({"relu"}).calls) == 3 * layers + 3

    few, many = 10, 150
    assert cost(lambda: read(85), few, 3) < few  # 255 operations: 0.02 s where the yardstick takes 0.01 s
    assert cost(lambda: read(1667), many, 2) < many  # 5,000 operations: 0.35 s


@pytest.mark.slow
def test_threads_expand_at_the_same_time() -> None:
    text = own(
        fragment("b = foo(relu(a), n = n - 1) if n != 0 else a;", "a: tensor<scalar>, n: integer"),
        "y = foo(x, n = 980);",
    )
    limit = sys.getrecursionlimit()
    lengths: list[int] = []
    rounds = tried(3, 10)

    def work() -> None:
        lengths.extend(len(loads(text).network({"relu"}).calls) for _ in range(rounds))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lengths == [982] * 4 * rounds
    assert sys.getrecursionlimit() == limit
