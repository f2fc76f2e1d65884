"""The pieces of a run: stretches of layers on an NPU and on the host, and what each boundary between them cost.

A tensor that crosses passes through a memory that both see. The NPU stores it there or loads it from there with copies
that it would not need if the next layer were its own; the host adds a handover to each of its operators, and reads and
writes the memory itself, which is part of its time. Cycles and energy of the pieces are sums over their layers
(`npusim.numbers.layers`). Inside a program a boundary has no cycles of its own: copies and handovers are part of the
pieces. Between the programs of several devices it has those of the transfers (`npusim.numbers.devices`). So cycles,
times and energies of pieces and boundaries together are those of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.placement import HostCall, Placement
from npusim.isa.hardware.units import MOVING, Unit
from npusim.isa.instructions.table import decode_all
from npusim.isa.program.program import Program
from npusim.machine.trace import Execution
from npusim.numbers.layers import LayerResult
from npusim.numbers.timeline import union_cycles

Side = Literal["npu", "host"]


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where a run passes from an NPU to the host, or back, or from one device to another.

    tensors:         those that cross, by name.
    bytes:           their sizes.
    copies, copy_cycles: copies of the NPU that store or load them, and the cycles in which at least one of these is
                     under way; other work may go on meanwhile.
    handover_cycles: of the host's operators behind it, there and back; 0 on the way back, which is counted there. Where
                     the boundary has cycles of its own, those of them in which the host hands over.
    cycles, time_us, energy_uj: of the boundary itself, between two programs; 0 where it is a part of the pieces.
    """

    tensors: tuple[str, ...]
    bytes: int
    copies: int
    copy_cycles: int
    handover_cycles: int
    cycles: int = 0
    time_us: float = 0.0
    energy_uj: float = 0.0


@dataclass(frozen=True, slots=True)
class Piece:
    """Layers one behind the other that one side of a device computes.

    side:        "npu" or "host".
    device:      the name of the device; of a run outside of a context that of the hardware.
    first_layer, last_layer: numbers of layers of the model; those that cost nothing belong to the piece before them.
    cycles, time_us, energy_uj: sums over the layers.
    entered:     the boundary in front of it; None where there is none.
    left:        the boundary behind the last piece; None where there is none, and for all others.
    """

    side: Side
    device: str
    first_layer: int
    last_layer: int
    cycles: int
    time_us: float
    energy_uj: float
    entered: Boundary | None
    left: Boundary | None = None

    @property
    def layers(self) -> int:
        """How many layers."""
        return self.last_layer - self.first_layer + 1

    def to_dict(self) -> dict[str, Any]:
        """The piece in the JSON."""
        plain = asdict(self)
        for name in ("entered", "left"):
            if plain[name] is not None:
                plain[name]["tensors"] = list(plain[name]["tensors"])
        if self.left is None:
            del plain["left"]
        return plain


def pieces(
    program: Program, execution: Execution, layers: Sequence[LayerResult], device: str, clock_mhz: float
) -> tuple[Piece, ...]:
    """The pieces of a program in the order of its layers; timeline and layers are in cycles of `clock_mhz`."""
    crossings = _Crossings(program, execution, clock_mhz) if program.host_calls else None
    found: list[Piece] = []
    for side, group in groupby(enumerate(_sides(layers)), lambda numbered: numbered[1]):
        numbers = [number for number, _ in group]
        entered = None
        if crossings is not None and found:
            if side == "host":
                entered = crossings.into(numbers)
            else:
                entered = crossings.out_of(range(found[-1].first_layer, found[-1].last_layer + 1))
        inside = [layers[number] for number in numbers]
        found.append(
            Piece(
                side,
                device,
                numbers[0],
                numbers[-1],
                sum(layer.cycles for layer in inside),
                sum(layer.time_us for layer in inside),
                sum(layer.energy_uj for layer in inside),
                entered,
            )
        )
    return tuple(found)


def _sides(layers: Sequence[LayerResult]) -> Iterator[Side]:
    """Who computes each layer; who the one before it where it costs nothing, in front of all others the NPU."""
    side: Side = "npu"
    for layer in layers:
        if layer.unit != "none":
            side = "host" if layer.unit == "host" else "npu"
        yield side


