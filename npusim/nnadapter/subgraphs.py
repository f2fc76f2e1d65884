"""How a model was cut, as the log of NNAdapter has it: operators in the format of partition files, and a graph.

    subgraph operators:
    conv_2d:image,weights,bias:features
    subgraph clusters: 1
    digraph G {
      node_0[label="conv_2d" ...]
      node_0->node_1
    } // end G

A line of the operators can stand in a partition file as it is. Operators of one piece have one colour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npusim.frontends.nnadapter.dot import COLORS
from npusim.frontends.nnadapter.network import Network
from npusim.isa.base.printable import printable
from npusim.kernels.graph.placing import line_of
from npusim.nnadapter.compiled import CompiledPiece
from npusim.nnadapter.partition import uses


def text(network: Network, pieces: Sequence[CompiledPiece]) -> str:
    """The operators of a model, and the pieces that it was cut into."""
    return "\n".join(
        [
            "subgraph operators:",
            *(line_of(*use) for use in uses(network)),
            f"subgraph clusters: {len(pieces)}",
            *_graph(network, pieces),
        ]
    )


def _graph(network: Network, pieces: Sequence[CompiledPiece]) -> Iterator[str]:
    """Operators as nodes, in their order, and what one gives to another as edges."""
    numbers = piece_of(network, pieces)
    yield "digraph G {"
    for place, step in enumerate(network.steps):
        piece = numbers.get(place)
        shown = [f"label={_quoted(step.kind)}"]
        if piece is not None:
            colour, device = COLORS[piece % len(COLORS)], pieces[piece].device
            shown += [f"tooltip={_quoted(f'{device}, piece {piece}')}", "style=filled", f"fillcolor={colour}"]
        yield f"  node_{place}[{' '.join(shown)}]"
    writer = {tensor: place for place, step in enumerate(network.steps) for tensor in step.outputs}
    for place, step in enumerate(network.steps):
        for giver in dict.fromkeys(writer[tensor] for tensor in step.inputs if tensor in writer):
            yield f"  node_{giver}->node_{place}"
    yield "} // end G"


def piece_of(network: Network, pieces: Sequence[CompiledPiece]) -> dict[int, int]:
    """The piece of each operator, by numbers; operators of one name follow one another."""
    places: dict[str, list[int]] = {}
    for place, step in enumerate(network.steps):
        places.setdefault(step.name, []).append(place)
    return {places[name].pop(0): number for number, piece in enumerate(pieces) for name in piece.operations}


def _quoted(words: str) -> str:
    escaped = printable(words).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
