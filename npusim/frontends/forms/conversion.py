"""What `convert` of a row works with: one node of ONNX on its way into a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.forms.real_sums import SUMS, has_own_bias, real_sum
from npusim.frontends.forms.said import Said, keeps_codes
from npusim.frontends.forms.widening import BYTES, ORDERED, chooses, wider
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import unshaped
from npusim.kernels.graph.call import call_of
from npusim.kernels.graph.layouts import SPATIAL
from npusim.kernels.graph.taking import takes
from npusim.kernels.table import operator

_FIRST_ONLY = frozenset({"gather", "gather_nd", "pad", "slice", "strided_slice", "tile", "reshape"})
"""Operators whose other operands are no data."""

ITSELF = Quantization((1.0,), (0,))
"""Of codes that stand for the numbers that they are."""

MOST_MADE = 1 << 26
"""Elements of a tensor that a few bytes of a file can ask for, and that a run makes."""

MOST_CONSTANT = 1 << 24
"""Of one that is made when the file is read."""


class Conversion(Said):
    """One node on its way into a graph. What npusim cannot express raises GraphError, with the node's place."""

    # Operands

    def tensor(self, name: str) -> int:
        """The tensor of an input: its codes if it is dequantized and the node makes codes, else reals.

        Whole numbers are codes only for what moves them.
        """
        return self._tensor(self._name(name))

    def optional(self, name: str) -> int | None:
        """The tensor of an input, None where it is left out."""
        return self.tensor(name) if self.has(name) else None

    def tensors(self, name: str) -> list[int]:
        """The tensors of an input of which there may be several."""
        return [self._tensor(each) for each in self._names[name]]

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

    def shape(self, tensor: str | int) -> tuple[int, ...]:
        """The shape of a tensor, or of an input."""
        return self.builder.shape(self.tensor(tensor) if isinstance(tensor, str) else tensor)

    # Nodes

    def constant(self, data: Array, quantization: Quantization | None = None) -> int:
        """A new constant."""
        array: Array = np.asarray(data, order="C")
        return self.builder.constant(f"{self.source.name}/constant", array, quantization)

    def coded(self, tensor: int, quantization: Quantization) -> int:
        """A tensor of whole numbers as codes of this quantization; its bytes stay."""
        held = self.builder.tensors[tensor]
        if held.type.quantization == quantization:
            return tensor
        if held.array is not None:
            return self.builder.constant(held.name, held.array, quantization)
        if held.type.quantization is None and tensor in self.builder.inputs:
            self.builder.tensors[tensor] = replace(held, type=replace(held.type, quantization=quantization))
            return tensor
        return self._renamed(tensor, quantization)

    def plainly(self, tensor: int) -> int:
        """A tensor of codes as the whole numbers that they are; its bytes stay."""
        held = self.builder.tensors[tensor]
        if held.type.quantization is None:
            return tensor
        return self._renamed(tensor, None)

    def _renamed(self, tensor: int, quantization: Quantization | None) -> int:
        held, shape = self.builder.tensors[tensor], self.builder.shape(tensor)
        if held.array is not None:
            return self.builder.constant(held.name, held.array, quantization)
        return self._nodes("reshape", [tensor], [unshaped(held.type.dtype, quantization)], {"shape": shape})[
            0
        ]

    def as_real(self, tensor: int) -> int:
        """A tensor as real numbers, if it has codes; a constant is one that reading makes."""
        if self.builder.type(tensor).quantization is None:
            return tensor
        return self._nodes("dequantize", [tensor], [unshaped("float32")], {})[0]

    def one(self, op: str, tensor: int, kind: TensorType, **parameters: Any) -> int:
        """Adds a node of one operand and one result of this type, and returns the result."""
        return self.nodes(op, [tensor], [kind], **parameters)[0]

    def node(
        self, op: str, inputs: Sequence[int | None], kind: TensorType | None = None, **parameters: Any
    ) -> int:
        """Adds a node with one result and returns it.

        kind: the type of the result; None: the node's codes, or the element type of the first operand.
        """
        if kind is None:
            first = next((number for number in inputs if number is not None), None)
            dtype = "float32"
            if first is not None and not (self.builder.type(first).quantization and self.on_codes):
                dtype = self.builder.type(first).dtype
            kind = self.kind(0, dtype)
        return self.nodes(op, inputs, [kind], **parameters)[0]

    def own(self, op: str, types: Sequence[str], attributes: Mapping[str, Any]) -> tuple[int, ...]:
        """Add a node of a user-registered operator on dequantized operands, and return its results.

        types: element types of the results; if empty, that of the first operand.
        """
        inputs = [self._around.number(name) if name else None for name in self.source.inputs]
        first = next((self.builder.type(number).dtype for number in inputs if number is not None), "float32")
        count = len(self.outputs)
        self.require(len(types) in (0, count), f"has {count} outputs, and {len(types)} are registered")
        results = [unshaped(dtype) for dtype in types or (first,) * count]
        return self._nodes(op, inputs, results, {"values": attributes})

    def nodes(
        self, op: str, inputs: Sequence[int | None], results: Sequence[TensorType], **parameters: Any
    ) -> tuple[int, ...]:
        """Adds a node and returns its results.

        On codes it computes as ONNX writes it (`rescale="float32"`), unless they only move. Where the operator does
        not take them, its operands become real numbers and its results codes again.
        """
        kinds = [None if number is None else self.builder.type(number) for number in inputs]
        scalings = [kind.quantization for kind in (*kinds, *results) if kind is not None]
        if not any(scalings):
            return self._plain(op, inputs, results, parameters)
        if "rescale" in parameters:
            return self._nodes(op, inputs, results, parameters)
        if not self.on_codes and not any(kind.quantization for kind in results):
            return self._on_bytes(op, inputs, results, parameters)
        if keeps_codes(op):
            inputs = self._alike(op, inputs, results)
            kinds = [None if number is None else self.builder.type(number) for number in inputs]
        else:
            parameters = {**parameters, "rescale": "float32"}
        if op in SUMS and (results[0].real or has_own_bias(kinds)):
            real = real_sum(self, op, inputs, parameters)
            if real is not None:
                return (self.in_codes(real, results[0]),)
        if takes(op, kinds, results, parameters):
            return self._nodes(op, inputs, results, parameters)
        self._around.in_reals(self.source, f"{op} does not take {_kinds(kinds)} -> {_kinds(results)}")
        reals = [None if number is None else self.as_real(number) for number in inputs]
        wide = [unshaped("float32") if kind.quantization else kind for kind in results]
        made = self._nodes(op, reals, wide, {**parameters, "rescale": "fixed_point"})
        return tuple([self.in_codes(number, kind) for number, kind in zip(made, results, strict=True)])

    def _alike(
        self, op: str, inputs: Sequence[int | None], results: Sequence[TensorType]
    ) -> list[int | None]:
        """The operands of a move in the codes of its results, where these are the same of all."""
        target = results[0]
        data = slice(0, 1) if op in _FIRST_ONLY else slice(0, None)
        scaling = target.quantization
        if scaling is None or scaling.axis is not None or any(kind != target for kind in results):
            return list(inputs)
        places = range(*data.indices(len(inputs)))
        return [
            self.in_codes(number, target) if place in places and number is not None else number
            for place, number in enumerate(inputs)
        ]

    def _plain(
        self,
        op: str,
        inputs: Sequence[int | None],
        results: Sequence[TensorType],
        parameters: Mapping[str, Any],
    ) -> tuple[int, ...]:
        """A node on plain numbers; whole ones of a type that the operator does not have go by way of a wider one."""
        kinds = [None if number is None else self.builder.type(number) for number in inputs]
        if chooses(op) and any(kind is not None and kind.dtype in BYTES for kind in kinds):
            return self._of_bytes(op, inputs, results, parameters)
        if op in ORDERED and kinds[0] is not None and kinds[0].dtype == "uint64":
            return self._by_order(op, inputs, results, parameters)
        wide = wider(op, kinds, results)
        if wide is None:
            return self._nodes(op, inputs, results, parameters)
        narrow = next(kind.dtype for kind in kinds if kind is not None)
        if narrow == "float64":
            self.builder.note("computes in float32 what the model has in float64")
        operands = [
            self.cast(number, wide)
            if number is not None and kind is not None and kind.dtype == narrow
            else number
            for number, kind in zip(inputs, kinds, strict=True)
        ]
        types = [unshaped(wide) if kind.dtype == narrow else kind for kind in results]
        made = self._nodes(op, operands, types, parameters)
        return tuple([self.cast(number, kind.dtype) for number, kind in zip(made, results, strict=True)])

    def _by_order(
        self,
        op: str,
        inputs: Sequence[int | None],
        results: Sequence[TensorType],
        parameters: Mapping[str, Any],
    ) -> tuple[int, ...]:
        """A node that compares numbers without sign of 64 bits: less 2**63 they have a sign and the same order."""

        def turned(number: int, dtype: str) -> int:
            signed = self.cast(number, "int64")
            return self.cast(self.step("add", [signed, self.scalar(-(2**63), signed)]), dtype)

        operands = [None if number is None else turned(number, "int64") for number in inputs]
        types = [unshaped("int64") if kind.dtype == "uint64" else kind for kind in results]
        made = self._nodes(op, operands, types, parameters)
        return tuple(
            [
                turned(number, "uint64") if kind.dtype == "uint64" else number
                for number, kind in zip(made, results, strict=True)
            ]
        )

    def _of_bytes(
        self,
        op: str,
        inputs: Sequence[int | None],
        results: Sequence[TensorType],
        parameters: Mapping[str, Any],
    ) -> tuple[int, ...]:
        """A node that chooses among numbers of a byte: where it wants codes, they are those of themselves."""
        kinds = [None if number is None else self.builder.type(number) for number in inputs]
        if op not in SPATIAL and takes(op, kinds, results, parameters):
            return self._nodes(op, inputs, results, parameters)
        coded = [
            number
            if number is None or kind is None
            else self._renamed(number, ITSELF)
            if kind.dtype in BYTES
            else number
            for number, kind in zip(inputs, kinds, strict=True)
        ]
        types = [replace(kind, quantization=ITSELF) if kind.dtype in BYTES else kind for kind in results]
        made = self._nodes(op, coded, types, parameters)
        return tuple([self.plainly(number) for number in made])

    def cast(self, tensor: int, dtype: str) -> int:
        """The same numbers in another element type."""
        if self.builder.type(tensor).dtype == dtype:
            return tensor
        return self._nodes("cast", [tensor], [unshaped(dtype)], {})[0]

    def step(self, op: str, inputs: Sequence[int | None], dtype: str | None = None, **parameters: Any) -> int:
        """Adds a node on the way to a result: on plain numbers, whatever codes the node makes.

        dtype: the element type of its result, where that is not the first operand's.
        """
        if dtype is None:
            dtype = next(self.builder.type(number).dtype for number in inputs if number is not None)
        return self.nodes(op, inputs, [unshaped(dtype)], **parameters)[0]

    def scalar(self, value: float, like: int) -> int:
        """A constant number of the element type of a tensor."""
        return self.constant(np.array(value, self.builder.type(like).numpy_dtype))

    def filled(self, shape: Sequence[int], value: Any, dtype: str) -> int:
        """A constant of one value."""
        count = prod(self.small(shape, MOST_CONSTANT))
        self.require(
            self.builder.afford(count), f"makes {count:,} elements more than npusim makes of one file"
        )
        return self.constant(np.full(tuple(shape), value, np.dtype(dtype)))

    def small(self, shape: Sequence[int], most: int = MOST_MADE) -> tuple[int, ...]:
        """A shape. Raises GraphError for one of more elements than a model may have npusim make."""
        count = prod(shape)
        self.require(
            min(shape, default=0) >= 0 and count <= most,
            f"makes a tensor of shape {list(shape)}, and npusim makes {most:,} elements at most",
        )
        return tuple(shape)

    def _on_bytes(
        self,
        op: str,
        inputs: Sequence[int | None],
        results: Sequence[TensorType],
        parameters: Mapping[str, Any],
    ) -> tuple[int, ...]:
        """A node on whole numbers, some of which are codes of something: where they only move they stay so."""
        kinds = [None if number is None else self.builder.type(number) for number in inputs]
        data = [kind for kind in (kinds[:1] if op in _FIRST_ONLY else kinds) if kind is not None]
        scaling = data[0].quantization
        coded = [replace(kind, quantization=scaling) for kind in results]
        alike = len({(kind.dtype, kind.quantization) for kind in (*data, *coded)}) == 1
        moves = alike and scaling is not None and scaling.axis is None and keeps_codes(op)
        if moves and takes(op, kinds, coded, parameters):
            return self._nodes(op, inputs, coded, parameters)
        bytes_ = [None if number is None else self.plainly(number) for number in inputs]
        return self._plain(op, bytes_, results, parameters)

    def in_codes(self, tensor: int, kind: TensorType) -> int:
        """Reals, or other codes, in the codes of a type; other types stay."""
        if kind.quantization is None or self.like(tensor) == unshaped(kind.dtype, kind.quantization):
            return tensor
        return self._nodes("quantize", [tensor], [kind], {"rescale": "float32"})[0]

    def _nodes(
        self,
        op: str,
        inputs: Sequence[int | None],
        results: Sequence[TensorType],
        parameters: Mapping[str, Any],
    ) -> tuple[int, ...]:
        builder = self.builder
        outputs = tuple([builder.tensor(self.source.name, kind) for kind in results])
        try:
            node = builder.add(
                op, inputs, outputs, operator(op).parameters(**parameters), name=self.source.name
            )
            if builder.nodes and builder.nodes[-1] is node:
                self._around.makers.update(dict.fromkeys(outputs, len(builder.nodes) - 1))
            call = call_of(builder, node)
            if all(kind is None or min(kind.shape, default=0) >= 0 for kind in call.inputs):
                broken = operator(node.op).broken_rule(call)
                self.require(broken is None, f"{node.op}: {broken}")
        except GraphError as fault:
            raise self._located(fault) from None
        return outputs


def _kinds(kinds: Sequence[TensorType | None]) -> str:
    return ", ".join("-" if kind is None else kind.dtype for kind in kinds)
