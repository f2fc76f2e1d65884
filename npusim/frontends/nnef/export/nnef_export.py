"""The construction of an NNEF model from a graph: calls, quantization entries and data files.

Images are channels-first in NNEF. They are transposed when an operation needs the other order, and stay as they are
through elementwise operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from npusim.frontends.nnef import tensor_file
from npusim.frontends.nnef.call_network import Attribute, Call, Item, Network, Operand, Quantization, Variable
from npusim.frontends.nnef.operations.call_conversion import DTYPES
from npusim.frontends.nnef.places import Place, Source
from npusim.frontends.written_layers import LIMITS, Layer, Writing
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, TensorType
from npusim.isa.base.tensor import Quantization as Scaling
from npusim.kernels.graph.graph import Graph, Tensor
from npusim.kernels.graph.layout import permuted_tensor

TO_CHANNELS_FIRST = (0, 3, 1, 2)
_TO_CHANNELS_LAST = (0, 2, 3, 1)
_NOWHERE = Place(Source("", ""), 0)
_ITEMS: Mapping[str, Item] = {
    "real": "scalar",
    "truth": "logical",
    "signed": "integer",
    "unsigned": "integer",
}

Convert = Callable[["Export", Layer], None]


class Export(Writing):
    """An NNEF network under construction: the calls that a graph is converted into, and the data of its constants."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.calls: list[Call] = []
        self._items: dict[str, Item] = {}
        self._entries: dict[str, Quantization] = {}
        self._variables: dict[str, Variable] = {}
        self._data: dict[str, bytes] = {}

    def network(self, convert: Convert) -> tuple[Network, dict[str, bytes]]:
        """Return the network and its data files by label; `convert` adds the calls of a node."""
        graph = self.graph
        inputs = []
        for number in graph.inputs:
            kind = graph.tensors[number].type
            self.lasts[number] = self.call("external", self.fresh(number), kind, shape=list(kind.shape))
            inputs.append(self.lasts[number])
        self.convert_all(lambda layer: convert(self, layer))
        outputs = tuple(self.last(number) for number in graph.outputs)
        whole = Network(
            graph.name, tuple(inputs), outputs, tuple(self.calls), self._items, self._variables, self._entries
        )
        return whole, self._data

    # Names and calls

    def fresh(self, number: int, suffix: str = "") -> str:
        """Return a name that no tensor has yet."""
        stem = self.graph.tensors[number].name.split(";")[0] + suffix
        name, count = stem, 1
        while name in self._items:
            count += 1
            name = f"{stem}_{count}"
        return name

    def call(
        self,
        operation: str,
        name: str,
        kind: TensorType,
        *tensors: Operand | tuple[Operand, ...],
        **attributes: Any,
    ) -> str:
        """Add a call with one result of this type, and return its name."""
        self.calls.append(self._made(operation, (name,), kind, tensors, attributes))
        self.note(name, kind)
        return name

    def results(self, layer: Layer, operation: str, **attributes: Any) -> None:
        """Set all results of a layer, by a call on its first operand whose result is an array."""
        names = []
        for output in layer.outputs:
            names.append(self.fresh(output))
            self.note(names[-1], self.kind(output))
        tensor = self.last(layer[0])
        self.lasts |= dict(zip(layer.outputs, names, strict=True))
        kind = self.kind(layer.result)
        self.calls.append(self._made(operation, (tuple(names),), kind, (tensor,), attributes))

    @staticmethod
    def _made(
        operation: str, results: Any, kind: TensorType, tensors: Any, attributes: dict[str, Any]
    ) -> Call:
        operands = {f"operand{index}": operand for index, operand in enumerate(tensors)}
        item = _ITEMS[kind.element.kind] if kind.quantization is None else "scalar"
        return Call(operation, results, operands, attributes, item, _NOWHERE)

    def note(self, name: str, kind: TensorType) -> None:
        """Record the kind of values of a tensor, and its quantization."""
        if kind.quantization is None and kind.dtype not in DTYPES.values():
            raise GraphError(f"tensor {name!r}: NNEF has no {kind.dtype}")
        if kind.quantization is None:
            self._items[name] = _ITEMS[kind.element.kind]
            return
        self._items[name] = "scalar"
        self._entries[name] = _entry(kind, kind.quantization)

    # Tensors

    def last(self, number: int) -> str:
        """Return a tensor in the graph's order of axes."""
        if number not in self.lasts:
            tensor = self.graph.tensors[number]
            if tensor.constant:
                self.lasts[number] = self.variable(number, tensor)
            else:
                name = self.fresh(number)
                self.lasts[number] = self.call(
                    "transpose", name, tensor.type, self.firsts[number], axes=list(_TO_CHANNELS_LAST)
                )
        return self.lasts[number]

    def first(self, number: int) -> str:
        """Return an image channels-first."""
        if number not in self.firsts:
            tensor = permuted_tensor(self.graph.tensors[number], TO_CHANNELS_FIRST)
            if tensor.constant:
                self.firsts[number] = self.variable(number, tensor)
            else:
                name = self.fresh(number, "_nchw")
                source = self.last(number)
                self.firsts[number] = self.call(
                    "transpose", name, tensor.type, source, axes=list(TO_CHANNELS_FIRST)
                )
        return self.firsts[number]

    def variable(self, number: int, tensor: Tensor, array: Array | None = None) -> str:
        """Add a variable with the data of a constant, which may be given in another shape."""
        data = tensor.array if array is None else array
        if data is None:
            raise GraphError(f"constant {tensor.name!r} is known by its size only")
        name = self.fresh(number)
        label = f"variable{len(self._variables) + 1}"
        kind = tensor.type
        self.call("variable", name, kind, shape=list(kind.shape), label=label)
        self._variables[name] = Variable(name, label, kind.shape, self._items[name], _NOWHERE)
        self._data[label] = tensor_file.dump(np.asarray(data), quantized=kind.quantization is not None)
        return name

    def result(
        self,
        layer: Layer,
        operation: str,
        *tensors: Operand | tuple[Operand, ...],
        first: bool = False,
        **attributes: Any,
    ) -> None:
        """Set the only result of a layer, channels-first if stated, followed by its fused activation."""
        number = layer.result
        kind = self.kind(number)
        if first:
            kind = permuted_tensor(Tensor("", kind), TO_CHANNELS_FIRST).type
        activation = getattr(layer.params, "activation", "none")
        suffix = "_nchw" if first else ""
        name = self.call(
            operation,
            self.fresh(number, f"{suffix}_sum" if activation != "none" else suffix),
            kind,
            *tensors,
            **attributes,
        )
        if activation == "relu":
            name = self.call("relu", self.fresh(number, suffix), kind, name)
        elif activation != "none":
            name = self.call("clamp", self.fresh(number, suffix), kind, name, *LIMITS[activation])
        (self.firsts if first else self.lasts)[number] = name


def _entry(kind: TensorType, scaling: Scaling) -> Quantization:
    """Return an entry of the quantization file; several values lie along their axis."""
    before = (1,) * scaling.axis if scaling.axis is not None else ()
    shape = (*before, len(scaling.scales)) if scaling.axis is not None else ()
    numbers: Any = {
        "zero_point": np.array(scaling.zero_points, np.int64).reshape(shape),
        "scale": np.array(scaling.scales, np.float64).reshape(shape),
    }
    attributes: dict[str, Attribute] = {
        "bits": kind.element.bits,
        "signed": kind.element.kind == "signed",
        "symmetric": False,
    }
    return Quantization("zero_point_linear_quantize", numbers, attributes, _NOWHERE)
