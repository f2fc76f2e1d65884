"""Compilation of a model with known shapes: partition it, and let the driver of each piece's device compile it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npusim.frontends.nnadapter.operation_graphs import Network
from npusim.kernels.graph.graph import Tensor
from npusim.nnadapter import cache_store
from npusim.nnadapter.cache.compiled import CompiledGear, CompiledPiece, Crossing
from npusim.nnadapter.device_context import Context
from npusim.nnadapter.device_partition import Cut, Plan, cut
from npusim.nnadapter.hal.driver import Cache, Submodel
from npusim.nnadapter.running import machines_of, part_of
from npusim.scheduler.partition.linked import Part
from npusim.scheduler.partition.pieces import Piece as PlannedPiece
from npusim.session.devices import Bench


def programs_of(network: Network, context: Context, plan: Plan, cache: Cache) -> CompiledGear:
    """Partition and compile a model for one combination of input shapes (gear). Raises NNAdapterError.

    cache: the cache that drivers may use.
    """
    programs = Programs(network, context, cache)
    try:
        partition = cut(network, context.members, plan, programs.bench)
        programs.forced = partition.forced
        gear = _gear(network, [programs.piece(piece) for piece in partition.pieces], partition)
    except Exception:
        programs.destroy(())
        raise
    programs.destroy(gear.pieces)
    return gear


class Programs:
    """Programs of the pieces of a model, each compiled once by the driver of its device.

    forced: operations that must run on a CPU, by index, with the option or file that demands it.
    """

    def __init__(self, network: Network, context: Context, cache: Cache) -> None:
        self.forced: Mapping[int, str] = {}
        self._network, self._context, self._cache = network, context, cache
        self._pieces: dict[tuple[PlannedPiece, str], CompiledPiece] = {}

    def bench(self, forced: Mapping[int, str]) -> Bench:
        """Return the bench on which the search by cost times partitions of the model."""
        self.forced = forced
        network, cores = self._network, self._context.cores

        def program(piece: PlannedPiece) -> Part | None:
            member = self._context.members[piece.device]
            return part_of(self._once(piece, Cache()), cores) if member in cores else None

        inputs, outputs = (
            [(number, _tensor(network, number)) for number in side]
            for side in (network.inputs, network.outputs)
        )
        return Bench(network.name, machines_of(cores), program, inputs, outputs)

    def piece(self, piece: PlannedPiece) -> CompiledPiece:
        """Return a piece with its program and what the driver caches of it. Raises NNAdapterError."""
        return self._once(piece, self._cache)

    def _once(self, piece: PlannedPiece, cache: Cache) -> CompiledPiece:
        """Return a compiled piece; compile it unless that was done before with the same cache token."""
        if (piece, cache.token) not in self._pieces:
            self._pieces[piece, cache.token] = self._compiled(piece, cache)
        return self._pieces[piece, cache.token]

    def destroy(self, kept: Sequence[CompiledPiece]) -> None:
        """Tell the drivers to destroy all programs except those of the `kept` pieces."""
        for piece in self._pieces.values():
            if piece not in kept:
                member = self._context.member(piece.device)
                member.call("destroy_program", piece.program)

    def _compiled(self, piece: PlannedPiece, told: Cache) -> CompiledPiece:
        network, member = self._network, self._context.members[piece.device]
        forced = {place: self.forced[place] for place in piece.operations if place in self.forced}
        submodel = Submodel(network, piece.operations, forced)
        graph = submodel.graph()
        inputs, outputs = (tuple(_crossing(network, number) for number in side) for side in graph[1:3])
        cache = cache_store.driver_cache(told, inputs, outputs)
        program = member.call("create_program", member.context, submodel, cache)
        steps = submodel.operations
        return CompiledPiece(
            member.name,
            tuple(step.kind for step in steps),
            tuple(step.name for step in steps),
            inputs,
            outputs,
            cache.buffer,
            program,
        )


def _crossing(network: Network, number: int) -> Crossing:
    name, kind = network.tensor_name(number), network.tensor_type(number)
    return Crossing(number, name, kind, network.counted.get(number))


def _tensor(network: Network, number: int) -> Tensor:
    return Tensor(network.tensor_name(number), network.tensor_type(number), network.value(number))


def _gear(network: Network, pieces: Sequence[CompiledPiece], partition: Cut) -> CompiledGear:
    inputs, outputs = (
        tuple(_crossing(network, number) for number in side) for side in (network.inputs, network.outputs)
    )
    values = {number: network.value(number) for number in network.outputs}
    constants = {number: value for number, value in values.items() if value is not None}
    timed = partition.tries, partition.by_order_cycles
    return CompiledGear(inputs, outputs, tuple(pieces), constants, *timed)
