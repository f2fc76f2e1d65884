"""Values of attribute expressions: a = 7.0, n = 5, t = true, s = 'abc', v = [1,2,3], w = [0.5,1.5], p = (4,2.5)."""

from __future__ import annotations

from typing import Any

import pytest

from npusim.frontends.nnef.document import loads
from npusim.frontends.nnef.places import DocumentError
from tests.npusim.frontends.nnef.documents import own, valued

SCALARS: tuple[tuple[str, float], ...] = (
    # What binds tighter: the Khronos parser takes all that follows a sign or ! for its operand.
    ("-a", -7.0),
    ("-a - 2.0", -9.0),
    ("-a + 2.0", -5.0),
    ("-a * 2.0", -14.0),
    ("-a ^ 2.0", 49.0),
    ("-(a ^ 2.0)", -49.0),
    ("--a", 7.0),
    ("+a", 7.0),
    ("-+-a", 7.0),
    ("2.0 ^ -1.0", 0.5),
    ("a - 2.0 - 2.0", 3.0),
    ("a - (2.0 - 2.0)", 7.0),
    ("a / 2.0 / 2.0", 1.75),
    ("2.0 ^ 3.0 ^ 2.0", 64.0),
    ("a * 2.0 + 1.0", 15.0),
    ("1.0 + a * 2.0", 15.0),
    ("a + 2.0 * 3.0 ^ 2.0 - 1.0", 24.0),
    ("(1.0 + a) * 2.0", 16.0),
    ("1.0 if !t || t else 0.0", 1.0),
    ("1.0 if !t && !t || t else 0.0", 1.0),
    ("1.0 if t || t && false else 0.0", 1.0),
    ("1.0 if !(t || t) else 0.0", 0.0),
    ("1.0 if 1.0 + a > 7.5 && a < 8.0 else 0.0", 1.0),
    ("1.0 if a >= 7.0 else 0.0", 1.0),
    ("1.0 if a <= 6.5 else 0.0", 0.0),
    ("1.0 if a != 7.0 else 0.0", 0.0),
    ("1.0 if a == 1.0 else 2.0 if t else 3.0", 2.0),
    ("1.0 if a == 1.0 else 2.0 if !t else 3.0", 3.0),
    ("(1.0 if t else 2.0) + 1.0", 2.0),
    ("1.0 + 1.0 if t else 5.0", 2.0),
    # only the branch that is chosen has a value
    ("1.0 if t else w[77]", 1.0),
    ("w[77] if !t else 1.0", 1.0),
    ("1.0 / 0.0 if !t else 1.0", 1.0),
    ("w[0] + w[1]", 2.0),
    ("p[1]", 2.5),
    ("(1.5, 2)[0]", 1.5),
    ("(w + [9.0])[2]", 9.0),
    ("(w * 2)[3]", 1.5),
    ("w[1:][0]", 1.5),
    ("[for x1 in w if x1 > 1.0 yield x1 * 2.0][0]", 3.0),
    ("[for x1 in w, k in pairs yield x1 * scalar(k[1])][1]", 6.0),
    ("scalar(t)", 1.0),
    ("scalar(false)", 0.0),
    ("scalar(3)", 3.0),
    ("scalar('2.5e1')", 25.0),
    ("scalar('12')", 12.0),
    ("scalar(a)", 7.0),
    ("0.1e1", 1.0),
    ("1E2", 100.0),
)

