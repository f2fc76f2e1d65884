"""Expressions: what they compute, and everything they refuse."""

from __future__ import annotations

import pickle

import pytest

from npusim.study.expression import ExpressionError, parse

KNOWN = ("clock_mhz", "mac_array.rows", "mac_array.columns", "mac_array.dataflow", "host.clock_mhz")
NAMES = {"clock_mhz": 500.0, "mac_array.rows": 16, "mac_array.columns": 8, "mac_array.dataflow": "both"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("mac_array.rows * mac_array.columns", 128),
        ("mac_array.rows * mac_array.columns <= 128 and clock_mhz < 600", True),
        ("not mac_array.rows == mac_array.columns or 1 > 2", True),
        ("8 <= mac_array.rows <= 12", False),
        ("mac_array.dataflow in ['both', 'weight_stationary']", True),
        ("mac_array.dataflow == 'output_stationary'", False),
        ("max(mac_array.rows, 2 ** 5) // 3 + -1 % 4", 13),
        ("log2(mac_array.rows) if clock_mhz > 400 else 0", 4.0),
        ("ceil(mac_array.rows / 5)", 4),
    ],
)
def test_values(text: str, value: object) -> None:
    assert parse(text, KNOWN)(NAMES) == value


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("mac_array.row * 2", "mac_array.row: no parameter has this name, did you mean mac_array.rows?"),
        ("rows", "rows: no parameter has this name, did you mean mac_array.rows?"),
        ("__import__('os')", "__import__('os'): not allowed here"),
        ("(1).real", "1 .real: no parameter has this name"),
        ("mac_array.rows.__class__", "no parameter has this name"),
        ("[x for x in (1, 2)]", "not allowed here"),
        ("lambda: 1", "not allowed here"),
        ("'a'.join(['b'])", "not allowed here"),
        ("min(*[1, 2])", "not allowed here"),
        ("round(1.5, ndigits=1)", "not allowed here"),
        ("f'{clock_mhz}'", "not allowed here"),
        ("1 is 1", "not allowed here; compare with"),
        ("1 <", "1 <: invalid syntax"),
        ("1j", "not allowed here"),
        ("-" * 900 + "1", "nested too deeply"),
        ("+".join("1" * 200), "nested too deeply"),
        ("1 < 9e999", "a number beyond 1e+100"),
        ("1 < 1" + "0" * 500, "a number beyond 1e+100"),
        ("1 < 2\0", "null bytes"),
        ("1 << 2", "not allowed here"),
        ("1 + " * 300 + "1", "longer than 1000 characters"),
    ],
)
def test_refused(text: str, fault: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text, KNOWN)
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("1 / (mac_array.rows - 16)", "division by zero"),
        ("9 ** 9 ** 9", "an exponent beyond 64"),
        ("1e99 * 1e99", "too large"),
        ("(0 - 8) ** 0.5", "not a real number"),
        ("mac_array.dataflow * 3", "text takes no part in arithmetic"),
        ("'x' * 10 ** 9", "text takes no part in arithmetic"),
        ("'%999999999d' % 1", "text takes no part in arithmetic"),
        ("(1,) * 400000000 == 3", "a list takes no part in arithmetic"),
        ("(1,) + (2,) == 3", "a list takes no part in arithmetic"),
        ("-(1, 2)", "a list takes no part in arithmetic"),
        ("round(mac_array.rows, -1000000000) == 0", "more than 100 digits"),
        ("round(mac_array.rows, 10 ** 60)", "more than 100 digits"),
        ("round(mac_array.rows, 'x')", "bad operand"),
        ("9.9e99 ** 9 ** 64", "an exponent beyond 64"),
        ("9.9e99 ** 64", "Numerical result out of range"),
        ("floor(1e99 * 1e1 - 1e99 * 1e1) / 0", "division by zero"),
        ("mac_array.dataflow < 3", "not supported"),
        ("log2(0)", "math domain error"),
        ("host.clock_mhz * 2", "host.clock_mhz is not set"),
    ],
)
def test_without_a_value(text: str, fault: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text, KNOWN)(NAMES)
    assert fault in str(caught.value)


def test_travels_between_processes_and_knows_what_it_reads() -> None:
    expression = parse("mac_array.rows * 2 + clock_mhz", KNOWN)
    copy = pickle.loads(pickle.dumps(expression))
    assert copy(NAMES) == 532.0
    assert copy.names == ("mac_array.rows", "clock_mhz")
