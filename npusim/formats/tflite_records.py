"""The records of a TFLite file as plain values, taken out with every offset, length and index checked.

Tables of a FlatBuffer (`npusim.formats.flatbuffer`) may refer to anywhere and vectors may claim any length.
Nothing else of the reader touches the raw file, so what comes out of `decode` is as safe as a value made by hand,
though not yet meaningful: that is for `npusim.formats.tflite`.

Source of the layout: tensorflow/lite/schema/schema.fbs, file identifier TFL3, schema version 3.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.formats.flatbuffer import OFFSET_BYTES, Table
from npusim.formats.tflite_schema import TABLES, TYPES, operator_name
from npusim.isa.errors import FormatError

IDENTIFIER = b"TFL3"
SCHEMA_VERSION = 3

_MOST_RECORDS = 1 << 16
_MOST_DIMENSIONS = 8
_LONGEST_NAME = 4096

Data = NDArray[np.uint8]
_ACCESS_FAULTS = (struct.error, LookupError, TypeError, ValueError, OverflowError, AssertionError)
# What struct says of a read past the end; should it ever say it otherwise, the numbers are left out.
_REACH = re.compile(r"at least (\d+) bytes.*actual buffer size is (\d+)")
_EMPTY: NDArray[Any] = np.frombuffer(b"", np.uint8)


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """A row of SubGraph.tensors. `scales` (float32) and `zero_points` (int64) are empty where the file says
    nothing; `axis` is what several scales run along."""

    name: str
    kind: str
    shape: tuple[int, ...]
    buffer: int
    variable: bool
    sparse: bool
    scales: NDArray[np.float32]
    zero_points: NDArray[np.int64]
    axis: int


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """A row of SubGraph.operators. `kind` is the builtin operator's name or "CUSTOM" and the custom one's.

    `options_kind` is the code of the table that lies at `options` in the file (None without one). An absent
    optional input is None.
    """

    kind: str
    version: int
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    intermediates: tuple[int, ...]
    options_kind: int
    options: int | None
    custom_options: Data


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """The first subgraph of a file. `buffers` are read-only views of the file's bytes (uint8, 1-D)."""

    data: bytes
    buffers: tuple[Data, ...]
    tensors: tuple[TensorRecord, ...]
    operators: tuple[OperatorRecord, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class inside_the_file:
    """Makes a FormatError of what the accessors of tables raise when an offset leads out of the file.

    To stand around accessors only, so that it cannot hide a fault of our own. A class, because a generator
    takes three times as long and this is entered thousands of times.
    """

    __slots__ = ("_where",)

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> None:
        if not isinstance(fault, _ACCESS_FAULTS):
            return
        text = "an offset leads outside the file"
        if reach := _REACH.search(str(fault)):
            text = f"an offset leads to byte {reach[1]}, the file has {reach[2]}"
        raise FormatError(f"{self._where}: {text}; it is truncated or damaged") from fault


def decode(data: bytes) -> ModelRecord:
    """The records of the file `data`; raises FormatError, and never reads more than a few times the file."""
    _check_header(data)
    return _Decoder(data).model()


def _check_header(data: bytes) -> None:
    if len(data) < 8:
        raise FormatError(f"truncated: {len(data)} bytes, a TFLite file has at least 8")
    if data[4:8] != IDENTIFIER:
        raise FormatError(f"not a TFLite file: identifier {data[4:8]!r} at byte 4, should be {IDENTIFIER!r}")


def _text(raw: bytes) -> str:
    """UTF-8 made fit for one line of a message: what is neither text nor printable becomes U+FFFD."""
    text = raw.decode("utf-8", "replace")
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


class _Decoder:
    """Reads one file. `_budget` is what vectors may still take: they can only exceed the file by overlapping,
    and a damaged file whose million operators share one long vector must not take an hour."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._budget = 4 * len(data)

    def model(self) -> ModelRecord:
        with inside_the_file("model table"):
            model = Table.root(self._data, TABLES["Model"])
            version = model.number("Version")
        if version != SCHEMA_VERSION:
            raise FormatError(f"schema version {version}, may be {SCHEMA_VERSION}")
        codes = self._tables(model, "OperatorCodes", "OperatorCode", "operator codes")
        kinds = [self._operator_code(code, f"operator code {i}") for i, code in enumerate(codes)]
        buffers = self._tables(model, "Buffers", "Buffer", "buffers")
        subgraphs = self._tables(model, "Subgraphs", "SubGraph", "subgraphs")
        if not subgraphs:
            raise FormatError("the model has no subgraph, needs one")
        subgraph = subgraphs[0]
        tensors = self._tables(subgraph, "Tensors", "Tensor", "tensors")
        operators = self._tables(subgraph, "Operators", "Operator", "operators")
        return ModelRecord(
            data=self._data,
            buffers=tuple(self._buffer(buffer, f"buffer {i}") for i, buffer in enumerate(buffers)),
            tensors=tuple(self._tensor(tensor, f"tensor {i}") for i, tensor in enumerate(tensors)),
            operators=tuple(self._operator(row, kinds, f"operator {i}") for i, row in enumerate(operators)),
            inputs=self._integers(subgraph, "Inputs", "model inputs"),
            outputs=self._integers(subgraph, "Outputs", "model outputs"),
        )

    def _charge(self, size_bytes: int, where: str) -> None:
        """Takes the bytes of a vector from the budget."""
        if size_bytes > len(self._data):
            raise FormatError(
                f"{where}: claims {size_bytes} bytes, the file has {len(self._data)}; it is damaged"
            )
        self._budget -= size_bytes
        if self._budget < 0:
            raise FormatError(f"{where}: overlaps other parts of the file, which is damaged")

    def _tables(self, owner: Table, field: str, kind: str, where: str) -> list[Table]:
        """A vector of tables."""
        with inside_the_file(where):
            length = owner.count(field)
        self._charge(OFFSET_BYTES * length, where)
        if length > _MOST_RECORDS:
            raise FormatError(f"{where}: {length} rows, may be at most {_MOST_RECORDS}")
        with inside_the_file(where):
            return owner.tables(field, TABLES[kind])

    def _vector(self, owner: Table, field: str, where: str) -> NDArray[Any]:
        """A vector of numbers, as a view of the file; numpy sees to it that it lies inside."""
        with inside_the_file(where):
            values = owner.vector(field)
        if values is None:
            return _EMPTY
        self._charge(values.nbytes, where)
        return values

    def _integers(self, owner: Table, field: str, where: str) -> tuple[int, ...]:
        return tuple(self._vector(owner, field, where).tolist())

    def _operator_code(self, code: Table, where: str) -> tuple[str, int, bool]:
        """Name, version, and whether it is a custom operator.

        Old files have only the first of the two codes, new ones both; the larger is meant.
        """
        with inside_the_file(where):
            number = max(code.number("DeprecatedBuiltinCode"), code.number("BuiltinCode"))
            custom = code.text("CustomCode")
            version = code.number("Version")
        name = operator_name(number)
        if name != "CUSTOM":
            return name, version, False
        return f"CUSTOM {_text(custom[:_LONGEST_NAME])}" if custom else name, version, True

    def _buffer(self, buffer: Table, where: str) -> Data:
        """The bytes of a buffer: a vector of the flatbuffer, or an offset and size beyond it."""
        with inside_the_file(where):
            # `vector` would do, but could not say where a truncated file should have ended.
            start, size_bytes = buffer.span("Data")
            if not size_bytes:
                start = buffer.number("Offset")
                size_bytes = buffer.number("Size") if start else 0
        return self._span(start, size_bytes, where)

    def _span(self, start: int, size_bytes: int, where: str) -> Data:
        """A read-only view of the file's bytes."""
        if start <= 1:  # 0 and 1 are the schema's "nothing outside the flatbuffer"
            return _EMPTY
        if start + size_bytes > len(self._data):
            raise FormatError(
                f"{where}: reaches to byte {start + size_bytes}, the file has {len(self._data)}; "
                "it is truncated or damaged"
            )
        return np.frombuffer(self._data, np.uint8, size_bytes, start)

    def _tensor(self, tensor: Table, where: str) -> TensorRecord:
        with inside_the_file(where):
            name = tensor.text("Name") or b""
            kind = tensor.number("Type")
            buffer = tensor.number("Buffer")
            variable = tensor.number("IsVariable")
            sparse = tensor.table("Sparsity", {}) is not None
            quantization = tensor.table("Quantization", TABLES["QuantizationParameters"])
        if len(name) > _LONGEST_NAME:
            raise FormatError(f"{where}: name of {len(name)} bytes, may have {_LONGEST_NAME}")
        shape = self._vector(tensor, "Shape", where)
        if shape.size > _MOST_DIMENSIONS:
            raise FormatError(f"{where}: {shape.size} dimensions, may have {_MOST_DIMENSIONS}")
        scales = zero_points = _EMPTY
        axis = 0
        if quantization is not None:
            scales = self._vector(quantization, "Scale", where)
            zero_points = self._vector(quantization, "ZeroPoint", where)
            if scales.size > 1:
                with inside_the_file(where):
                    axis = quantization.number("QuantizedDimension")
        return TensorRecord(
            name=_text(name),
            kind=TYPES[kind] if 0 <= kind < len(TYPES) else f"type {kind}",
            shape=tuple(shape.tolist()),
            buffer=buffer,
            variable=variable,
            sparse=sparse,
            scales=scales,
            zero_points=zero_points,
            axis=axis,
        )

    def _operator(self, row: Table, kinds: list[tuple[str, int, bool]], where: str) -> OperatorRecord:
        with inside_the_file(where):
            code = row.number("OpcodeIndex")
            options_kind = row.number("BuiltinOptionsType")
            options = row.table("BuiltinOptions", {})
        if code >= len(kinds):
            raise FormatError(f"{where}: operator code {code}, the model has {len(kinds)}")
        kind, version, custom = kinds[code]
        inputs = self._integers(row, "Inputs", where)
        return OperatorRecord(
            kind=kind,
            version=version,
            inputs=tuple(None if index == -1 else index for index in inputs),
            outputs=self._integers(row, "Outputs", where),
            intermediates=self._integers(row, "Intermediates", where),
            options_kind=options_kind,
            options=None if options is None else options.position,
            custom_options=self._custom_options(row, where) if custom else _EMPTY,
        )

    def _custom_options(self, row: Table, where: str) -> Data:
        """The options of a custom operator: a vector, or in large models an offset and size beyond it."""
        inline = self._vector(row, "CustomOptions", where)
        if inline.size:
            return inline
        with inside_the_file(where):
            start, size_bytes = row.number("LargeCustomOptionsOffset"), row.number("LargeCustomOptionsSize")
        return self._span(start, size_bytes, f"custom options of {where}")
