"""The reader of NNEF models: the calls of a network in their order, each converted by the row of its operation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, MutableMapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from npusim.frontends.forms.conversion import MOST_MADE
from npusim.frontends.nnef import document, nnef_container
from npusim.frontends.nnef.call_network import Call, Item, Network, Shape, Variable
from npusim.frontends.nnef.document import Document
from npusim.frontends.nnef.language import standard
from npusim.frontends.nnef.language.value_types import ITEMS, Tensor
from npusim.frontends.nnef.language.value_types import Array as ArrayOf
from npusim.frontends.nnef.operations.call_conversion import (
    DTYPES,
    NUMBERED,
    CallConversion,
    Row,
)
from npusim.frontends.nnef.operations.nnef_elementwise import activation_of
from npusim.frontends.nnef.operations.nnef_table import ROWS, row
from npusim.frontends.nnef.places import quoted
from npusim.frontends.nnef.quantization_file import Codes, axis_of_channels, codes_of
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.graph import folding
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import UNKNOWN, Graph
from npusim.kernels.operator.parameters import Activation

_SIZES_BY_EXTENT = 0
"""The extent by which an external states that a size is open."""


def recognises(path: Path, head: bytes) -> bool:
    """Return True for a folder with a graph in it, and for files named like a graph or an archive."""
    return nnef_container.recognises(path, head)


def read(path: Path, builder: GraphBuilder) -> Graph:
    """Return the unchecked graph of an NNEF model. Raises FormatError or GraphError."""
    return graph_of(document.load(path), builder)


def graph_of(model: Document, builder: GraphBuilder, whole: Collection[str] | None = None) -> Graph:
    """Return the graph of a document; compound operations stay `whole` if npusim has them (None: all of these)."""
    kept = frozenset(entry.name for entry in ROWS) if whole is None else whole
    return _Reading(model.network(kept, _Shapes().infer), builder).graph()


class _Tensors:
    """The tensors of a document, by name, while their graph is built."""

    def __init__(self, builder: GraphBuilder, items: MutableMapping[str, Item]) -> None:
        self.builder = builder
        builder.read_with(folding.MOST_ELEMENTS)
        self._numbers: dict[str, int] = {}
        self._items = items
        self._codes: dict[str, Codes] = {}

    def number(self, name: str) -> int:
        return int(name.removeprefix(NUMBERED)) if name.startswith(NUMBERED) else self._numbers[name]

    def kind(self, name: str) -> TensorType:
        # Tensors with a scale per channel are quantized from floats, as soon as their shape is known.
        codes = self._codes.get(name)
        if codes is not None and len(codes.scales) == 1:
            return unshaped(codes.dtype, codes.quantization(None))
        return unshaped(DTYPES[self._items.get(name, "scalar")])

    def results_of(self, call: Call) -> Sequence[int]:
        entry = self._row(call)
        for result, item in _items_of(call):
            self._items.setdefault(result, item)
        return entry.convert(CallConversion(call, self))

    def _row(self, call: Call) -> Row:
        entry = row(call.operation)
        if entry is None:
            known = standard.OPERATIONS.get(call.operation)
            text = f"npusim does not have the operation {quoted(call.operation)}"
            advice = "" if known else "; npusim.register_operator makes it known"
            raise call.fault("S1" if known else "F6", f"{text}{advice}")
        return entry


def _items_of(call: Call) -> Iterator[tuple[str, Item]]:
    """Yield name and item type of each result of a standard operation's call; the document declares those of others."""
    operation = standard.OPERATIONS.get(call.operation)
    for declared, names in zip(operation.results if operation else (), call.results, strict=bool(operation)):
        kind = declared.type.item if isinstance(declared.type, ArrayOf) else declared.type
        item: Any = kind.item if isinstance(kind, Tensor) and kind.item in ITEMS else call.item or "scalar"
        for name in [names] if isinstance(names, str) else names:
            yield name, item


class _Shapes(_Tensors):
    """Shape inference for documents that compute with shapes, by a graph that is never run."""

    def __init__(self) -> None:
        super().__init__(GraphBuilder("shapes"), {})

    def infer(self, call: Call, shapes: MutableMapping[str, Shape]) -> None:
        """Add the shapes of the results of a call."""
        if call.operation in ("external", "variable"):
            extents: Any = call.attributes["shape"]
            kind = TensorType(DTYPES[call.item or "scalar"], tuple(extents))
            if 0 in extents:
                raise call.fault("S2", "its extents are open, and the document computes with its shape")
            numbers: Sequence[int] = [self.builder.tensor(call.result_names()[0], kind)]
        elif call.operation == "constant":
            numbers = [self.builder.constant("constant", constant_of(call))]
        else:
            numbers = self.results_of(call)
        for name, number in zip(call.result_names(), numbers, strict=True):
            self._numbers[name] = number
            shapes[name] = self.builder.shape(number)


