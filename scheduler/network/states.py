"""State tensors: that the memory which keeps one may take its next value, and nobody reads the old one too late."""

from __future__ import annotations

from npusim.isa.base.errors import GraphError
from npusim.kernels.graph.graph import Graph, State


def check_states(graph: Graph) -> None:
    """Raise GraphError for a state whose next value cannot lie where the state is.

    The layer that gives the next value runs on the host, which reads all operands before it writes one, or copies it
    there. The only reader of the state is that layer or one before it: with others it would be a question of order,
    which only operands decide.
    """
    for state in graph.states:
        where = f'{graph.name}: state tensor "{graph.tensors[state.before].name}"'
        writers = [index for index, node in enumerate(graph.nodes) if state.after in node.outputs]
        if [other.after for other in graph.states].count(state.after) > 1 or not writers:
            raise GraphError(
                f"{where} shares its next value; it must be one of a layer, and of this state only"
            )
        _check_readers(graph, state, writers[0], where)


def _check_readers(graph: Graph, state: State, writer: int, where: str) -> None:
    if state.before in graph.outputs:
        raise GraphError(f"{where} is an output of the model; its next value may be one")
    readers = [at for at, node in enumerate(graph.nodes) for tensor in node.inputs if tensor == state.before]
    if len(readers) > 1:
        names = [f'"{graph.nodes[at].name}"' for at in readers[:3]]
        several = ", ".join(names) + (", ..." if len(readers) > 3 else "")
        raise GraphError(
            f"{where} is read {len(readers)} times, by {several}; it may be read once, by the layer that updates it"
        )
    if not readers or readers[0] > writer:
        raise GraphError(f'{where} must be read by "{graph.nodes[writer].name}", the layer that updates it')
