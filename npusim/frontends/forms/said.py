"""What a node of ONNX says: attributes, operands, the types of its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from npusim.frontends.forms.arguments import KINDS, dealt, is_kind, shown
from npusim.frontends.forms.network import Network, Node
from npusim.frontends.forms.surroundings import Surroundings
from npusim.frontends.steps import Steps
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.graph.builder import unshaped
from npusim.kernels.table import file_of

_KEEP_CODES = frozenset({"max_pool_2d", "reduce_max", "reduce_min", "resize_nearest_neighbor"})
"""Operators outside of `movement` whose results have the codes of their operands, if the scales agree."""


class Said(Steps):
    """What a node says, its operands and the types of its results.

    What does not hold raises GraphError, with the node's place.
    """

    def __init__(
        self, node: Node, inputs: str, around: Surroundings, operators: Sequence[str] = ("reshape",)
    ) -> None:
        """`inputs` and `operators` as a row has them."""
        self.source = node
        self._moves = keeps_codes(operators[0]) if operators else True
        self._bare: dict[int, int] = {}
        self._around = around
        self.builder = around.builder
        self._names = dealt(node, inputs)

    # What the node says

    def as_node(self, node: Node, inputs: str, operators: Sequence[str]) -> Self:
        """The conversion of the same operation in other words, with `inputs` and `operators` as a row has them."""
        return type(self)(node, inputs, self._around, operators)

    @property
    def opset(self) -> int:
        """The version of the node's operation."""
        return self._around.opsets.get(self.source.domain, 1)

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute, or what it is where the node does not say it."""
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

    def require(self, holds: bool, text: str) -> None:
        """Raises GraphError with a text where something does not hold."""
        if not holds:
            raise self.source.fault(text)

    def has(self, name: str) -> bool:
        """Whether an input is there."""
        return bool(self._names.get(name) and self._names[name][0])

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs, "" for one that is left out."""
        return self.source.outputs

    def body(self, network: Network, operands: Sequence[int]) -> list[int]:
        """The results of a graph within the node for these inputs."""
        self.require(
            len(network.inputs) == len(operands),
            f"its graph has {len(network.inputs)} inputs, gets {len(operands)}",
        )
        try:
            return self._around.body(network, operands)
        except GraphError as fault:
            raise self._located(fault) from None

    # Operands

    def real(self, name: str) -> int:
        """The tensor of an input, never as codes."""
        return self._around.number(self._name(name))

    def codes(self, name: str) -> int | None:
        """The tensor of an input's codes, whatever the node makes; None where it has none."""
        return self._around.codes(self._name(name))

    def _name(self, name: str) -> str:
        self.require(self.has(name), f"input {name} is left out, it must be there")
        return self._names[name][0]

    def known(self, name: str) -> Array | None:
        """The value of an input that is fixed before anything runs; None for others."""
        return self.builder.tensors[self.real(name)].array

    def value(self, name: str) -> Array:
        """The value of an input that decides shapes or parameters. Raises GraphError where only a run gives it."""
        array = self.known(name)
        if array is None:
            raise self.source.fault(
                f"input {name} decides shapes or parameters, so it must be a constant, or follow from constants and "
                "shapes"
            )
        return array

    def bits(self, name: str) -> int:
        """How many bits the elements of an input have, where that is not all of their type; otherwise 0."""
        return self._around.bits(self._name(name)) if self.has(name) else 0

    def wholes(self, name: str) -> list[int]:
        """Such a value as whole numbers."""
        array = self.value(name).reshape(-1)
        self.require(array.dtype.kind in "iub", f"input {name} is {array.dtype}, must be whole numbers")
        return [int(number) for number in array]

    def axis(self, axis: int, rank: int, name: str = "axis") -> int:
        """An axis counted from the front. Raises GraphError for one that is none."""
        self.require(-rank <= axis < rank, f"{name} is {axis}, must be {-rank}..{rank - 1}")
        return axis % rank

    # Results

    @property
    def makes_codes(self) -> bool:
        """Whether the results are held as codes: the node is a group with what surrounds it, or moves codes."""
        return any(self._around.result(name) is not None for name in self.source.outputs if name)

    @property
    def on_codes(self) -> bool:
        """Whether operands are taken as codes, whatever is made of them."""
        return self.makes_codes or self._around.sums(self.source)

    def kind(self, index: int = 0, dtype: str = "float32") -> TensorType:
        """The type of an output: its codes, or `dtype`."""
        codes = self._around.result(self.source.outputs[index])
        return unshaped(dtype) if codes is None else unshaped(codes.dtype, codes.quantization)

    def plain(self, dtype: str) -> TensorType:
        """A type without codes."""
        return unshaped(dtype)

    def dequantized(self, codes: int) -> None:
        """Says that the first output is what these codes stand for."""
        self._around.dequantized(self.source.outputs[0], codes)

    def _located(self, fault: GraphError) -> GraphError:
        text = str(fault)
        return fault if text.startswith(self.source.place) else self.source.fault(text)


def keeps_codes(op: str) -> bool:
    return op in _KEEP_CODES or file_of(op).startswith("movement.")


_FIRST_ONLY = frozenset({"gather", "gather_nd", "pad", "slice", "strided_slice", "tile", "reshape"})
"""Operators whose other operands are no data."""