class _Reading(_Tensors):
    """The construction of a graph from a network."""

    def __init__(self, network: Network, builder: GraphBuilder) -> None:
        super().__init__(builder, dict(network.items))
        self._network = network
        self._entries = network.quantization
        for name, entry in network.quantization.items():
            if network.items[name] != "scalar":
                text = f"{quoted(name)} holds {network.items[name]}s, and quantized values stand for scalars"
                raise entry.place.fault("Q2", text)
            self._codes[name] = codes_of(name, entry)
        self._readers: dict[str, list[int]] = {}
        for index, call in enumerate(network.calls):
            for name in operands_of(call):
                self._readers.setdefault(name, []).append(index)
        self._skipped: set[int] = set()
        self._named_already: set[int] = set()
        self._labels: dict[tuple[str, Any], int] = {}

    def graph(self) -> Graph:
        network = self._network
        for warning in network.warnings:
            self.builder.note(warning)
        externals = {call.result_names()[0]: call for call in network.calls if call.operation == "external"}
        for name in network.inputs:
            self._numbers[name] = self._external(name, externals[name])
        for index, call in enumerate(network.calls):
            if call.operation == "external" or index in self._skipped:
                continue
            if call.operation == "variable":
                self._numbers[call.result_names()[0]] = self._variable(
                    network.variables[call.result_names()[0]], call
                )
            elif call.operation == "constant":
                self._constant(call)
            else:
                self._call(call)
        return self.builder.graph(self._outputs())

    def _outputs(self) -> list[int]:
        """Return the outputs, quantized if they have an entry, each as a tensor of its own with its own name."""
        numbers: list[int] = []
        for name in self._network.outputs:
            number, conversion = self._numbers[name], CallConversion(_output(name, self._network), self)
            if name not in self._codes:
                number = conversion.in_type(number, self.kind(name))
            held = self.builder.tensors[number]
            if held.constant or number in self.builder.inputs or number in numbers or held.name != name:
                number = conversion.node("reshape", [number], conversion.like(number), shape=held.type.shape)
                self.builder.tensors[number] = replace(self.builder.tensors[number], name=name)
            numbers.append(number)
        return numbers

    # Inputs, variables and constants

    def _external(self, name: str, call: Call) -> int:
        extents: Any = call.attributes["shape"]
        call_of_it = CallConversion(call, self)
        call_of_it.require(min(extents, default=0) >= 0, f"shape {extents} has a negative extent")
        shape = tuple(UNKNOWN if extent == _SIZES_BY_EXTENT else extent for extent in extents)
        codes = self._codes.get(name)
        if codes is None:
            return self.builder.input(name, replace(self.kind(name), shape=shape))
        kind = self._scaled(name, codes, shape)
        number = self.builder.input(name, replace(kind, shape=shape))
        self.builder.tensors[number] = replace(self.builder.tensors[number], from_reals=True)
        return self._bounded(number, kind, codes, call_of_it)

    def _scaled(self, name: str, codes: Codes, shape: Shape) -> TensorType:
        axis = codes.axis
        if len(codes.scales) > 1 and axis is None:
            axis = axis_of_channels(name, len(codes.scales), shape, self._network.calls, self._readers)
        if len(codes.scales) > 1 and (axis is None or axis >= len(shape) or shape[axis] != len(codes.scales)):
            text = f"{len(codes.scales)} scales for shape {list(shape)}, of which no axis has as many"
            raise self._entries[name].place.fault("Q10", f"{quoted(name)}: {text}")
        return unshaped(codes.dtype, codes.quantization(axis))

    def _variable(self, variable: Variable, call: Call) -> int:
        codes = self._codes.get(variable.name)
        kind = self.kind(variable.name)
        if codes is not None:
            kind = self._scaled(variable.name, codes, variable.shape)
        kind = replace(kind, shape=variable.shape)
        key = (variable.label, kind)
        if key not in self._labels:
            if variable.data is None:
                self._labels[key] = self.builder.sized(variable.name, kind)
            else:
                values = self._values(variable, kind, codes, call)
                self._labels[key] = self.builder.tensor(variable.name, kind, values)
        return self._labels[key]

    def _values(self, variable: Variable, kind: TensorType, codes: Codes | None, call: Call) -> Array:
        """Return the data of a variable in the type of its tensor."""
        assert variable.data is not None
        data: Array = variable.data.values
        if codes is None:
            return _held(data, kind, call, variable.label)
        if data.dtype.kind == "f":
            axis = kind.quantization.axis if kind.quantization is not None else None
            return codes.of_reals(data, axis)
        return _held(data, kind, call, variable.label)

    def _constant(self, call: Call) -> None:
        name = call.result_names()[0]
        data, codes = constant_of(call), self._codes.get(name)
        if codes is None:
            self._numbers[name] = self.builder.constant(name, data)
            return
        kind = self._scaled(name, codes, data.shape)
        axis = kind.quantization.axis if kind.quantization is not None else None
        self._numbers[name] = self.builder.constant(name, codes.of_reals(data, axis), kind.quantization)

    # Calls

    def _call(self, call: Call) -> None:
        entry = self._row(call)
        activation, last = self._activation_behind(call) if entry.activated else ("none", None)
        names = call.result_names() if last is None else last.result_names()
        conversion = CallConversion(call, self, activation, None if last is None else names[0])
        numbers = entry.convert(conversion)
        for name, number in zip(names, numbers, strict=True):
            self._numbers[name] = self._named(name, number, conversion)

    def _named(self, name: str, number: int, conversion: CallConversion) -> int:
        """Return a result as the document states it: quantized, and limited to the range of its bits."""
        codes = self._codes.get(name)
        if codes is not None:
            kind = self.kind(name)
            if len(codes.scales) > 1:
                kind = self._scaled(name, codes, self.builder.shape(number))
            if self.builder.tensors[number].array is not None:
                number = self._recoded(number, kind, codes, conversion)
            number = conversion.in_type(number, kind)
            number = self._bounded(number, kind, codes, conversion)
        held = self.builder.tensors[number]
        if not held.constant and number not in self.builder.inputs and number not in self._named_already:
            self.builder.tensors[number] = replace(held, name=name)
        self._named_already.add(number)
        return number

    def _recoded(self, number: int, kind: TensorType, codes: Codes, conversion: CallConversion) -> int:
        """Return a constant requantized."""
        own = self.builder.type(number)
        if (own.dtype, own.quantization) == (kind.dtype, kind.quantization):
            return number
        real: Any = self.builder.tensors[conversion.as_real(number)].array
        axis = kind.quantization.axis if kind.quantization is not None else None
        return conversion.constant(codes.of_reals(real, axis), kind.quantization)

    def _bounded(self, number: int, kind: TensorType, codes: Codes, conversion: CallConversion) -> int:
        """Return a tensor limited to the range of its bits, if its type holds more values."""
        if self.builder.tensors[number].constant:
            return number
        least, most = kind.element.limits
        dtype, alike = kind.numpy_dtype, unshaped(kind.dtype, kind.quantization)
        for bound, end, op in ((codes.least, least, "maximum"), (codes.most, most, "minimum")):
            if bound != end:
                limit = conversion.constant(
                    np.full((1,) * max(len(self.builder.shape(number)), 1), bound, dtype), kind.quantization
                )
                number = conversion.node(op, [number, limit], alike)
        return number

    def _activation_behind(self, call: Call) -> tuple[Activation, Call | None]:
        """Return the activation that is the only reader of a result, if it can be fused into the operation."""
        name = call.result_names()[0]
        readers = self._readers.get(name, [])
        if len(readers) != 1 or name in self._network.outputs:
            return "none", None
        index = readers[0]
        last = self._network.calls[index]
        activation = activation_of(last)
        own, then = self._codes.get(name), self._codes.get(last.result_names()[0])
        if activation is None or (own is not None and own != then):
            return "none", None
        self._skipped.add(index)
        return activation, last


