"""One operation of a model with its arguments by name, and the sizes and values that are known of them.

While a model is prepared only the model is known. When it is executed, the request adds sizes and values, and computed
temporaries add theirs. The same rules are checked with either knowledge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from npusim.frontends.nn_hal.checked import CheckedGraph, CheckedOperand, CheckedOperation
from npusim.frontends.nn_hal.enumerations import HalVersion, OperandType
from npusim.frontends.nn_hal.fault import Fault, Refused
from npusim.frontends.nn_hal.operations.signatures import Binding, Slot
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.graph import UNRANKED

Size = int | None
"""A size of a tensor; None while it is not known."""

Shape = tuple[Size, ...] | None
"""The sizes of a tensor, None while not even their number is known; () for a scalar."""


class Known:
    """Known sizes and values of the operands of one graph: at first those of the model, to which callers add more.

    shapes:    operand -> its sizes; a size of 0 is known here, unlike in a model.
    values:    operand -> its elements, in its shape.
    omitted:   the operands that have no value.
    undecided: inputs of the graph that a request may still give or omit.
    """

    def __init__(self, graph: CheckedGraph) -> None:
        self.graph = graph
        self.shapes: dict[int, Shape] = {}
        self.values: dict[int, Array] = {}
        self.omitted: set[int] = {operand.index for operand in graph.operands if not operand.has_value}
        self.undecided: set[int] = set(graph.inputs)

    def shape(self, operand: int) -> Shape:
        """Return the sizes of an operand."""
        if operand not in self.shapes:
            stated = self.graph.operands[operand].dimensions
            constant = self.graph.operands[operand].constant
            sizes = None if stated is None else tuple(size if size or constant else None for size in stated)
            self.shapes[operand] = sizes
        return self.shapes[operand]

    def bound(self, operand: int) -> bool:
        """Return True if all sizes of an operand are known, or it has none because it is omitted."""
        sizes = self.shape(operand)
        return operand in self.omitted or (sizes is not None and None not in sizes)

    def value(self, operand: int) -> Array | None:
        """Return the elements of an operand, None while they are not known."""
        if operand not in self.values and self.graph.operands[operand].constant:
            self.values[operand] = self.graph.operands[operand].value()
        return self.values.get(operand)


@dataclass(frozen=True, slots=True)
class Argument:
    """An operand as an argument of an operation.

    optional: whether it may be omitted.
    place:    its path in the structs: "operations[0].inputs[2]".
    """

    name: str
    optional: bool
    place: str
    operand: CheckedOperand
    known: Known = field(repr=False)

    @property
    def type(self) -> OperandType:
        """Its type."""
        return self.operand.type

    @property
    def omitted(self) -> bool:
        """Whether it has no value."""
        return self.operand.index in self.known.omitted

    @property
    def undecided(self) -> bool:
        """Whether it may be omitted, and only the request will say whether it is."""
        return self.optional and self.operand.index in self.known.undecided

    @property
    def shape(self) -> Shape:
        """Its sizes, as far as they are known."""
        return self.known.shape(self.operand.index)

    @property
    def value(self) -> Array | None:
        """Its elements; None while they are not known."""
        return self.known.value(self.operand.index)


class Needs(Exception):
    """A node cannot be made before the value or sizes of an operand are known: an input's are in the request."""

    def __init__(self, argument: Argument) -> None:
        super().__init__(f"{argument.place}: operands[{argument.operand.index}] must be known")
        self.operand = argument.operand.index


def quantization_of(operand: CheckedOperand) -> Quantization | None:
    """Return the quantization of an operand; None if its elements are plain numbers, as those of TENSOR_INT32 are.

    The scale of a bias is left out: it follows from the scales of input and weights.
    """
    if operand.channels is not None:
        scales = operand.channels.scales
        return Quantization(scales, (0,) * len(scales), operand.channels.axis)
    if operand.row.scaling != "one":
        return None
    return Quantization((operand.scale,), (operand.zero_point,))


def tensor_type(operand: CheckedOperand, shape: tuple[int, ...] = UNRANKED) -> TensorType:
    """Return the tensor type of an operand, by default without a shape, which a result gets from its operands."""
    name = operand.row.element
    if name is None:
        raise Refused(Fault(operand.place, f"{operand.type.name} is no tensor that an operation computes on"))
    return TensorType(name, shape, quantization_of(operand))


