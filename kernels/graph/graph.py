"""The graph: the value that every front end makes and the scheduler consumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import Enum
from typing import Final, NamedTuple, Protocol

import numpy as np

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import SIZE_ONLY, Array, Data, TensorType
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.parameters import NONE, Parameters

UNKNOWN: Final = -1
"""A size that is not known yet (see `npusim.kernels.graph.bind`)."""

UNRANKED: Final = (-2,)
"""The shape of a result whose number of dimensions is not known yet."""


class Origin(Enum):
    """Where a tensor's value comes from."""

    INPUT = "input"
    CONSTANT = "constant"
    SIZED = "constant known by its size only"
    STATE = "state"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named value of a graph; constants carry their data, read-only, in `type.shape`, or SIZE_ONLY.

    `size_names` names the sizes of an input that are UNKNOWN, in their order ("" is no name); what has one name is
    one size.
    `from_reals` says of an input with quantized values that it may also be given as float32.
    """

    name: str
    type: TensorType
    data: Data | None = None
    size_names: tuple[str, ...] = ()
    from_reals: bool = False

    @property
    def constant(self) -> bool:
        """True if the value is fixed before anything runs, with or without its data."""
        return self.data is not None

    @property
    def bound(self) -> bool:
        """True if every size is known."""
        return min(self.type.shape, default=0) >= 0

    @property
    def array(self) -> Array | None:
        """The data of a constant; None without data."""
        return self.data if isinstance(self.data, np.ndarray) else None


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of a graph.

    `op` is the name of an operator of `npusim.kernels` ("conv_2d", ...). `inputs` and `outputs` index
    `Graph.tensors`; an absent optional input is None. `parameters` are of the type that the operator has. `bodies` are
    what a node that decides runs (`npusim.kernels.graph.control`). `on_host` says why the host is to run it although
    the NPU could; empty where the NPU takes what it can. `written` is the operator of the file that it comes from, in
    formats whose operators partition files name: kind, inputs and outputs.
    """

    name: str
    op: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    parameters: Parameters = NONE
    bodies: tuple[Graph, ...] = ()
    on_host: str = ""
    written: tuple[str, tuple[str, ...], tuple[str, ...]] | None = field(
        default=None, compare=False, repr=False
    )


class State(NamedTuple):
    """A tensor whose value lasts from one run to the next: its numbers before and after a run.

    Before the first run its value is zero (its zero point, if quantized).
    """

    before: int
    after: int


class Tensors(Protocol):
    """Anything with numbered tensors: a graph, finished or under construction."""

    @property
    def tensors(self) -> Sequence[Tensor]:
        """The tensors by number."""


@dataclass(frozen=True)  # no slots: caches refer to graphs weakly
class Graph:
    """A network: nodes in an order in which they can run.

    notes: lines that its reader has for the user.
    """

    name: str
    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    states: tuple[State, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def decides(self) -> bool:
        """True if it has nodes with bodies, so that no straight-line program computes it."""
        return any(node.bodies for node in self.nodes)

    def origin(self, number: int) -> Origin:
        """Return where the value of a tensor comes from."""
        data = self.tensors[number].data
        if data is not None:
            return Origin.SIZED if data is SIZE_ONLY else Origin.CONSTANT
        if number in self.inputs:
            return Origin.INPUT
        return Origin.STATE if any(number == state.before for state in self.states) else Origin.VALUE


_LONGEST_SHOWN = 60


def quoted(name: str) -> str:
    """Return a name for a message; the middle of those that converters paste together is left out.

    What is no printable character is escaped, so that a message stays one line.
    """
    if not name.isprintable():
        name = name.encode("unicode_escape").decode()
    half = _LONGEST_SHOWN // 2
    return f'"{name}"' if len(name) <= _LONGEST_SHOWN else f'"{name[:half]}...{name[-half:]}"'


def unique(name: str, uses: dict[str, int]) -> str:
    """Return `name`, with a number behind it if it is in use; `uses` counts how often each name was asked for."""
    candidate = name
    while candidate in uses:
        uses[name] += 1
        candidate = f"{name}_{uses[name]}"
    uses[candidate] = 0
    return candidate


def call_of(graph: Tensors, node: Node) -> Call:
    """Return a node's call as rules and references see it: types and constants instead of indices."""
    operands = [None if index is None else graph.tensors[index] for index in node.inputs]
    return Call(
        parameters=node.parameters,
        inputs=tuple([None if tensor is None else tensor.type for tensor in operands]),
        outputs=tuple([graph.tensors[index].type for index in node.outputs]),
        constants={
            position: tensor.data
            for position, tensor in enumerate(operands)
            if tensor is not None and tensor.data is not None
        },
    )


Order = tuple[int, ...]
"""Axis i of the result is axis order[i] of the operand, as in TRANSPOSE."""


class Layout(NamedTuple):
    """How a front end stores what slides over images and what they slide over.

    image:      its images to batch, height, width, channels.
    filter:     its filters of convolutions to output channel, height, width, input channel.
    depthwise:  its filters of depthwise convolutions to 1, height, width, output channel.
    transposed: its filters of transposed convolutions to output channel, height, width, input channel.
    """

    name: str
    image: Order
    filter: Order
    depthwise: Order
    transposed: Order


_SAME: Order = (0, 1, 2, 3)

NHWC = Layout("NHWC", _SAME, _SAME, _SAME, _SAME)
"""The layout of TensorFlow Lite and NNAPI, and of the operators."""

NCHW = Layout("NCHW", (0, 2, 3, 1), (0, 2, 3, 1), (1, 2, 3, 0), (1, 2, 3, 0))
"""The layout of ONNX, PyTorch, NNEF and NNAdapter.

Filters are output channel, input channel (1 for depthwise filters), height, width; those of transposed convolutions are
input channel, output channel, height, width.
"""
