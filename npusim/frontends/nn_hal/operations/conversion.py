"""What `convert` of a row works with: one call on its way into a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from npusim.frontends.nn_hal.checked import CheckedOperand
from npusim.frontends.nn_hal.enumerations import ErrorStatus
from npusim.frontends.nn_hal.fault import Fault
from npusim.frontends.nn_hal.operations.call import Argument, Call
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import UNRANKED
from npusim.kernels.operator.parameters import Activation
from npusim.kernels.table import known as known_operator
from npusim.kernels.table import operator

_ACTIVATIONS: tuple[Activation, ...] = ("none", "relu", "relu_n1_to_1", "relu6")
_TO_NHWC, _TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


class Refused(Exception):
    """An operation that breaks a rule, or that npusim does not have (the fault's status says which)."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Needs(Exception):
    """A node cannot be made before the value or sizes of an operand are known: an input's are in the request."""

    def __init__(self, argument: Argument) -> None:
        super().__init__(f"{argument.place}: operands[{argument.operand.index}] must be known")
        self.operand = argument.operand.index


def quantization_of(operand: CheckedOperand) -> Quantization | None:
    """What the codes of an operand mean; None where its elements stand for themselves, as those of TENSOR_INT32 do.

    The scale of a bias says nothing that its operands do not say.
    """
    if operand.channels is not None:
        scales = operand.channels.scales
        return Quantization(scales, (0,) * len(scales), operand.channels.axis)
    if operand.row.scaling != "one":
        return None
    return Quantization((operand.scale,), (operand.zero_point,))


def tensor_type(operand: CheckedOperand, shape: tuple[int, ...] = UNRANKED) -> TensorType:
    """The type of an operand of a graph; as it is without a shape for a result whose operands say it."""
    name = operand.row.element
    if name is None:
        raise Refused(Fault(operand.place, f"{operand.type.name} is no tensor that an operation computes on"))
    return TensorType(name, shape, quantization_of(operand))


class Operands(Protocol):
    """Where a conversion finds the tensors of operands."""

    @property
    def builder(self) -> GraphBuilder:
        """What the nodes go to."""

    def tensor(self, operand: int, role: Argument | None = None) -> int:
        """The tensor of an operand. Raises Needs if its sizes are not known."""


class Conversion:
    """One call on its way into a graph: what `convert` of its row reads and makes.

    Reading what is not known yet raises Needs; what an operator cannot take raises Refused.
    """

    def __init__(self, call: Call, operands: Operands) -> None:
        self.call = call
        self._operands = operands
        self.builder = operands.builder

    # What the call says

    def has(self, name: str) -> bool:
        """Whether an argument is there and not omitted."""
        argument = self.call.get(name)
        if argument is not None and argument.undecided:
            raise Needs(argument)
        return argument is not None

    def whole(self, name: str) -> int:
        """An INT32 scalar, or its default."""
        return int(self._known(self.call.number(name), name))

    def real(self, name: str) -> float:
        """A FLOAT32 or FLOAT16 scalar, or its default."""
        return float(self._known(self.call.number(name), name))

    def flag(self, name: str) -> bool:
        """A BOOL scalar, or its default; of an INT32 whether it is above 0."""
        return self.whole(name) > 0

    def wholes(self, name: str) -> list[int]:
        """The flattened elements of a TENSOR_INT32."""
        values: list[int] = self._known(self.call.wholes(name), name)
        return values

    def pairs(self, name: str) -> list[tuple[int, int]]:
        """The elements of a TENSOR_INT32 of shape [n, 2]."""
        values = self.wholes(name)
        return list(zip(values[::2], values[1::2], strict=True))

    def axis(self, name: str, of: str, more: int = 0) -> int:
        """An axis of `of`, with `more` dimensions, counted from the front."""
        return self.whole(name) % (len(self.shape(of)) + more)

    def activation(self) -> Activation:
        """The fused activation."""
        return _ACTIVATIONS[self.whole("activation")]

    def shape(self, name: str) -> tuple[int, ...]:
        """The sizes of an argument."""
        sizes = self.call.shape(name)
        if sizes is None or None in sizes:
            raise Needs(self.call[name])
        return tuple(size for size in sizes if size is not None)

    def require(self, *names: str) -> None:
        """Raises Needs for the first of these arguments whose elements are not known."""
        for name in names:
            self._known(self.call[name].value, name)

    def _known(self, value: Any, name: str) -> Any:
        if value is None:
            raise Needs(self.call[name])
        return value

    # Tensors and nodes

    def tensor(self, name: str) -> int | None:
        """The tensor of an argument; None where it is not there or omitted."""
        argument = self.call.get(name)
        return None if argument is None else self.given(argument)

    def given(self, argument: Argument) -> int | None:
        """Return the tensor of an argument; None if it is omitted."""
        if argument.undecided:
            raise Needs(argument)
        return None if argument.omitted else self._operands.tensor(argument.operand.index, argument)

    def tensors(self, name: str) -> list[int]:
        """The tensors of an argument that repeats."""
        return [self._operands.tensor(one.operand.index, one) for one in self.call.all(name)]

    def result(self, name: str = "output") -> TensorType:
        """The type of an output, of the shape that operands will say."""
        return self.result_of(self.call[name])

    def result_of(self, output: Argument) -> TensorType:
        """`result` of an output that has its name with others."""
        return tensor_type(output.operand)

    def count(self) -> TensorType:
        """The type of the number of rows of a `counted` operation."""
        return unshaped("int32")

    def node(
        self, op: str, inputs: Sequence[int | None], *results: TensorType, **parameters: Any
    ) -> tuple[int, ...]:
        """Adds a node with these results (not said: the call's output) and returns them.

        It is called as the operation in the model, the second one of an operation with a number behind that.
        """
        if not known_operator(op):
            raise Refused(self._unsupported(f"npusim has no operator {op}"))
        try:
            made = operator(op).parameters(**parameters)
            return self.builder.node(op, inputs, results or (self.result(),), made, name=self.call.place)
        except GraphError as fault:
            raise Refused(self._unsupported(str(fault))) from fault

    def image(self, name: str = "input") -> int:
        """The tensor of an argument that is an image, as batch, height, width, channels."""
        tensor = self.tensor(name)
        assert tensor is not None, name
        return self._transposed(tensor, _TO_NHWC) if self.flag("nchw") else tensor

    def stored(self, image: int) -> int:
        """An image in the layout of the call."""
        return self._transposed(image, _TO_NCHW) if self.flag("nchw") else image

    def sizes(self, name: str = "input") -> tuple[int, int, int, int]:
        """Batch, height, width and channels of an image."""
        sizes = self.shape(name)
        batch, height, width, channels = (sizes[axis] for axis in _TO_NHWC) if self.flag("nchw") else sizes
        return batch, height, width, channels

    def reshaped(self, tensor: int, shape: Sequence[int]) -> int:
        """A tensor under another shape."""
        kind = self.builder.type(tensor)
        return self.node("reshape", [tensor], unshaped(kind.dtype, kind.quantization), shape=tuple(shape))[0]

    def constant(self, name: str, data: Array) -> int:
        """A constant with the type of an output."""
        return self.builder.constant(name, data, quantization_of(self.call[name].operand))

    def _transposed(self, tensor: int, perm: tuple[int, ...]) -> int:
        kind = self.builder.type(tensor)
        return self.node("transpose", [tensor], unshaped(kind.dtype, kind.quantization), perm=perm)[0]

    def _unsupported(self, text: str) -> Fault:
        where = f"{self.call.operation.type.name}: {text}"
        return Fault(self.call.place, where, status=ErrorStatus.GENERAL_FAILURE)
