"""The builder of graphs: names, order and inference, for readers of model files, built-in models, APIs and tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from npusim.isa.base.tensor import SIZE_ONLY, Array, Data, Quantization, TensorType
from npusim.kernels.graph.bind import Sizes, bound_tensor, check_names, checked, learned, names_of
from npusim.kernels.graph.graph import UNRANKED, Graph, Node, State, Tensor
from npusim.kernels.graph.inference import complete_results
from npusim.kernels.graph.names import unique
from npusim.kernels.operator.parameters import NONE, Parameters


def unshaped(dtype: str, quantization: Quantization | None = None) -> TensorType:
    """The type of a result whose shape its operands say."""
    return TensorType(dtype, UNRANKED, quantization)


class GraphBuilder:
    """A graph under construction; tensors are known by their numbers.

    Nodes come in the order in which they can run. Every node gets a name of its own, and results get the shapes that
    their operands say as soon as the operands' are known. What comes out of `graph` still wants the check.
    """

    def __init__(self, name: str, sizes: Sizes | None = None) -> None:
        """`sizes` are those that the user gives to inputs, as for `npusim.kernels.graph.bind.bind`.

        Those with names that shapes of inputs contain are learnt as these are added, or before that by `expect`.
        """
        self.name = name
        self.tensors: list[Tensor] = []
        self.nodes: list[Node] = []
        self.inputs: list[int] = []
        self.states: list[State] = []
        self.notes: list[str] = []
        self.sizes = checked(sizes)
        self._offered: list[str] = []
        self._names: dict[str, int] = {}

    def note(self, text: str) -> None:
        """Adds a line for whoever runs the graph, such as why something is not read as it may be meant; once."""
        if text not in self.notes:
            self.notes.append(text)

    # Tensors

    def type(self, tensor: int) -> TensorType:
        """Element type, shape and quantization of a tensor."""
        return self.tensors[tensor].type

    def shape(self, tensor: int) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self.tensors[tensor].type.shape

    def tensor(self, name: str, type: TensorType, data: Data | None = None) -> int:
        """A new tensor: a constant where it has data, else for somebody to write."""
        if isinstance(data, np.ndarray):
            data.setflags(write=False)
        self.tensors.append(Tensor(name, type, data))
        return len(self.tensors) - 1

    def rename(self, tensor: int, name: str) -> None:
        """Gives a tensor another name."""
        self.tensors[tensor] = replace(self.tensors[tensor], name=name)

    def reshape(self, tensor: int, shape: tuple[int, ...]) -> None:
        """Gives a tensor a shape that neither it nor its operands say."""
        kind = self.tensors[tensor].type
        self.tensors[tensor] = replace(self.tensors[tensor], type=replace(kind, shape=shape))

    def constant(self, name: str, data: Array, quantization: Quantization | None = None) -> int:
        """A new constant with the shape and element type of `data`, which may not change afterwards."""
        return self.tensor(name, TensorType(data.dtype.name, data.shape, quantization), data)

    def sized(self, name: str, type: TensorType) -> int:
        """A new constant of which only the size is known: it can be timed."""
        return self.tensor(name, type, SIZE_ONLY)

    def input(self, name: str, type: TensorType, size_names: Sequence[str] = ()) -> int:
        """A new input of the graph; inputs keep the order in which they were added.

        Sizes that are unknown (with these names) are those that the user gave. Raises GraphError for one that nobody
        gave.
        """
        tensor = self.tensor(name, type)
        self.tensors[tensor] = replace(self.tensors[tensor], size_names=tuple(size_names))
        return self.as_input(tensor)

    def expect(self, inputs: Iterable[Tensor]) -> None:
        """Learns the sizes with names that are given to inputs, so that the order they are added in does not matter.

        Raises GraphError for a name that has two sizes.
        """
        self.sizes = learned(inputs, self.sizes)

    def as_input(self, tensor: int) -> int:
        """Makes a tensor an input, with all its sizes. Raises GraphError where one is unknown and nobody gave it."""
        self._offered += names_of(self.tensors[tensor])
        self.sizes = learned([self.tensors[tensor]], self.sizes)
        self.tensors[tensor] = bound_tensor(self.tensors[tensor], self.sizes)
        self.inputs.append(tensor)
        return tensor

    def check_sizes(self) -> None:
        """Raises GraphError for sizes that were given to what is no input and no size of one."""
        check_names(self.sizes, self._offered)

    def open_input(self, name: str, type: TensorType, size_names: Sequence[str] = ()) -> int:
        """A new input whose unknown sizes (with these names) `npusim.kernels.graph.bind` gives later."""
        self.tensors.append(Tensor(name, type, size_names=tuple(size_names)))
        self._offered += names_of(self.tensors[-1])
        self.inputs.append(len(self.tensors) - 1)
        return self.inputs[-1]

    def state(self, name: str, type: TensorType) -> int:
        """A new state, real zero before the first run; `keep` says what it is after a run."""
        return self.tensor(name, type)

    def keep(self, before: int, after: int) -> None:
        """The value of `after` is that of the state `before` in the next run."""
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
        """Adds a node that writes existing tensors, and returns it.

        Its name is `name` or that of the operator, with a number behind it if another node has it. Raises GraphError
        where a result says another shape than its operands.
        """
        node = Node(
            unique(name or op, self._names), op, tuple(inputs), tuple(outputs), parameters, tuple(bodies)
        )
        complete_results(self.tensors, node)
        self.nodes.append(node)
        return node

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
        """Adds a node with new results (`unshaped` where the operands say the shape) and returns these.

        Results are called as the node is, further ones with a number behind it.
        """
        stem = name or f"{op}_{len(self.nodes)}"
        names = [stem if position == 0 else f"{stem}:{position}" for position in range(len(results))]
        outputs = tuple(self.tensor(*result) for result in zip(names, results, strict=True))
        self.add(op, inputs, outputs, parameters, name=stem, bodies=bodies)
        return outputs

    def graph(self, outputs: Sequence[int]) -> Graph:
        """The graph with these outputs."""
        return Graph(
            self.name,
            tuple(self.tensors),
            tuple(self.nodes),
            tuple(self.inputs),
            tuple(outputs),
            tuple(self.states),
            tuple(self.notes),
        )
