"""A partition: operators that LiteRT handed over, compiled for the current shapes of its inputs."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from npusim.isa.base.errors import NpusimError
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import Graph
from npusim.litert.c_structs import Context, Tensor
from npusim.litert.engines import Done, Engine
from npusim.litert.process_memory import Memory
from npusim.litert.subgraph import PartGraph, Selection, Shape, Subgraph

_FORMS = 8
"""Number of combinations of input shapes whose programs are cached."""

Resize = Callable[[int, Shape], None]
"""(tensor, shape): sets the shape of a tensor of the context."""


class Compiled(NamedTuple):
    """A partition with known shapes."""

    part: PartGraph
    engine: Engine


class Partition:
    """Some operators of a subgraph. LiteRT prepares it when shapes change, and invokes it."""

    def __init__(self, subgraph: Subgraph, selection: Selection, compiler: Callable[[Graph], Engine]) -> None:
        self.name = subgraph.name
        self._subgraph = subgraph
        self._selection = selection
        self._compile = compiler
        self._forms: OrderedDict[tuple[Shape, ...], Compiled] = OrderedDict()
        self._now: Compiled | None = None

    def prepare(self, context: int, memory: Memory, resize: Resize) -> None:
        """Compile for the shapes of the inputs, and set the shapes of the outputs. Raises NpusimError."""
        self._now = None
        shapes = {
            number: _shape(context, number, memory)
            for number in self._selection.inputs
            if not self._subgraph.constant(number)
        }
        form = tuple(shapes.values())
        compiled = self._forms.get(form)
        if compiled is None:
            part = self._subgraph.graph(self._selection, shapes)
            compiled = self._forms[form] = Compiled(part, self._compile(part.graph))
            if len(self._forms) > _FORMS:
                self._forms.popitem(last=False)
        graph = compiled.part.graph
        for number, output in zip(compiled.part.outputs, graph.outputs, strict=True):
            shape = graph.tensors[output].type.shape
            if _shape(context, number, memory) != shape:
                resize(number, shape)
        self._now = compiled

    def invoke(self, context: int) -> Done:
        """Compute the partition from LiteRT's tensors into LiteRT's tensors. Raises NpusimError."""
        if self._now is None:
            raise NpusimError(f"{self.name}: is invoked before it is prepared")
        part, engine = self._now
        graph = part.graph
        inputs = [
            _elements(context, number, graph, tensor)
            for number, tensor in zip(part.inputs, graph.inputs, strict=True)
        ]
        done = engine.run(inputs)
        if done.outputs is not None:
            _write(context, part, done.outputs)
        return done


def _write(context: int, part: PartGraph, outputs: Sequence[Array]) -> None:
    for number, tensor, value in zip(part.outputs, part.graph.outputs, outputs, strict=True):
        place = _elements(context, number, part.graph, tensor)
        place[...] = value.reshape(place.shape)


def _shape(context: int, number: int, memory: Memory) -> Shape:
    return memory.integers(_tensor(context, number).dims, f"the shape of tensor {number}")


def _tensor(context: int, number: int) -> Tensor:
    """Return a tensor at its current address, which changes when tensors are added."""
    first = Context.from_address(context).tensors
    return Tensor.from_address(first + number * ctypes.sizeof(Tensor))


def _elements(context: int, number: int, graph: Graph, tensor: int) -> Array:
    """Return a view of a tensor's elements in LiteRT. Raises NpusimError if the size is not the compiled one."""
    held, kind = _tensor(context, number), graph.tensors[tensor].type
    if held.bytes != kind.size_bytes:
        raise NpusimError(
            f'tensor {number} "{graph.tensors[tensor].name}" has {held.bytes} bytes in LiteRT, '
            f"{kind.dtype}{list(kind.shape)} has {kind.size_bytes}"
        )
    if not kind.size_bytes:
        return np.empty(kind.shape, kind.numpy_dtype)
    if not held.data:
        raise NpusimError(f'tensor {number} "{graph.tensors[tensor].name}" has no memory in LiteRT')
    raw = memoryview((ctypes.c_uint8 * kind.size_bytes).from_address(held.data))
    return np.frombuffer(raw, kind.numpy_dtype).reshape(kind.shape)
