"""Partition by cost: what the NPU could compute goes to the host where the whole run is faster so.

An operator on the host costs its time there and the handover; one on the NPU between two that the host runs costs both
ways through the memory that holds activations. What is faster is not estimated: each candidate is compiled and timed by
the machine, transfers, handovers and waiting included. The first is the partition by capability, so the result is
never slower; it is always the same.

Candidates are stretches of layers between those of the host: a whole one, and its first or last 1, 2, 4, ... layers
where they lie beside a layer of the host. Those that take longer on the host alone than the whole run takes are not
tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from npusim.isa.base.errors import CompileError
from npusim.isa.hardware.cpu import host_cycles
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Graph

MOST_TRIES = 64
"""Networks of a hundred layers with three on the host have some thirty candidates; the first ones gain most."""

HOST_UNIT = "host"


def partition_by_cost(
    graph: Graph, compiled: Callable[[Graph], Program], cycles_of: Callable[[Program], int]
) -> Graph:
    """The graph with more of its operators marked for the host (`Node.on_host`).

    compiled, cycles_of: the compiler and the machine. Raises what `compiled` raises for the graph as it is.
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
    """The best partition so far, and how many were tried."""

    compiled: Callable[[Graph], Program]
    cycles_of: Callable[[Program], int]
    best: _Tried
    tries: int = 0

    def improves(self) -> bool:
        """Take the first candidate that is faster; whether there was one."""
        return any(self._try(names) for names in self._candidates())

    def _candidates(self) -> Iterator[frozenset[str]]:
        """Names of layers, those first that take the host least time."""
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
    """Layers of the NPU, by name, that lie together: all between two of the host, and those beside one."""
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
