"""The builder of graphs: names, order and inference, for readers of model files, built-in models, APIs and tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import SIZE_ONLY, Array, Data, Quantization, TensorType
from npusim.kernels.graph import folding, limits
from npusim.kernels.graph.bind import (
    Offered,
    Sizes,
    bound_tensor,
    check_names,
    checked,
    learned,
    names_of,
    open_batch,
)
from npusim.kernels.graph.graph import UNRANKED, Graph, Node, State, Tensor, quoted, unique
from npusim.kernels.graph.inference import complete_results
from npusim.kernels.operator.parameters import NONE, Parameters

_MOST_OPTIONS = 4
"""Maximum number of options that one note names, so that it stays one line."""


def unshaped(dtype: str, quantization: Quantization | None = None) -> TensorType:
    """Return a type without a shape, for a result whose shape follows from the operands."""
    return TensorType(dtype, UNRANKED, quantization)


class GraphBuilder:
    """A graph under construction, for readers of model files, built-in models, APIs and tests.

    Tensors are known by their numbers. Nodes are added in an order in which they can run. Every node gets a unique
    name, and results get their shapes by inference as soon as those of the operands are known. The graph that `graph`
    returns has not been checked yet.
    """

    def __init__(self, name: str, sizes: Sizes | None = None) -> None:
        """`sizes` are those that the user gives to inputs, as for `npusim.kernels.graph.bind.bind`.

        Named sizes that given shapes contain are learnt when the inputs are added, or before that by `expect`.
        """
        self.name = name
        self.tensors: list[Tensor] = []
        self.nodes: list[Node] = []
        self.inputs: list[int] = []
        self.states: list[State] = []
        self.notes: list[str] = []
        self.sizes = checked(sizes)
        self.most_folded = 0
        """Maximum number of result elements of a node that is folded into constants; 0: fold no node."""
        self.budget: limits.Budget | None = None
        """Remaining operations and constants of a model file; None for graphs that are not read from a file."""
        self.offered = Offered()
        self._assumed: dict[str, int | tuple[int, ...]] = {}
        self._known_names: list[str] = []
        self._names: dict[str, int] = {}

    def note(self, text: str) -> None:
        """Add a line for the user who runs the graph, such as a key of its file that is not followed; only once."""
        if text not in self.notes:
            self.notes.append(text)

    # Tensors

    def type(self, tensor: int) -> TensorType:
        """Return element type, shape and quantization of a tensor."""
        return self.tensors[tensor].type

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.tensors[tensor].type.shape

    def tensor(self, name: str, type: TensorType, data: Data | None = None) -> int:
        """Add a tensor and return its number: a constant if it has data, else one that a node will write."""
        if isinstance(data, np.ndarray):
            data.setflags(write=False)
        self.tensors.append(Tensor(name, type, data))
        return len(self.tensors) - 1

    def rename(self, tensor: int, name: str) -> None:
        """Give a tensor another name."""
        self.tensors[tensor] = replace(self.tensors[tensor], name=name)

    def reshape(self, tensor: int, shape: tuple[int, ...]) -> None:
        """Give a tensor a shape that does not follow from operands."""
        kind = self.tensors[tensor].type
        self.tensors[tensor] = replace(self.tensors[tensor], type=replace(kind, shape=shape))

    def constant(self, name: str, data: Array, quantization: Quantization | None = None) -> int:
        """Return a new constant with the shape and element type of `data`, which may not change afterwards."""
        return self.tensor(name, TensorType(data.dtype.name, data.shape, quantization), data)

    def sized(self, name: str, type: TensorType) -> int:
        """Return a new constant without data, of which only the size is known. Its network can be timed only."""
        return self.tensor(name, type, SIZE_ONLY)

    def input(self, name: str, type: TensorType, size_names: Sequence[str] = ()) -> int:
        """Return a new input of the graph; inputs keep the order in which they were added.

        Sizes that are unknown (with these names) are those that the user gave. Raises GraphError for one that nobody
        gave.
        """
        limits.check_axes(type.shape, f"input {quoted(name)}")
        tensor = self.tensor(name, type)
        self.tensors[tensor] = replace(self.tensors[tensor], size_names=tuple(size_names))
        return self.as_input(tensor)

    def expect(self, inputs: Iterable[Tensor]) -> None:
        """Learn the named sizes that are given to inputs, so that the order of adding them does not matter.

        Raises GraphError for a name that has two sizes.
        """
        inputs = list(inputs)
        for position, tensor in enumerate(inputs):
            self.offered.learn(tensor, position, self.sizes)
        self.sizes = learned(inputs, self.offered.taken | self.sizes)

    def as_input(self, tensor: int) -> int:
        """Make a tensor a graph input and settle its open sizes; an open first axis that nobody gave becomes 1.

        Raises GraphError if another size is unknown and not given.
        """
        held = self.tensors[tensor]
        self._known_names += names_of(held)
        self.offered.learn(held, len(self.inputs), self.sizes)
        self.sizes = learned([held], self.offered.taken | self.sizes)
        assumed = open_batch(held, self.sizes)
        self._assumed |= assumed
        self.offered.taken |= assumed
        self.tensors[tensor] = bound_tensor(held, self.sizes | assumed)
        self.sizes = learned([held], self.sizes | assumed)
        self.inputs.append(tensor)
        return tensor

    def size(self, name: str, default: int) -> int:
        """Return a named size of the network: the one that the user gave, else the default, which a note will show.

        Raises GraphError for a shape in its place.
        """
        self._known_names.append(name)
        given = self.sizes.get(name, default)
        if not isinstance(given, int):
            raise GraphError(f"{name} is one size, {', '.join(map(str, given))} was given")
        if name not in self.sizes:
            self._assumed[name] = default
        return given

    def check_sizes(self) -> None:
        """Raise GraphError if a size was given for a name that neither an input nor a size has."""
        check_names(self.sizes, self._known_names)

    def open_input(self, name: str, type: TensorType, size_names: Sequence[str] = ()) -> int:
        """Return a new input whose unknown sizes (with these names) `npusim.kernels.graph.bind` gives later."""
        self.tensors.append(Tensor(name, type, size_names=tuple(size_names)))
        self._known_names += names_of(self.tensors[-1])
        self.inputs.append(len(self.tensors) - 1)
        return self.inputs[-1]

    def state(self, name: str, type: TensorType) -> int:
        """Add a state and return its number; it is zero before the first run, and `keep` says what it is after one."""
        return self.tensor(name, type)

    def keep(self, before: int, after: int) -> None:
        """Make the value of `after` that of the state `before` in the next run."""
        self.states.append(State(before, after))

    # Nodes

    def add(
        self,
        op: str,
        inputs: Sequence[int | None],
        outputs: Sequence[int],
        parameters: Parameters = NONE,
        *,
        name: str = "",
        bodies: Sequence[Graph] = (),
    ) -> Node:
        """Add a node that writes existing tensors, and return it.

        Its name is `name` or that of the operator, with a number appended if another node has it. A node that is
        folded (`most_folded`) is not added: its results become constants. Raises GraphError if the stated shape of a
        result is not the one that follows from its operands.
        """
        node = Node(name or op, op, tuple(inputs), tuple(outputs), parameters, tuple(bodies))
        complete_results(self.tensors, node)
        for number in outputs:
            limits.check_axes(self.shape(number), f"layer {quoted(node.name)} ({op})")
        if not self._folded(node):
            if self.budget is not None:
                self.budget.operation()
            node = replace(node, name=unique(node.name, self._names))
            self.nodes.append(node)
        return node

    def _folded(self, node: Node) -> bool:
        """Replace the results of a node by constants if its operands are constants; return whether it was possible."""
        if not self.most_folded or not folding.foldable(self, node):
            return False
        arrays = folding.folded(self, node, self.most_folded)
        if arrays is None or not self.afford(sum(array.size for array in arrays)):
            return False
        for number, array in zip(node.outputs, arrays, strict=True):
            array.setflags(write=False)
            self.tensors[number] = replace(self.tensors[number], data=array)
        return True

    def afford(self, elements: int) -> bool:
        """Count elements of constants that the reader computes; False once they exceed the model's budget."""
        return self.budget is None or self.budget.afford(elements)

    def read_with(self, most_folded: int, budget: limits.Budget | None = None, weight_bytes: int = 0) -> None:
        """Set up for reading a model file: fold nodes on constants, and limit operations and constants by a budget.

        weight_bytes: bytes of weights in the file, by which the limit of operations grows.
        """
        self.most_folded = most_folded
        self.budget = budget or self.budget or limits.Budget(weight_bytes)

    def node(
        self,
        op: str,
        inputs: Sequence[int | None],
        results: Sequence[TensorType],
        parameters: Parameters = NONE,
        *,
        name: str = "",
        bodies: Sequence[Graph] = (),
    ) -> tuple[int, ...]:
        """Add a node with new results (`unshaped` where the shape follows from the operands) and return these.

        Results are called as the node is, further ones with a number behind it.
        """
        stem = name or f"{op}_{len(self.nodes)}"
        names = [stem if position == 0 else f"{stem}:{position}" for position in range(len(results))]
        outputs = tuple(self.tensor(*result) for result in zip(names, results, strict=True))
        self.add(op, inputs, outputs, parameters, name=stem, bodies=bodies)
        return outputs

    def layer(
        self,
        op: str,
        inputs: Sequence[int | None],
        quantization: Quantization | None = None,
        *,
        dtype: str = "",
        name: str = "",
        **parameters: Any,
    ) -> int:
        """Add a node with one result, whose shape follows from the operands, and return the result.

        quantization: scale and zero point of the result; dtype: its element type, that of the first operand by default.
        parameters:   those of the operator, such as padding=((1, 1), (1, 1)); `npusim ops OP` has its conditions.

        Raises GraphError for an operator or a parameter that npusim does not have, and operands that do not fit.
        """
        from npusim.kernels.table import operator

        first = inputs[0] if inputs else None
        if not dtype and first is None:
            raise GraphError(
                f"layer {quoted(name or op)}: has no first operand; state the dtype of its result"
            )
        result = unshaped(dtype or self.type(first).dtype, quantization)  # type: ignore[arg-type]
        return self.node(op, inputs, [result], operator(op).parameters(**parameters), name=name)[0]

    def graph(self, outputs: Sequence[int]) -> Graph:
        """Return the graph with these outputs."""
        if self._assumed:
            self.note(_assumed_text(self._assumed))
        return Graph(
            self.name,
            tuple(self.tensors),
            tuple(self.nodes),
            tuple(self.inputs),
            tuple(outputs),
            tuple(self.states),
            tuple(self.notes),
        )


def _assumed_text(assumed: Sizes) -> str:
    """Return the note that shows the values of sizes that nobody gave, and the options that give others."""
    from shlex import quote

    names = [name if isinstance(size, int) else "batch" for name, size in assumed.items()]
    options = [
        f"{name}=N" if isinstance(size, int) else f"{name}={','.join(['N', *map(str, size[1:])])}"
        for name, size in assumed.items()
    ]
    shown = "".join(f" --shape {quote(option)}" for option in options[:_MOST_OPTIONS])
    more = f" (and {len(options) - _MOST_OPTIONS} more)" if len(options) > _MOST_OPTIONS else ""
    values = [size if isinstance(size, int) else 1 for size in assumed.values()]
    sizes_text = ", ".join(
        f"{name} = {value}"
        for name, value in [*dict(zip(names, values, strict=True)).items()][:_MOST_OPTIONS]
    )
    return f"{sizes_text}, which the file leaves open;{shown}{more} gives another"