@dataclass(frozen=True, slots=True)
class _Accesses:
    """Regions of memories that instructions touch, one entry each; positions are those in the program, ascending."""

    position: NDArray[np.int64]
    space: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    write: NDArray[np.bool_]
    host: NDArray[np.bool_]

    def of(self, place: Placement) -> NDArray[np.int64]:
        """The entries that touch a tensor."""
        inside = (self.space == place.space) & (self.begin < place.end) & (self.end > place.address)
        return np.flatnonzero(inside)


class _Crossings:
    """What crosses between the NPU's copies and the host's operators."""

    def __init__(self, program: Program, execution: Execution, clock_mhz: float) -> None:
        self._program = program
        self._clock_mhz = clock_mhz
        self._trace = execution.trace
        code = decode_all(program.code)
        moving = {int(unit) for unit in MOVING}
        rows: list[tuple[int, int, int, int, bool, bool]] = []
        self._calls: dict[int, tuple[int, HostCall]] = {}
        for position, unit in enumerate(execution.trace.unit.tolist()):
            on_host = unit == int(Unit.HOST)
            if unit not in moving and not on_host:
                continue
            if on_host:
                call = program.host_calls[getattr(code[position], "index")]  # noqa: B009
                self._calls[int(program.layer_of[position])] = (position, call)
            for write, regions in zip((False, True), code[position].regions(program.context), strict=True):
                rows += [
                    (position, int(region.space), region.address, region.end, write, on_host)
                    for region in regions
                ]
        table = np.array(rows, np.int64).reshape(-1, 6)
        at, space, begin, end, writes, of_host = table.T
        self._accesses = _Accesses(at, space, begin, end, writes > 0, of_host > 0)

    def into(self, layers: Sequence[int]) -> Boundary:
        """The boundary in front of a stretch of the host."""
        calls = self._calls_of(layers)
        crossing = [(place, self._stores(place, at)) for at, call in calls for place in call.inputs if place]
        handover_us = len(calls) * self._program.hardware.host.handover_us
        return self._boundary(crossing, round(handover_us * self._clock_mhz))

    def out_of(self, layers: Iterable[int]) -> Boundary:
        """The boundary behind a stretch of the host."""
        calls = self._calls_of(layers)
        return self._boundary(
            [(place, self._loads(place, at)) for at, call in calls for place in call.outputs]
        )

    def _calls_of(self, layers: Iterable[int]) -> list[tuple[int, HostCall]]:
        return [self._calls[layer] for layer in layers if layer in self._calls]

    def _stores(self, place: Placement, position: int) -> list[int]:
        """The copies that the bytes of a tensor come from that the host reads at a position."""
        table, stores, left = self._accesses, list[int](), place.type.size_bytes
        for entry in table.of(place)[::-1]:
            if table.position[entry] >= position or not table.write[entry]:
                continue
            if left <= 0:
                break
            left -= int(min(table.end[entry], place.end) - max(table.begin[entry], place.address))
            if not table.host[entry]:
                stores.append(int(table.position[entry]))
        return stores

    def _loads(self, place: Placement, position: int) -> list[int]:
        """The copies that read a tensor which the host writes at a position, until something else lies there."""
        table, loads = self._accesses, list[int]()
        for entry in table.of(place):
            if table.position[entry] <= position:
                continue
            if table.write[entry]:
                break
            if not table.host[entry]:
                loads.append(int(table.position[entry]))
        return loads

    def _boundary(
        self, crossing: Sequence[tuple[Placement, Sequence[int]]], handover_cycles: int = 0
    ) -> Boundary:
        """What tensors cost that cross: those that copies move, each with the positions of these."""
        sizes = {place.name: place.type.size_bytes for place, copies in crossing if copies}
        at = np.array(sorted({copy for _, copies in crossing for copy in copies}), np.int64)
        cycles = union_cycles(self._trace.started[at], self._trace.ended[at])
        return Boundary(tuple(sizes), sum(sizes.values()), len(at), cycles, handover_cycles)
