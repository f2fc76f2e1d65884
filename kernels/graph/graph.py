"""The graph: what every model reader produces and the scheduler consumes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from npusim.isa.base.tensor import Array, TensorType


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named value of a graph; constants carry their data, read-only, in `type.shape`."""

    name: str
    type: TensorType
    data: Array | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of a graph.

    `op` is the name of an operator of `npusim.kernels` ("conv_2d", ...). `inputs` and `outputs` index
    `Graph.tensors`; an absent optional input is None. `attributes` holds JSON values only.
    """

    name: str
    op: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Graph:
    """A network: nodes in an order in which they can run. `variables` are state tensors, zero at start."""

    name: str
    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    variables: tuple[int, ...] = ()