def operands_of(call: Call) -> list[str]:
    """Return the names of the tensors that a call reads."""
    names: list[str] = []
    waiting: list[Any] = list(call.tensors.values())
    while waiting:
        operand = waiting.pop()
        if isinstance(operand, str):
            names.append(operand)
        elif isinstance(operand, tuple):
            waiting.extend(operand)
    return names


def constant_of(call: Call) -> Array:
    """Return the data of a constant: as many values as its shape has, or one for all."""
    shape: Any = call.attributes["shape"]
    values: Any = call.attributes["value"]
    how_many = prod(shape)
    if min(shape, default=1) < 1:
        raise call.fault("S1", f"shape {shape} has an extent below 1")
    if len(values) not in (1, how_many):
        raise call.fault(
            "S1", f"{len(values)} values for shape {shape}, which takes {how_many}, or one for all"
        )
    if how_many > MOST_MADE:
        raise call.fault("N", f"a constant of {how_many:,} elements is more than {MOST_MADE:,}")
    try:
        with np.errstate(over="ignore"):
            data = np.array(values, DTYPES[call.item or "scalar"])
    except OverflowError:
        raise call.fault("S1", "a value is beyond the 32 bits of integers") from None
    filled: Array = np.broadcast_to(data, how_many) if len(values) == 1 else data
    return np.array(filled).reshape(shape)


def _held(data: Array, kind: TensorType, call: Call, label: str) -> Array:
    """Return data of a file in an element type. Raises DocumentError for numbers beyond its range."""
    wanted = kind.numpy_dtype
    if data.dtype.newbyteorder("=") == wanted:
        return data.astype(wanted, copy=False)
    if kind.element.kind in ("signed", "unsigned") and data.size:
        least, most = kind.element.limits
        low, high = int(np.min(data)), int(np.max(data))
        if low < least or high > most:
            text = f"{quoted(label)} holds {low if low < least else high}, beyond {kind.dtype} ({least} to {most})"
            raise call.fault("V4", text)
    with np.errstate(over="ignore"):
        return data.astype(wanted)


def _output(name: str, network: Network) -> Call:
    """Return the call that computes an output."""
    return next(call for call in network.calls if name in call.result_names())
