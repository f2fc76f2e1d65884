"""The records of a TFLite file as plain values, taken out with every offset, length and index checked.

The accessors that flatc generated (PyPI package `tflite`) trust the file: an offset may lead anywhere and a
vector may claim any length. Nothing else of the reader touches the raw file, so what comes out of `decode`
is as safe as a value made by hand, though not yet meaningful: that is for `npusim.frontends.tflite.reader`.

Source of the layout: tensorflow/lite/schema/schema.fbs, file identifier TFL3, schema version 3.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module
from mmap import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.deferred import deferred
from npusim.isa.base.errors import FormatError
from npusim.isa.base.lazy_dataclass import dataclass

_PACKAGE = "tflite"


def generated(name: str) -> Any:
    """Return a class that flatc generated for a table or enumeration of the schema, such as "Conv2DOptions"."""
    if _PACKAGE not in sys.modules:
        deferred(_PACKAGE)
    record = getattr(import_module(f"{_PACKAGE}.{name}"), name)
    # The import set the package's attribute to the submodule, where the whole package has the class.
    setattr(sys.modules[_PACKAGE], name, record)
    return record


IDENTIFIER = b"TFL3"
SCHEMA_VERSION = 3

_MOST_RECORDS = 1 << 16
_MOST_DIMENSIONS = 8
_LONGEST_NAME = 4096
_BUFFER_DATA_SLOT = 4
_BUILTIN_CODE_SLOT = 10
_OFFSET_BYTES = 4
_INT32 = struct.Struct("<i")

Data = NDArray[np.uint8]
_ACCESS_FAULTS = (struct.error, LookupError, TypeError, ValueError, OverflowError, AssertionError)
# What struct says of a read past the end; should it ever say it otherwise, the numbers are left out.
_REACH = re.compile(r"at least (\d+) bytes.*actual buffer size is (\d+)")
_EMPTY: NDArray[Any] = np.frombuffer(b"", np.uint8)


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """A row of SubGraph.tensors.

    scales, zero_points: float32 and int64 numbers, empty if the file has none.
    axis:                the axis of several scales.
    signature:           the shape with -1 for sizes that the caller may change; empty if the file has none."""

    name: str
    kind: str
    shape: tuple[int, ...]
    buffer: int
    variable: bool
    sparse: bool
    scales: NDArray[np.float32]
    zero_points: NDArray[np.int64]
    axis: int
    signature: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """A row of SubGraph.operators. `kind` is the builtin operator's name or "CUSTOM" and the custom one's.

    `options_kind` names the table that `options` (a flatbuffers Table, or None) is of. An absent optional
    input is None.
    """

    kind: str
    version: int
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    intermediates: tuple[int, ...]
    options_kind: str
    options: Any
    custom_options: Data


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """A subgraph of a file. `buffers` are read-only views of the file's bytes (uint8, 1-D).

    other: another subgraph of the same file, by its number; raises FormatError where there is none.
    subgraphs: how many the file has.
    """

    buffers: tuple[Data, ...]
    tensors: tuple[TensorRecord, ...]
    operators: tuple[OperatorRecord, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    other: Callable[[int], ModelRecord]
    subgraphs: int = 1


class inside_the_file:
    """Makes a FormatError of what the generated accessors raise when an offset leads out of the file.

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


def decode(data: bytes | mmap) -> ModelRecord:
    """Return the records of the first subgraph of the file `data`, which lead to the others.

    Raises FormatError, and never reads more than a few times the file.
    """
    _check_header(data)
    return _Decoder(data).model()


def _check_header(data: bytes | mmap) -> None:
    if len(data) < 8:
        raise FormatError(f"truncated: {len(data)} bytes, a TFLite file has at least 8")
    if data[4:8] != IDENTIFIER:
        raise FormatError(f"not a TFLite file: identifier {data[4:8]!r} at byte 4, should be {IDENTIFIER!r}")


def _names_by_code(enumeration: type) -> dict[int, str]:
    return {code: name for name, code in vars(enumeration).items() if name[0].isupper()}


