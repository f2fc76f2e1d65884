"""The schema of the TFLite reader against the classes that flatc generated."""

from __future__ import annotations

from typing import Any

import flatbuffers
import numpy as np
import pytest
import tflite

from npusim.formats import tflite_schema
from npusim.formats.flatbuffer import Field, Fields, Table
from npusim.formats.tflite_operators import OPERATORS

KINDS: dict[str, Fields] = {
    **tflite_schema.TABLES,
    **{name: options.fields for name, options in tflite_schema.OPTIONS.items()},
}
FIELDS = [(kind, name) for kind, fields in KINDS.items() for name in fields]


def written(kind: str, name: str, value: Any) -> bytes:
    """A file that is one table with one field."""
    builder = flatbuffers.Builder(64)
    if isinstance(value, np.ndarray):
        value = builder.CreateNumpyVector(value)
    elif isinstance(value, str):
        value = builder.CreateString(value)
    getattr(tflite, f"{kind}Start")(builder)
    getattr(tflite, f"{kind}Add{name}")(builder, value)
    builder.Finish(getattr(tflite, f"{kind}End")(builder))
    return bytes(builder.Output())


def default_of(kind: str, name: str) -> Any:
    """What the generated class says of an empty table."""
    table = getattr(tflite, kind)()
    table.Init(b"\4\0\4\0\4\0\0\0", 4)
    return getattr(table, name)()


@pytest.mark.parametrize(("kind", "name"), FIELDS)
def test_fields_are_where_the_generated_classes_have_them(kind: str, name: str) -> None:
    fields = KINDS[kind]
    field: Field = fields[name]
    if field.code.startswith("<"):
        values = np.array([3, 1, 2], field.code)
        read = Table.root(written(kind, name, values), fields).vector(name)
        assert read is not None
        assert (read.dtype, read.tolist()) == (values.dtype, values.tolist())
        assert Table.empty(fields).vector(name) is None
    elif field.code:
        value = True if field.code == "?" else 5
        assert Table.root(written(kind, name, value), fields).number(name) == value
        if (kind, name) != (
            "OperatorCode",
            "BuiltinCode",
        ):  # that accessor was patched to look at another field
            assert Table.empty(fields).number(name) == default_of(kind, name)
    else:
        assert Table.root(written(kind, name, "text"), fields).text(name) == b"text"
        assert Table.empty(fields).text(name) is None


def codes(enumeration: type) -> dict[str, int]:
    return {name: code for name, code in vars(enumeration).items() if name[0].isupper()}


def test_enumerations() -> None:
    operators = codes(tflite.BuiltinOperator)
    assert {name: operators[name] for name in {kind.split()[0] for kind in OPERATORS}} == {
        name: code for code, name in tflite_schema.OPERATORS.items()
    }
    assert dict(zip(tflite_schema.TYPES, range(99), strict=False)) == codes(tflite.TensorType)
    unions = codes(tflite.BuiltinOptions)
    assert {name: options.code for name, options in tflite_schema.OPTIONS.items()} == {
        name: unions[name] for name in tflite_schema.OPTIONS
    }
    assert {row.options for row in OPERATORS.values()} - {None} == set(tflite_schema.OPTIONS)


def test_what_the_reader_does_not_know_has_a_name_too() -> None:
    assert tflite_schema.operator_name(tflite.BuiltinOperator.RFFT2D) == "RFFT2D"
    assert tflite_schema.operator_name(9999) == "builtin operator 9999"
    assert tflite_schema.options_name(tflite.BuiltinOptions.ReshapeOptions) == "ReshapeOptions"
    assert tflite_schema.options_name(250) == "options 250"
