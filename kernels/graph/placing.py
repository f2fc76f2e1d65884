"""Partition files: their lines force operators of a model to run on the host.

The format is that of NNAdapter's partition files:

    softmax                       every operator of this kind
    conv_2d:image,weights         those that read all of these tensors
    conv_2d:image:features        and write these; conv_2d::features whatever they read

Several entries are on one line with "-" between them. Empty lines and those that begin with "#" are ignored. A
backslash escapes a colon, comma, hyphen or backslash in a name.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from npusim.isa.base import user_file
from npusim.isa.base.errors import NpusimError, nearest
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.plain_values import printable
from npusim.kernels.graph.graph import Graph, Node

HOST_OPTION = "--host"


class PartitionWarning(UserWarning):
    """Warns of a line of a partition file that matches nothing in a model."""


@dataclass(frozen=True, slots=True)
class Forced:
    """Operators of one kind that are forced to the host: those that read and write all of the named tensors.

    source: where the entry comes from, for messages and for the reason that reports give.
    """

    kind: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    source: str = HOST_OPTION

    @property
    def reason(self) -> str:
        """Return why an operator that the entry matches runs on the host, for reports."""
        return f"forced to the host by {self.source}"

    def takes(self, kind: str, inputs: Iterable[str], outputs: Iterable[str]) -> bool:
        """Return True if it means an operator of this kind with these tensors.

        Kinds are the same in any case of letters.
        """
        return (
            self.kind.lower() == kind.lower()
            and set(self.inputs) <= set(inputs)
            and set(self.outputs) <= set(outputs)
        )


def read(path: str | Path) -> tuple[Forced, ...]:
    """Return the lines of a partition file. Raises NpusimError, which begins with the path, for one that is not one."""
    text = user_file.text(Path(path), user_file.PARTITION)
    return parse(text, str(path))


def parse(text: str, name: str) -> tuple[Forced, ...]:
    """Return the entries of a partition file's text; `name` is what messages call the file.

    Raises NpusimError with the line that is no `kind:inputs:outputs`.
    """
    forced = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        for entry in _split(line.strip(), "-"):
            fields = _split(entry, ":")
            if len(fields) > 3 or not _plain(fields[0]):
                raise NpusimError(
                    f"{name}: line {number}: {printable(entry)!r} is not KIND, KIND:INPUT,...:OUTPUT,...; "
                    r"a colon or hyphen of a name is written \: or \-"
                )
            inputs, outputs = (
                [_plain(part) for part in _split(field, ",")] for field in (*fields[1:], "", "")[:2]
            )
            forced.append(
                Forced(
                    _plain(fields[0]),
                    tuple(filter(None, inputs)),
                    tuple(filter(None, outputs)),
                    f"line {number} of {name}",
                )
            )
    return tuple(forced)


def _split(text: str, separator: str) -> list[str]:
    """Return the parts between separators that no backslash stands before."""
    parts = [""]
    for token in re.findall(r"\\.|.", text):
        if token == separator:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text).strip()


def line_of(kind: str, inputs: Iterable[str], outputs: Iterable[str]) -> str:
    """Return the line of a partition file that takes an operator with these tensors."""
    return ":".join((_escaped(kind), ",".join(map(_escaped, inputs)), ",".join(map(_escaped, outputs))))


def _escaped(name: str) -> str:
    return re.sub(r"([\\:,-])", r"\\\1", name)


class Use(NamedTuple):
    """An operator of a model as partition files know it: what it is, and the names of what it reads and writes."""

    kind: str
    inputs: Sequence[str]
    outputs: Sequence[str]


def taken(name: str, uses: Sequence[Use], forced: Sequence[Forced]) -> dict[int, Forced]:
    """Return the operators that are forced, by position, each with the first entry that takes it.

    Of entries that take none of a model of this name, the warning is given, or the error raised, that `placed` has.
    """
    forced_inputs: dict[int, Forced] = {}
    used: set[Forced] = set()
    for position, use in enumerate(uses):
        takers = [entry for entry in forced if entry.takes(*use)]
        used.update(takers)
        if takers:
            forced_inputs[position] = takers[0]
    _say_unused(name, uses, forced, used)
    return forced_inputs


def lines(graph: Graph) -> Iterator[str]:
    """Return a line for each operator of a graph, those of bodies behind the one that has them."""
    for node in graph.nodes:
        yield line_of(node.op, *_names(graph, node))
        for body in node.bodies:
            yield from lines(body)


def _names(graph: Graph, node: Node) -> tuple[list[str], list[str]]:
    inputs = [graph.tensors[number].name for number in node.inputs if number is not None]
    return inputs, [graph.tensors[number].name for number in node.outputs]


def placed(graph: Graph, forced: Sequence[Forced]) -> Graph:
    """Return the graph with the operators that `forced` takes marked for the host.

    An entry that takes none is reported with the nearest kind or name that exists: of a file, which may serve several
    models, as a `PartitionWarning`, else as a NpusimError.
    """
    used: set[Forced] = set()
    marked = _marked(graph, forced, used)
    _say_unused(graph.name, _uses(graph), forced, used)
    return marked


def meant(graph: Graph, forced: Sequence[Forced]) -> tuple[Forced, ...]:
    """Return the entries that take an operator of the graph."""
    uses = _uses(graph)
    return tuple(entry for entry in forced if any(entry.takes(*use) for use in uses))


def _marked(graph: Graph, forced: Sequence[Forced], used: set[Forced]) -> Graph:
    nodes = []
    for node in graph.nodes:
        takers = [entry for entry in forced if any(entry.takes(*use) for use in _known_as(graph, node))]
        used.update(takers)
        bodies = tuple([_marked(body, forced, used) for body in node.bodies])
        reason = takers[0].reason if takers and not node.bodies else node.on_host
        nodes.append(replace(node, bodies=bodies, on_host=reason))
    return replace(graph, nodes=tuple(nodes))


def _uses(graph: Graph) -> list[Use]:
    """Return all operators, those of bodies too."""
    uses = []
    for node in graph.nodes:
        uses += _known_as(graph, node)
        for body in node.bodies:
            uses += _uses(body)
    return uses


def _known_as(graph: Graph, node: Node) -> list[Use]:
    """Return how partition files may name a node: by npusim's operator, and by the operator of the model file."""
    uses = [Use(node.op, *_names(graph, node))]
    return uses if node.written is None else [*uses, Use(*node.written)]