def _text(raw: bytes) -> str:
    """Decode UTF-8 for one line of a message; bytes that are no printable text become U+FFFD."""
    text = raw.decode("utf-8", "replace")
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


class _Decoder:
    """Reads one file. `_budget` is what vectors may still take: they can only exceed the file by overlapping,
    and a damaged file whose million operators share one long vector must not take an hour."""

    def __init__(self, data: bytes | mmap) -> None:
        self._data = data
        self._budget = 4 * len(data)
        self._operator_names = _names_by_code(generated("BuiltinOperator"))
        self._options_names = _names_by_code(generated("BuiltinOptions"))
        self._type_names = _names_by_code(generated("TensorType"))

    def model(self) -> ModelRecord:
        with inside_the_file("model table"):
            model = generated("Model").GetRootAs(self._data)
            version = model.Version()
        if version != SCHEMA_VERSION:
            raise FormatError(f"schema version {version}, may be {SCHEMA_VERSION}")
        codes = self._tables(model, "OperatorCodes", "operator codes")
        kinds = [self._operator_code(code, f"operator code {i}") for i, code in enumerate(codes)]
        buffers = self._tables(model, "Buffers", "buffers")
        subgraphs = self._tables(model, "Subgraphs", "subgraphs")
        if not subgraphs:
            raise FormatError("the model has no subgraph, needs one")
        views = tuple(self._buffer(buffer, f"buffer {i}") for i, buffer in enumerate(buffers))

        @cache
        def subgraph(number: int) -> ModelRecord:
            if not 0 <= number < len(subgraphs):
                raise FormatError(f"subgraph {number}, the model has {len(subgraphs)}")
            record = self._subgraph(subgraphs[number], kinds, views, subgraph)
            return replace(record, subgraphs=len(subgraphs))

        return subgraph(0)

    def _subgraph(
        self,
        subgraph: Any,
        kinds: list[tuple[str, int, bool]],
        buffers: tuple[Data, ...],
        other: Callable[[int], ModelRecord],
    ) -> ModelRecord:
        tensors = self._tables(subgraph, "Tensors", "tensors")
        operators = self._tables(subgraph, "Operators", "operators")
        return ModelRecord(
            buffers=buffers,
            tensors=tuple(self._tensor(tensor, f"tensor {i}") for i, tensor in enumerate(tensors)),
            operators=tuple(self._operator(row, kinds, f"operator {i}") for i, row in enumerate(operators)),
            inputs=self._integers(subgraph, "Inputs", "model inputs"),
            outputs=self._integers(subgraph, "Outputs", "model outputs"),
            other=other,
        )

    def _charge(self, size_bytes: int, where: str) -> None:
        """Take the bytes of a vector from the budget."""
        if size_bytes > len(self._data):
            raise FormatError(
                f"{where}: claims {size_bytes} bytes, the file has {len(self._data)}; it is damaged"
            )
        self._budget -= size_bytes
        if self._budget < 0:
            raise FormatError(f"{where}: overlaps other parts of the file, which is damaged")

    def _tables(self, owner: Any, field: str, where: str) -> list[Any]:
        """Return a vector of tables."""
        with inside_the_file(where):
            length = getattr(owner, field + "Length")()
        self._charge(_OFFSET_BYTES * length, where)
        if length > _MOST_RECORDS:
            raise FormatError(f"{where}: {length} rows, may be at most {_MOST_RECORDS}")
        with inside_the_file(where):
            item = getattr(owner, field)
            return [item(index) for index in range(length)]

    def _vector(self, owner: Any, field: str, where: str) -> NDArray[Any]:
        """Return a vector of numbers as a view of the file; numpy checks that it is inside."""
        with inside_the_file(where):
            values = getattr(owner, field + "AsNumpy")()
        if not isinstance(values, np.ndarray):  # the accessors say 0 when the vector is absent
            return _EMPTY
        self._charge(values.nbytes, where)
        return values

    def _integers(self, owner: Any, field: str, where: str) -> tuple[int, ...]:
        return tuple(self._vector(owner, field, where).tolist())

    def _operator_code(self, code: Any, where: str) -> tuple[str, int, bool]:
        """Name, version, and whether it is a custom operator.

        Old files have only the first of the two codes, and new ones both, of which the larger counts.
        """
        with inside_the_file(where):
            # Not BuiltinCode(): that accessor was patched to ignore the new code where it is small.
            table = code._tab
            field = table.Offset(_BUILTIN_CODE_SLOT)
            new_code = _INT32.unpack_from(self._data, table.Pos + field)[0] if field else 0
            number = max(code.DeprecatedBuiltinCode(), new_code)
            custom = code.CustomCode()
            version = code.Version()
        name = self._operator_names.get(number, f"builtin operator {number}")
        if name != "CUSTOM":
            return name, version, False
        return f"CUSTOM {_text(custom[:_LONGEST_NAME])}" if custom else name, version, True

    def _buffer(self, buffer: Any, where: str) -> Data:
        """Return the bytes of a buffer: a vector of the flatbuffer, or an offset and size beyond it."""
        with inside_the_file(where):
            # DataAsNumpy would do, but could not say where a truncated file should have ended.
            table = buffer._tab
            field = table.Offset(_BUFFER_DATA_SLOT)
            size_bytes = table.VectorLen(field) if field else 0
            if size_bytes:
                start = table.Vector(field)
            else:
                start = buffer.Offset()
                size_bytes = buffer.Size() if start else 0
        return self._span(start, size_bytes, where)

    def _span(self, start: int, size_bytes: int, where: str) -> Data:
        """Return a read-only view of the file's bytes."""
        if start <= 1:  # 0 and 1 are the schema's "nothing outside the flatbuffer"
            return _EMPTY
        if start + size_bytes > len(self._data):
            raise FormatError(
                f"{where}: reaches to byte {start + size_bytes}, the file has {len(self._data)}; "
                "it is truncated or damaged"
            )
        return np.frombuffer(self._data, np.uint8, size_bytes, start)

    def _tensor(self, tensor: Any, where: str) -> TensorRecord:
        with inside_the_file(where):
            name = tensor.Name() or b""
            kind = tensor.Type()
            buffer = tensor.Buffer()
            variable = tensor.IsVariable()
            sparse = tensor.Sparsity() is not None
            quantization = tensor.Quantization()
        if len(name) > _LONGEST_NAME:
            raise FormatError(f"{where}: name of {len(name)} bytes, may have {_LONGEST_NAME}")
        shape = self._vector(tensor, "Shape", where)
        signature = self._vector(tensor, "ShapeSignature", where)
        if shape.size > _MOST_DIMENSIONS:
            raise FormatError(f"{where}: {shape.size} dimensions, may have {_MOST_DIMENSIONS}")
        scales = zero_points = _EMPTY
        axis = 0
        if quantization is not None:
            scales = self._vector(quantization, "Scale", where)
            zero_points = self._vector(quantization, "ZeroPoint", where)
        if scales.size > 1:
            with inside_the_file(where):
                axis = quantization.QuantizedDimension()
        return TensorRecord(
            name=_text(name),
            kind=self._type_names.get(kind, f"type {kind}"),
            shape=tuple(shape.tolist()),
            buffer=buffer,
            variable=variable,
            sparse=sparse,
            scales=scales,
            zero_points=zero_points,
            axis=axis,
            signature=tuple(signature.tolist()),
        )

    def _operator(self, row: Any, kinds: list[tuple[str, int, bool]], where: str) -> OperatorRecord:
        with inside_the_file(where):
            code = row.OpcodeIndex()
            options_kind = row.BuiltinOptionsType()
            options = row.BuiltinOptions()
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
            options_kind=self._options_names.get(options_kind, f"options {options_kind}"),
            options=options,
            custom_options=self._custom_options(row, where) if custom else _EMPTY,
        )

    def _custom_options(self, row: Any, where: str) -> Data:
        """Return the options of a custom operator: a vector, or in large models an offset and size beyond it."""
        inline = self._vector(row, "CustomOptions", where)
        if inline.size:
            return inline
        with inside_the_file(where):
            start, size_bytes = row.LargeCustomOptionsOffset(), row.LargeCustomOptionsSize()
        return self._span(start, size_bytes, f"custom options of {where}")
