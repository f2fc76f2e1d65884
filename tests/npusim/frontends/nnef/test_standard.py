"""The standard operations: their number, their declarations, and the bodies of those that are made of others."""

from __future__ import annotations

import pytest

from npusim.frontends.nnef.document import loads
from npusim.frontends.nnef.language import standard
from npusim.frontends.nnef.language.checker import check_standard
from npusim.frontends.nnef.language.value_types import holds_tensors, is_generic
from tests.npusim.frontends.nnef.documents import own

FAMILIES = {
    "introduction": 4,
    "shape": 13,
    "arithmetic": 24,
    "comparison": 6,
    "logical": 3,
    "rounding": 3,
    "select": 1,
    "simplifier": 8,
    "product": 1,
    "window": 7,
    "resampling": 4,
    "reduction": 9,
    "activation": 11,
    "pooling": 4,
    "linear": 3,
    "normalization": 7,
    "region": 5,
    "quantization": 4,
    "several": 2,
}

MADE_OF_OTHERS = [row.name for row in standard.OPERATIONS.values() if row.body]

ARGUMENTS = {
    "index": "argmax_pool(x, size = [1,1,1,1])",
    "indices": "cast<integer>(x)",
    "batch_index": "cast<integer>(x)",
    "zero_point": "3",
    "condition": "lt(x, 0.0)",
    "values": "[x, x]",
    "bits": "8",
    "signed": "true",
    "symmetric": "false",
    "epsilon": "0.1",
    "times": "2",
    "axis": "1",
    "padding": "[(0,0),(1,2)]",
}


def call(row: standard.Operation) -> str:
    """A call that gives every parameter without a default a value."""
    arguments = []
    for parameter in row.parameters:
        if parameter.default is None:
            is_array = str(parameter.type) == "integer[]"
            plain = "x" if holds_tensors(parameter.type) else "[2,2]" if is_array else "0.5"
            plain = "[x, x]" if str(parameter.type).endswith(">[]") else plain
            arguments.append(f"{parameter.name} = {ARGUMENTS.get(parameter.name, plain)}")
    return f"{row.name}({', '.join(arguments)})"


def test_there_are_119_in_their_families() -> None:
    assert len(standard.OPERATIONS) == 119
    families = [row.family for row in standard.OPERATIONS.values()]
    assert {family: families.count(family) for family in families} == FAMILIES


@pytest.mark.parametrize("name", standard.OPERATIONS)
def test_a_declaration_keeps_the_rules_of_declarations(name: str) -> None:
    row = standard.OPERATIONS[name]
    every = [*row.parameters, *row.results]
    assert len({part.name for part in every}) == len(every)
    assert (row.generic is not None) == any(is_generic(part.type) for part in every)
    assert len({holds_tensors(result.type) for result in row.results}) == 1
    is_attribute = [not holds_tensors(parameter.type) for parameter in row.parameters]
    assert is_attribute == sorted(is_attribute), "tensors, which may be given by position, stand first"
    declared = standard.fragment(name)
    assert declared is not None
    check_standard(declared)  # raises where a body breaks a rule
    assert declared.checked


@pytest.mark.parametrize("name", MADE_OF_OTHERS)
def test_a_body_expands_to_operations_that_are_not_made_of_others(name: str) -> None:
    row = standard.OPERATIONS[name]
    results = ", ".join(f"r{index}" for index in range(len(row.results)))
    results = "[r0, q]" if name == "copy_n" else results
    network = loads(own("", f"{results} = {call(row)}; y = copy(r0);")).network()
    operations = {made.operation for made in network.calls}
    assert not operations.intersection(MADE_OF_OTHERS)
    assert [network.items[f"r{index}"] for index in range(len(row.results))] == [
        "integer" if result.name == "index" else "scalar" for result in row.results
    ]


BODIES = (
    ("sqr(x)", ["pow(x, 2.0)"]),
    ("rsqrt(x)", ["pow(x, -0.5)"]),
    ("relu(x)", ["gt(x, 0.0)", "select(y/z, x, 0.0)"]),
    (
        "clamp(x, 1.0, 2.0)",
        ["lt(x, 2.0)", "select(y/min/z, x, 2.0)", "gt(y/min/z.2, 1.0)", "select(y/z, y/min/z.2, 1.0)"],
    ),
    ("mean_reduce(x, axes = [2])", ["sum_reduce(x, axes=[2], normalize=True)"]),
    (
        "linear(x, x)",
        ["matmul(x, x, transposeA=False, transposeB=True)", "add(y/C, 0.0)"],
    ),
    (
        "nearest_upsample(x, factor = [2,3])",
        [
            "debox(x, size=[1, 1, 2, 3], border=constant, padding=[(0, 0), (0, 0), (0, 0), (0, 0)],"
            " stride=[1, 1, 2, 3], dilation=[], output_shape=[], normalize=False)"
        ],
    ),
)


@pytest.mark.parametrize(("text", "expected"), BODIES)
def test_what_a_body_does(text: str, expected: list[str]) -> None:
    network = loads(own("", f"y = {text};")).network()
    shown = []
    for made in network.calls[1:]:
        operands = [str(operand) for operand in made.tensors.values()]
        attributes = [f"{name}={value}" for name, value in made.attributes.items()]
        shown.append(f"{made.operation}({', '.join(operands + attributes)})".replace("'", ""))
    assert shown == expected


QUANTIZE = (
    # bits, signed, symmetric: lowest and highest code
    (8, False, False, 0.0, 255.0),
    (8, True, False, -128.0, 127.0),
    (8, True, True, -127.0, 127.0),
    (4, True, False, -8.0, 7.0),
    (1, False, False, 0.0, 1.0),
    (32, True, False, -2147483648.0, 2147483647.0),
)


@pytest.mark.parametrize(("bits", "signed", "symmetric", "lowest", "highest"), QUANTIZE)
def test_the_codes_of_zero_point_linear_quantize(
    bits: int, signed: bool, symmetric: bool, lowest: float, highest: float
) -> None:
    flags = f"bits = {bits}, signed = {str(signed).lower()}, symmetric = {str(symmetric).lower()}"
    text = own("", f"y = zero_point_linear_quantize(x, 3, 0.5, {flags});")
    (clamp,) = [made for made in loads(text).network({"clamp"}).calls if made.operation == "clamp"]
    assert (clamp.tensors["a"], clamp.tensors["b"]) == (lowest, highest)
