"""Which operators of a model the host runs: all that the NPU cannot, those that are forced there, those that pay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from npusim.isa.base.errors import NpusimError
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.graph import placing
from npusim.kernels.graph.graph import Graph
from npusim.scheduler import compile_graph

BY_COST = "cost"
"""In place of a partition file: whatever makes the run faster goes to the host, too."""


@dataclass(frozen=True, slots=True)
class Partition:
    """What is asked for beside the partition by capability.

    forced:  operators that the host must run.
    by_cost: whether others follow them where the machine says that the run is faster so.
    """

    forced: tuple[placing.Forced, ...] = ()
    by_cost: bool = False

    def of(self, graph: Graph, hardware: Hardware) -> Graph:
        """A graph that decides nothing with all that the host is to run marked.

        Raises NpusimError for an operator that is forced and that the graph does not have.
        """
        return self.by_cost_of(self.forced_of(graph), hardware)

    def forced_of(self, graph: Graph) -> Graph:
        """The graph, and the bodies of its nodes, with what is forced marked. Raises NpusimError as `of` does."""
        return placing.placed(graph, self.forced) if self.forced else graph

    def by_cost_of(self, graph: Graph, hardware: Hardware) -> Graph:
        """The graph, which decides nothing, with what is faster on the host marked too, if that is asked for."""
        if not self.by_cost:
            return graph
        from npusim.scheduler.search.by_cost import partition_by_cost
        from npusim.session.tuning import timing

        return partition_by_cost(
            graph, lambda part: compile_graph(part, hardware), lambda program: timing(program).cycles
        )


CAPABILITY = Partition()
"""The host runs what the NPU cannot, and nothing else."""

Asked = str | Path | Partition | Sequence[str | Path] | None
"""A partition file, "cost", several of these, or a `Partition`."""


def partition(host: Iterable[str] = (), asked: Asked = None) -> Partition:
    """The partition that is asked for.

    host:  names of operators that the host must run.
    asked: a partition file (`npusim.kernels.graph.placing`), the word "cost", or both in a list; a file of that name
           is "./cost".

    Raises NpusimError for a file that is none.
    """
    if isinstance(host, str):
        host = host.split(",")
    names = [str(name).strip() for name in host]
    if "" in names:
        raise NpusimError(f"{placing.HOST_OPTION}: an operator has no name; give some such as softmax,pad")
    forced = [placing.Forced(name) for name in names]
    if isinstance(asked, Partition):
        return Partition((*forced, *asked.forced), asked.by_cost)
    parts = parts_of(asked)
    for part in parts:
        if part != BY_COST:
            forced += placing.read(part)
    return Partition(tuple(forced), BY_COST in parts)


def parts_of(asked: Asked) -> Sequence[str | Path]:
    """The files, and the word, that a partition is asked for by; none for one that Python made."""
    if asked is None or isinstance(asked, Partition):
        return ()
    return (asked,) if isinstance(asked, str | Path) else asked