def _say_unused(name: str, uses: Sequence[Use], forced: Sequence[Forced], used: set[Forced]) -> None:
    for entry in forced:
        if entry in used:
            continue
        if entry.source == HOST_OPTION:
            raise NpusimError(_unused(name, uses, entry))
        warnings.warn(PartitionWarning(_unused(name, uses, entry)), stacklevel=3)


def _unused(model: str, uses: Sequence[Use], entry: Forced) -> str:
    """Return why an entry matches no operator of a model."""
    kinds = sorted({use.kind.lower() for use in uses})
    if entry.kind.lower() not in kinds:
        near = nearest(entry.kind.lower(), kinds)
        hint = f"did you mean {near}? It has" if near else "it has"
        return f"{entry.source}: {printable(entry.kind)}: {model} has no such operator; {hint} {', '.join(kinds)}"
    names = {
        name
        for use in uses
        if use.kind.lower() == entry.kind.lower()
        for side in (use.inputs, use.outputs)
        for name in side
    }
    for name in (*entry.inputs, *entry.outputs):
        if name not in names:
            near = nearest(name, sorted(names))
            hint = f", did you mean {near}?" if near else ""
            return f"{entry.source}: no {entry.kind} of {model} has a tensor {printable(name)!r}{hint}"
    return f"{entry.source}: no {entry.kind} of {model} reads and writes all of these tensors at once"
