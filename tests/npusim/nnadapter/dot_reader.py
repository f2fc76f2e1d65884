"""A reader of the part of the DOT language that npusim writes: quoted texts, nodes, edges, frames."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(r'\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<name>\w+)|(?P<sign>->|[{}\[\]=,;]))', re.DOTALL)


@dataclass
class Drawn:
    """What a DOT text says: nodes and edges with their attributes, names of frames."""

    name: str
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    edges: list[tuple[str, str, str]] = field(default_factory=list)
    frames: list[str] = field(default_factory=list)


def _tokens(text: str) -> Iterator[str]:
    text = text.rstrip()
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        assert token is not None, f"no token of DOT at {text[position : position + 20]!r}"
        position = token.end()
        quoted = token["text"]
        yield (quoted or token["name"] or token["sign"])


def _value(token: str) -> str:
    if not token.startswith('"'):
        return token
    return re.sub(r"\\(.)", lambda sign: "\n" if sign[1] == "n" else sign[1], token[1:-1])


def read(text: str) -> Drawn:
    """What a text draws; AssertionError where it is no DOT, or an edge has an end that is no node."""
    tokens = list(_tokens(text))
    assert tokens[0] == "digraph"
    assert tokens[2] == "{"
    drawn = Drawn(_value(tokens[1]))
    position, open_frames = 3, 1
    while open_frames:
        token = tokens[position]
        if token == "subgraph":
            assert tokens[position + 2] == "{"
            drawn.frames.append(tokens[position + 1])
            position, open_frames = position + 3, open_frames + 1
        elif token == "}":
            position, open_frames = position + 1, open_frames - 1
        elif tokens[position + 1] == "=":  # an attribute of the frame
            assert tokens[position + 3] == ";"
            position += 4
        else:
            position = _statement(drawn, tokens, position)
    assert position == len(tokens)
    for begin, end, _ in drawn.edges:
        assert {begin, end} <= drawn.nodes.keys()
    return drawn


def _statement(drawn: Drawn, tokens: list[str], position: int) -> int:
    """Takes a node or an edge, and returns where the next statement begins."""
    ends = [tokens[position]]
    position += 1
    if tokens[position] == "->":
        ends.append(tokens[position + 1])
        position += 2
    assert tokens[position] == "["
    attributes = {}
    while tokens[position] != "]":
        assert tokens[position + 2] == "="
        attributes[tokens[position + 1]] = _value(tokens[position + 3])
        position += 4
    assert tokens[position + 1] == ";"
    if len(ends) == 2:
        drawn.edges.append((ends[0], ends[1], attributes["label"]))
    else:
        assert ends[0] not in drawn.nodes
        drawn.nodes[ends[0]] = attributes
    return position + 2