class Call:
    """An operation with its arguments by the names in its signature."""

    def __init__(
        self,
        operation: CheckedOperation,
        known: Known,
        version: HalVersion,
        binding: Binding,
        referenced: Sequence[CheckedGraph] = (),
    ) -> None:
        """Name the arguments of an operation by the signature that it has.

        referenced: the graphs that IF and WHILE refer to.
        """
        self.operation = operation
        self.place = operation.place
        self.version = version
        self.referenced = referenced
        self.slots = binding.form.inputs.every
        self._defaults = {slot.name: slot.default for slot in self.slots}
        self.inputs = self._arguments("inputs", operation.inputs, binding.inputs, known)
        self.outputs = self._arguments("outputs", operation.outputs, binding.outputs, known)
        self._by_name: dict[str, list[Argument]] = {}
        for argument in (*self.inputs, *self.outputs):
            self._by_name.setdefault(argument.name, []).append(argument)

    def _arguments(
        self, side: str, operands: Sequence[int], slots: Sequence[Slot], known: Known
    ) -> tuple[Argument, ...]:
        graph = known.graph
        return tuple(
            Argument(
                slot.name,
                slot.optional or slot.default is not None,
                f"{self.place}.{side}[{position}]",
                graph.operands[operand],
                known,
            )
            for position, (operand, slot) in enumerate(zip(operands, slots, strict=True))
        )

    def all(self, name: str) -> Sequence[Argument]:
        """Return the arguments of a name: several if it repeats, none if the call has fewer arguments."""
        return self._by_name.get(name, ())

    def get(self, name: str) -> Argument | None:
        """Return the argument of a name; None if it is omitted or the call has fewer arguments."""
        argument = next(iter(self.all(name)), None)
        return None if argument is None or argument.omitted else argument

    def __getitem__(self, name: str) -> Argument:
        return self._by_name[name][0]

    def type(self, name: str) -> OperandType:
        """Return the type of an argument."""
        return self[name].type

    def shape(self, name: str) -> Shape:
        """Return the sizes of an argument, as far as they are known; None if it is missing."""
        argument = self.get(name)
        return None if argument is None else argument.shape

    def rank(self, name: str) -> int | None:
        """Return the number of dimensions of an argument; None while it is not known."""
        sizes = self.shape(name)
        return None if sizes is None else len(sizes)

    def size(self, name: str, axis: int) -> Size:
        """Return one size of an argument; None while it is not known or if it does not exist."""
        sizes = self.shape(name)
        return sizes[axis] if sizes is not None and -len(sizes) <= axis < len(sizes) else None

    def number(self, name: str) -> float | int | None:
        """Return a scalar, or its default if it is missing or omitted; None while it is not known."""
        argument = self.get(name)
        if argument is None:
            return self._defaults.get(name)
        value = argument.value
        return None if value is None or value.size != 1 else value.reshape(-1)[0].item()

    def whole(self, name: str) -> int | None:
        """Return `number` of an INT32 or BOOL as an int."""
        value = self.number(name)
        return None if value is None else int(value)

    def wholes(self, name: str) -> list[int] | None:
        """Return the flattened elements of a TENSOR_INT32; None while they are not known or if it is omitted."""
        argument = self.get(name)
        value = None if argument is None else argument.value
        return None if value is None else [int(element) for element in value.reshape(-1)]

    def axis(self, name: str, of: str, more: int = 0) -> int | None:
        """Return an axis of `of` (with `more` dimensions), counted from the front; None while that is not known."""
        value, rank = self.whole(name), self.rank(of)
        return None if value is None or rank is None or not rank + more else value % (rank + more)

    @property
    def nchw(self) -> bool | None:
        """Whether images are stored channels first; None while that is not known."""
        value = self.whole("nchw")
        return None if value is None else bool(value)

    def image(self, name: str) -> tuple[Size, Size, Size, Size] | None:
        """Return batch, height, width and channels of an image; None while rank or layout is not known."""
        sizes, nchw = self.shape(name), self.nchw
        if sizes is None or len(sizes) != 4 or nchw is None:
            return None
        order = (0, 2, 3, 1) if nchw else (0, 1, 2, 3)
        batch, height, width, channels = (sizes[axis] for axis in order)
        return batch, height, width, channels