INTEGERS: tuple[tuple[str, int], ...] = (
    ("n", 5),
    ("-n / 2", -2),
    ("n / -2", -2),
    ("-n / -2", 2),
    ("n / 2 * 2", 4),
    ("n ^ 2", 25),
    ("2 ^ -1", 0),
    ("(0 - 1) ^ 1000000001", -1),
    ("1 ^ 1000000000", 1),
    ("0 ^ 0", 1),
    ("2 ^ 62", 1 << 62),
    ("length_of(v)", 3),
    ("length_of(s)", 3),
    ("length_of(e)", 0),
    ("length_of('')", 0),
    ("length_of(v[2:2])", 0),
    ("length_of(v[2:1])", 0),
    ("length_of(v[:])", 3),
    ("length_of(v[:2])", 2),
    ("length_of(v + v)", 6),
    ("length_of(v * 0)", 0),
    ("length_of([1] * n + [2])", 6),
    ("length_of(s * 2 + s)", 9),
    ("length_of(string(a))", 3),
    ("length_of([for i in v if i > 5 yield i])", 0),
    ("length_of(names + [])", 2),
    ("range_of(v)[2]", 2),
    ("range_of(s)[1]", 1),
    ("[for i in range_of(v) yield v[i] * i][2]", 6),
    ("[for i in v yield [for j in v yield i * j]][2][1]", 6),
    ("pairs[1][0]", 3),
    ("p[0]", 4),
    ("integer(t)", 1),
    ("integer(a)", 7),
    ("integer(7.9)", 7),
    ("integer(-7.9)", -8),
    ("integer('12')", 12),
    ("integer('-3')", -3),
    ("integer(logical(0))", 0),
    ("integer(logical(-2))", 1),
    ("integer(logical(0.0))", 0),
    ("integer(logical(''))", 0),
    ("integer(logical('false'))", 1),
    ("integer(s == 'abc')", 1),
    ("integer(s != 'abc')", 0),
    ("integer(s[1] == 'b')", 1),
    ("integer(s[1:3] == 'bc')", 1),
    ("integer(s < 'abd')", 1),
    ("integer(s <= 'ab')", 0),
    ("integer(s > 'ab')", 1),
    ("integer('b' >= s)", 1),
    ("integer(v == [1,2,3])", 1),
    ("integer(v != [1,2])", 1),
    ("integer(e == [])", 1),
    ("integer(p == (4,2.5))", 1),
    ("integer(t == false)", 0),
    ("integer(2 in v)", 1),
    ("integer(9 in v)", 0),
    ("integer('v' in names)", 1),
    ("integer((3,4) in pairs)", 1),
    ("integer(string(true) == 'true')", 1),
    ("integer(string(5) == '5')", 1),
    ("integer(string(1.0) == '1.0')", 1),
    ("9223372036854775807", (1 << 63) - 1),
)


def value(text: str) -> Any:
    return loads(text).network({"leaky_relu"}).calls[-1].attributes["alpha"]


@pytest.mark.parametrize(("expression", "expected"), SCALARS)
def test_a_scalar_expression_has_its_value(expression: str, expected: float) -> None:
    result = value(valued(expression))
    assert (result, type(result)) == (expected, float)


@pytest.mark.parametrize(("expression", "expected"), INTEGERS)
def test_an_integer_expression_has_its_value(expression: str, expected: int) -> None:
    parameters = (
        "x: tensor<scalar>, a: scalar, n: integer, t: logical, s: string, v: integer[], p: (integer,scalar),"
        " e: integer[], names: string[], pairs: (integer,integer)[]"
    )
    given = "a = 7.0, n = 5, t = true, s = 'abc', v = [1,2,3], p = (4,2.5), e = [], names = ['u','v']"
    body = f"y = reshape(x, shape = [{expression}]);"
    text = own(
        f"fragment foo( {parameters} ) -> ( y: tensor<scalar> ) {{ {body} }}",
        f"y = foo(x, {given}, pairs = [(1,2),(3,4)]);",
    )
    (result,) = loads(text).network().calls[-1].attributes["shape"]  # type: ignore[misc, union-attr]
    assert (result, type(result)) == (expected, int)


def test_a_long_chain_and_many_signs_need_no_deep_stack() -> None:
    assert value(valued("1.0" + " + 1.0" * 5000)) == 5001.0
    assert value(valued("-" * 5001 + "a")) == -7.0
    assert value(valued("0.0 if !t else " * 3000 + "1.0")) == 1.0


OUTSIDE = (
    ("w[2]", "index 2 is outside of 2 items"),
    ("w[0 - 1]", "index -1 is outside of 2 items"),
    ("w[3:][0]", "range 3:2 is outside of 2 items"),
    ("w[0 - 1:][0]", "range -1:2 is outside"),
    ("1.0 / (a - a)", "'/': division by zero"),
    ("1e200 * 1e200", "beyond the largest number"),
    ("10.0 ^ 1000000.0", "beyond the largest number"),
    ("0.0 ^ -1.0", "division by zero"),
    ("scalar(2 ^ 63)", "does not fit 64 bits"),
    ("scalar(9 ^ 9 ^ 9 ^ 9)", "does not fit 64 bits"),
    ("scalar(-(0 - 9223372036854775807 - 1))", "does not fit 64 bits"),
    ("scalar('1.')", "'1.' is no literal of type scalar"),
    ("scalar('inf')", "'inf' is no literal"),
    ("scalar(integer(1e300))", "does not fit 64 bits"),
    ("([1.0] * -1)[0]", "it repeats -1 times"),
    ("([1.0] * 9000000000)[0]", "at most 1,048,576 are made"),
    ("scalar(length_of('x' * 9000000))", "at most 1,048,576 are made"),
)


@pytest.mark.parametrize(("expression", "words"), OUTSIDE)
def test_an_expression_without_a_value_is_refused(expression: str, words: str) -> None:
    with pytest.raises(DocumentError) as raised:
        value(valued(expression))
    assert words in str(raised.value)
    assert "called at line" in str(raised.value)
