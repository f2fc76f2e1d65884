"""Partition by cost: operators that the NPU could compute move to the host if the whole run gets faster.

An operator on the host costs its time there and the handover. An operator on the NPU between two host operators costs
the transfers to and from the memory that holds activations. The gain is not estimated: each candidate is compiled and
timed by the machine, with transfers, handovers and waiting. The first candidate is the partition by capability, so the
result is never slower. It is deterministic.

Candidates are runs of NPU layers between host layers: a whole run, and its first or last 1, 2, 4, ... layers beside a
host layer. A candidate is skipped if its layers alone take longer on the host than the whole network takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby

from npusim.isa.base.errors import CompileError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.cpu import host_cycles
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Graph

MOST_TRIES = 64
"""Most candidates to compile. A network of a hundred layers with three on the host has some thirty candidates."""

HOST_UNIT = "host"


def partition_by_cost(
    graph: Graph, compiled: Callable[[Graph], Program], cycles_of: Callable[[Program], int]
) -> Graph:
    """Return the graph with the operators marked (`Node.on_host`) that make the run faster on the host.

    compiled, cycles_of: the compiler, and the machine that times a program.
    Raises whatever `compiled` raises for the unchanged graph.
    """
    program = compiled(graph)
    descent = _Descent(compiled, cycles_of, _Tried(graph, program, cycles_of(program)))
    while descent.improves():
        pass
    return descent.best.graph


@dataclass(frozen=True, slots=True)
class _Tried:
    graph: Graph
    program: Program
    cycles: int


@dataclass
class _Descent:
    """The state of a descent: the best partition so far, and the number of candidates tried."""

    compiled: Callable[[Graph], Program]
    cycles_of: Callable[[Program], int]
    best: _Tried
    tries: int = 0

    def improves(self) -> bool:
        """Take the first candidate that is faster; return whether there was one."""
        return any(self._try(names) for names in self._candidates())

    def _candidates(self) -> Iterator[frozenset[str]]:
        """Yield candidates as sets of layer names, those first that take the host least time."""
        program = self.best.program
        times = {layer.name: host_cycles(layer.workload, program.hardware) for layer in program.layers}
        stretches = {names: sum(times[name] for name in names) for names in _stretches(program)}
        for names in sorted(stretches, key=lambda names: (stretches[names], names)):
            if stretches[names] < self.best.cycles:
                yield frozenset(names)

    def _try(self, names: frozenset[str]) -> bool:
        if self.tries == MOST_TRIES:
            return False
        self.tries += 1
        nodes = [
            replace(node, on_host=self._reason()) if node.name in names else node
            for node in self.best.graph.nodes
        ]
        graph = replace(self.best.graph, nodes=tuple(nodes))
        try:
            program = self.compiled(graph)
        except CompileError:
            return False
        cycles = self.cycles_of(program)
        if cycles >= self.best.cycles:
            return False
        self.best = _Tried(graph, program, cycles)
        return True

    def _reason(self) -> str:
        return f"by cost: the run is faster so than with it on the NPU, which took {self.best.cycles} cycles"


def _stretches(program: Program) -> Iterator[tuple[str, ...]]:
    """Yield the names of consecutive NPU layers: whole runs between host layers, and their ends beside one."""
    runs = [
        (on_host, tuple(layer.name for layer in layers))
        for on_host, layers in groupby(program.layers, lambda layer: layer.unit == HOST_UNIT)
    ]
    for position, (on_host, names) in enumerate(runs):
        if on_host:
            continue
        yield names
        size = 1
        while size < len(names):
            if position > 0:
                yield names[:size]
            if position < len(runs) - 1:
                yield names[-size:]
            size *= 2
