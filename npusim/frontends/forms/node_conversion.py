"""The conversion of one ONNX or Paddle node: its inputs, attributes and quantized values.

These formats write quantization as QuantizeLinear and DequantizeLinear around operations on floats. `qdq_groups`
decides beforehand which operations compute on quantized values; a conversion asks `NetworkValues` for its decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from npusim.frontends.forms.accumulators import SUMS, has_own_bias, real_sum
from npusim.frontends.forms.conversion import Conversion, Step
from npusim.frontends.forms.network_values import NetworkValues
from npusim.frontends.forms.networks import Network, Node
from npusim.frontends.forms.packed_weights import PackedWeights
from npusim.frontends.forms.signatures import arguments, dealt
from npusim.frontends.forms.widening import BYTES, ORDERED, chooses, wider
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import unshaped
from npusim.kernels.graph.layouts import SPATIAL
from npusim.kernels.table import family

KINDS: Mapping[type, str] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    tuple: "a list of numbers",
}
"""Names of the kinds of attributes, for messages."""


def is_kind(value: Any, kind: type) -> bool:
    """Return whether an attribute is of a kind of `KINDS`."""
    if kind is tuple:
        return isinstance(value, (list, tuple)) and all(isinstance(item, (int, float)) for item in value)
    return isinstance(value, (int, float) if kind is float else kind)


def shown(value: Any) -> str:
    """Return an attribute as messages show it, at most 60 characters."""
    text = repr(value)
    return text if len(text) < 60 else f"{text[:57]}..."


def inputs_by_name(node: Node, text: str) -> dict[str, Sequence[str]]:
    """Return the values of a node by the names of its row. Raises GraphError if there are too many or too few."""
    slots = arguments(text)
    if node.slots:
        return {slot.name: node.slots.get(slot.name, ()) for slot in slots}
    least = sum(not slot.optional and slot.repeats != "*" for slot in slots)
    return {slot.name: names for slot, names in dealt(slots, node.inputs, least, node.fault, text)}


_KEEP_CODES = frozenset({"max_pool_2d", "reduce_max", "reduce_min", "resize_nearest_neighbor"})
"""Operators outside of `movement` whose results have the quantization of their operands, if the scales agree."""

_FIRST_ONLY = frozenset({"gather", "gather_nd", "pad", "slice", "strided_slice", "tile", "reshape"})
"""Operators whose first operand alone is data; the others are indices, sizes or a fill value."""

ITSELF = Quantization((1.0,), (0,))
"""The quantization under which quantized values equal the numbers that they stand for."""


class NodeConversion(Conversion):
    """A node that is being added to the graph. GraphError, with the node's name, is raised for what npusim lacks."""

    def __init__(
        self, node: Node, inputs: str, around: NetworkValues, operators: Sequence[str] = ("reshape",)
    ) -> None:
        """`inputs` and `operators` are those of the node's row."""
        self.source = node
        self._moves = keeps_codes(operators[0]) if operators else True
        self._bare: dict[int, int] = {}
        self._around = around
        self.builder = around.builder
        self._names = inputs_by_name(node, inputs)

    @property
    def name(self) -> str:
        """The name of the nodes."""
        return self.source.name

    def fault(self, text: str) -> GraphError:
        """Return the error for this node."""
        return self.source.fault(text)

    def located(self, fault: GraphError) -> GraphError:
        """Return an error of the graph with the node's place, unless it has that already."""
        text = str(fault)
        return fault if text.startswith(self.source.place) else self.source.fault(text)

    # Attributes

    def as_node(self, node: Node, inputs: str, operators: Sequence[str]) -> Self:
        """Return the conversion of the same operation under another node, with `inputs` and `operators` of its row."""
        return type(self)(node, inputs, self._around, operators)

    @property
    def opset(self) -> int:
        """The version of the node's operation."""
        return self._around.opsets.get(self.source.domain, 1)

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or the default if the node does not state it."""
        value = self.source.attributes.get(name, default)
        if default is not None and name in self.source.attributes:
            kind = tuple if isinstance(default, (tuple, list)) else type(default)
            self.require(is_kind(value, kind), f"{name} is {shown(value)}, must be {KINDS[kind]}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a 0 or 1 attribute as a boolean.

        Raises GraphError for other numbers: ONNX Runtime takes only 1 for true, and the standard does not define them.
        """
        value = self.attribute(name, int(default))
        self.require(value in (0, 1), f"{name} is {shown(value)}, must be 0 or 1")
        return bool(value)

    def parameter(self, name: str, default: Any) -> Any:
        """Return an attribute in the type of the default, which it has if the node does not state it."""
        if isinstance(default, bool):
            return self.flag(name, default)
        return type(default)(self.attribute(name, default))

    def has(self, name: str) -> bool:
        """Return whether an input is given."""
        return bool(self._names.get(name) and self._names[name][0])

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs, "" for one that is left out."""
        return self.source.outputs

    def body(self, network: Network, operands: Sequence[int]) -> list[int]:
        """Add the nodes of a nested graph, and return its results for these operands."""
        self.require(
            len(network.inputs) == len(operands),
            f"its graph has {len(network.inputs)} inputs, gets {len(operands)}",
        )
        try:
            return self._around.body(network, operands)
        except GraphError as fault:
            raise self.located(fault) from None

    @property
    def packed(self) -> dict[int, PackedWeights]:
        """How constants that are dequantized weights in blocks are stored."""
        return self._around.packed

    # Operands

    def real(self, name: str) -> int:
        """Return the tensor of an input, dequantized."""
        return self._around.number(self._name(name))

    def codes(self, name: str) -> int | None:
        """Return the quantized tensor of an input, whatever the result is; None if it is not quantized."""
        return self._around.codes(self._name(name))

    def _name(self, name: str) -> str:
        self.require(self.has(name), f"input {name} is left out, it must be there")
        return self._names[name][0]

    def known(self, name: str) -> Array | None:
        """Return the value of an input that is a constant; None for others."""
        return self.builder.tensors[self.real(name)].array

    def value(self, name: str) -> Array:
        """Return the value of an input that decides shapes or parameters. Raises GraphError if only a run gives it."""
        array = self.known(name)
        if array is None:
            raise self.source.fault(
                f"input {name} decides shapes or parameters, so it must be a constant, or follow from constants and "
                "shapes"
            )
        return array

    def bits(self, name: str) -> int:
        """Return the bits per element of an input that is stored one element per byte; 0 if its type states them."""
        return self._around.bits(self._name(name)) if self.has(name) else 0

    def wholes(self, name: str) -> list[int]:
        """Return the value of an input as a list of integers."""
        array = self.value(name).reshape(-1)
        self.require(array.dtype.kind in "iub", f"input {name} is {array.dtype}, must be whole numbers")
        return [int(number) for number in array]

    # Results

    @property
    def makes_codes(self) -> bool:
        """Whether the results are quantized."""
        return any(self._around.result(name) is not None for name in self.source.outputs if name)

    @property
    def on_codes(self) -> bool:
        """Whether operands are taken quantized."""
        return self.makes_codes or self._around.sums(self.source)

    def kind(self, index: int = 0, dtype: str = "float32") -> TensorType:
        """Return the type of an output: quantized as planned, otherwise of element type `dtype`."""
        codes = self._around.result(self.source.outputs[index])
        return unshaped(dtype) if codes is None else unshaped(codes.dtype, codes.quantization)

    def dequantized(self, codes: int) -> None:
        """State that the first output is the dequantized value of a quantized tensor."""
        self._around.dequantized(self.source.outputs[0], codes)

    # Operands

    def tensor(self, name: str) -> int:
        """Return the tensor of an input: quantized if it is stored so and the node computes on quantized values.

        Integers of quantized tensors stay quantized only for operators that move elements.
        """
        return self._tensor(self._name(name))

    def optional(self, name: str) -> int | None:
        """Return the tensor of an input; None if it is left out."""
        return self.tensor(name) if self.has(name) else None

    def tensors(self, name: str) -> list[int]:
        """Return the tensors of a repeated input."""
        return [self._tensor(value) for value in self._names[name]]

    def _tensor(self, name: str) -> int:
        if self.on_codes:
            codes = self._around.codes(name)
            if codes is not None:
                return codes
        number = self._around.number(name)
        if self._moves or self.on_codes:
            return number
        if number not in self._bare:
            self._bare[number] = self.plainly(number)
        return self._bare[number]

    # Nodes

    def coded(self, tensor: int, quantization: Quantization) -> int:
        """Return a tensor of integers under a quantization, with the same bytes."""
        held = self.builder.tensors[tensor]
        if held.type.quantization is None and tensor in self.builder.inputs:
            self.builder.tensors[tensor] = replace(held, type=replace(held.type, quantization=quantization))
            return tensor
        return self._renamed(tensor, quantization)

    def plainly(self, tensor: int) -> int:
        """Return a quantized tensor as integers, with the same bytes."""
        return self._renamed(tensor, None)

    def own(self, op: str, types: Sequence[str], attributes: Mapping[str, Any]) -> tuple[int, ...]:
        """Add a node of a user-registered operator on dequantized operands, and return its results.

        types: element types of the results; if empty, that of the first operand.
        """
        inputs = [self._around.number(name) if name else None for name in self.source.inputs]
        first = next((self.builder.type(number).dtype for number in inputs if number is not None), "float32")
        count = len(self.outputs)
        self.require(len(types) in (0, count), f"has {count} outputs, and {len(types)} are registered")
        results = [unshaped(dtype) for dtype in types or (first,) * count]
        return self.added(Step(op, inputs, results, {"values": attributes}))

    @property
    def sums_stay(self) -> bool:
        """Whether the result is the int32 accumulator itself, of which floats are made later."""
        return self.on_codes and not self.makes_codes

    def result_of(self, inputs: Sequence[int | None]) -> TensorType:
        """Return the type of the node's result: quantized as planned, otherwise of the first operand's element type."""
        first = next((kind for kind in self.kinds_of(inputs) if kind is not None), None)
        floats = first is None or (first.quantization is not None and self.on_codes)
        return self.kind(0, "float32" if floats or first is None else first.dtype)

    def as_real(self, tensor: int) -> int:
        """Return a tensor dequantized if it is quantized; a constant is computed when the graph is built."""
        if self.builder.type(tensor).quantization is None:
            return tensor
        return self.added(Step("dequantize", [tensor], [unshaped("float32")], {}))[0]

    def in_type(self, tensor: int, kind: TensorType) -> int:
        """Return a tensor quantized, or requantized, to a type; for a type that is not quantized it stays."""
        if kind.quantization is None or self.like(tensor) == unshaped(kind.dtype, kind.quantization):
            return tensor
        return self.added(Step("quantize", [tensor], [kind], {"rescale": "float32"}))[0]

    def remember(self, outputs: Sequence[int]) -> None:
        """Note the place of the last node in the graph for the results that it has."""
        self._around.makers.update(dict.fromkeys(outputs, len(self.builder.nodes) - 1))

    def calculated(self, step: Step) -> tuple[int, ...]:
        """Add a node and return its results.

        On quantized values it computes as ONNX defines it (`rescale="float32"`), unless it only moves them. If its
        operator does not take them, it computes on floats.
        """
        if not self.on_quantized(step):
            return self._plain(step)
        if "rescale" in step.parameters:
            return self.added(step)
        if not self.on_codes and not any(kind.quantization for kind in step.results):
            return self._on_bytes(step)
        if keeps_codes(step.op):
            step = step._replace(inputs=self._alike(step))
        else:
            step = step._replace(parameters={**step.parameters, "rescale": "float32"})
        kinds, result = self.kinds_of(step.inputs), step.results[0]
        if step.op in SUMS and (result.real or has_own_bias(kinds)):
            real = real_sum(self, step.op, step.inputs, step.parameters)
            if real is not None:
                return (self.in_type(real, result),)
        if self.takes(step):
            return self.added(step)
        reason = f"{step.op} does not take {_listed(kinds)} -> {_listed(step.results)}"
        self._around.computes_in_floats(self.source, reason)
        return self.by_floats(step._replace(parameters={**step.parameters, "rescale": "fixed_point"}))

    def _renamed(self, tensor: int, quantization: Quantization | None) -> int:
        """Return a tensor with the same bytes under a quantization; None for plain integers."""
        held, shape = self.builder.tensors[tensor], self.builder.shape(tensor)
        if held.type.quantization == quantization:
            return tensor
        if held.array is not None:
            return self.builder.constant(held.name, held.array, quantization)
        kind = unshaped(held.type.dtype, quantization)
        return self.added(Step("reshape", [tensor], [kind], {"shape": shape}))[0]

    def _alike(self, step: Step) -> Sequence[int | None]:
        """Return the operands of a move requantized as its results are, if all of these are quantized alike."""
        target = step.results[0]
        scaling = target.quantization
        if scaling is None or scaling.axis is not None or any(kind != target for kind in step.results):
            return step.inputs
        data = 1 if step.op in _FIRST_ONLY else len(step.inputs)
        return [
            self.in_type(number, target) if place < data and number is not None else number
            for place, number in enumerate(step.inputs)
        ]

    # Whole numbers

    def _plain(self, step: Step) -> tuple[int, ...]:
        """Add a node on values that are not quantized; integers that its operator lacks are computed in wider ones."""
        kinds = self.kinds_of(step.inputs)
        if chooses(step.op) and any(kind is not None and kind.dtype in BYTES for kind in kinds):
            return self._of_bytes(step)
        if step.op in ORDERED and kinds[0] is not None and kinds[0].dtype == "uint64":
            return self._by_order(step)
        wide = wider(step.op, kinds, step.results)
        if wide is None:
            return self.added(step)
        narrow = next(kind.dtype for kind in kinds if kind is not None)
        if narrow == "float64":
            self.builder.note("computes in float32 what the model has in float64")
        operands = [
            self.cast(number, wide)
            if number is not None and kind is not None and kind.dtype == narrow
            else number
            for number, kind in zip(step.inputs, kinds, strict=True)
        ]
        types = [unshaped(wide) if kind.dtype == narrow else kind for kind in step.results]
        added = self.added(step._replace(inputs=operands, results=types))
        return tuple(
            [self.cast(number, kind.dtype) for number, kind in zip(added, step.results, strict=True)]
        )

    def _by_order(self, step: Step) -> tuple[int, ...]:
        """Add a comparison of uint64 values as int64 values: subtracting 2**63 keeps their order."""

        def turned(number: int, dtype: str) -> int:
            signed = self.cast(number, "int64")
            return self.cast(self.step("add", [signed, self.scalar(-(2**63), signed)]), dtype)

        operands = [None if number is None else turned(number, "int64") for number in step.inputs]
        types = [unshaped("int64") if kind.dtype == "uint64" else kind for kind in step.results]
        numbers = self.added(step._replace(inputs=operands, results=types))
        return tuple(
            [
                turned(number, "uint64") if kind.dtype == "uint64" else number
                for number, kind in zip(numbers, step.results, strict=True)
            ]
        )

    def _of_bytes(self, step: Step) -> tuple[int, ...]:
        """Add a node that selects among int8 or uint8; an operator that needs a quantization gets scale 1."""
        kinds = self.kinds_of(step.inputs)
        if step.op not in SPATIAL and self.takes(step):
            return self.added(step)
        coded = [
            self._renamed(number, ITSELF)
            if number is not None and kind is not None and kind.dtype in BYTES
            else number
            for number, kind in zip(step.inputs, kinds, strict=True)
        ]
        types = [replace(kind, quantization=ITSELF) if kind.dtype in BYTES else kind for kind in step.results]
        numbers = self.added(step._replace(inputs=coded, results=types))
        return tuple([self.plainly(number) for number in numbers])

    def _on_bytes(self, step: Step) -> tuple[int, ...]:
        """Add a node on the bytes of quantized values; a move keeps their quantization."""
        kinds = self.kinds_of(step.inputs)
        data = [kind for kind in (kinds[:1] if step.op in _FIRST_ONLY else kinds) if kind is not None]
        scaling = data[0].quantization
        coded = [replace(kind, quantization=scaling) for kind in step.results]
        alike = len({(kind.dtype, kind.quantization) for kind in (*data, *coded)}) == 1
        if alike and scaling is not None and scaling.axis is None and keeps_codes(step.op):
            move = step._replace(results=coded)
            if self.takes(move):
                return self.added(move)
        bare = [None if number is None else self.plainly(number) for number in step.inputs]
        return self._plain(step._replace(inputs=bare))


def keeps_codes(op: str) -> bool:
    """Return whether the results of an operator have the quantization of its operands."""
    return op in _KEEP_CODES or family(op) == "movement"


def _listed(kinds: Sequence[TensorType | None]) -> str:
    return ", ".join("-" if kind is None else kind.dtype for kind in kinds)
