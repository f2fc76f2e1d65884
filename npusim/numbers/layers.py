"""The numbers of the layers of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.placement import HostCall, Placement
from npusim.isa.hardware.units import MOVING, UNIT_NAMES, Unit
from npusim.isa.instructions.actions import port_actions
from npusim.isa.instructions.table import decode_all
from npusim.isa.program.program import Program
from npusim.machine.trace import Execution
from npusim.numbers import timeline
from npusim.numbers.causes import CAUSES
from npusim.numbers.losses import Accounts
from npusim.numbers.power import host_work, layer_energy_uj
from npusim.numbers.timeline import union_cycles


def sizes_text(sizes: Sequence[int]) -> str:
    """Sizes as people write them: "1x224x224x3"; a scalar has none."""
    return "x".join(map(str, sizes))


@dataclass(frozen=True, slots=True)
class LayerResult:
    """One operator of the model.

    input_shapes, output_shapes: shapes of its operands without constants, and of its results.
    kernel, stride: height and width of a window over an image, and its steps; else empty.
    tile:        sizes of the largest part of the result that one instruction computes; empty off the NPU.
    dataflow:    of layers on the MAC array: "weight_stationary", "output_stationary" or "depthwise", joined by "+" if
                 tiles differ.
    unit:        "mac", "vector", "dma", "host", or "none" for an operator that costs nothing.
    cycles:      its part of the run (`npusim.numbers.timeline.layer_cycles`); the layers add up to the total.
    time_us:     cycles in microseconds.
    macs:        multiply-accumulates.
    utilization: macs / (cycles * multipliers of the array), 0 to 1, of layers on the MAC array; else 0.
    bytes:       DRAM traffic of its instructions, in whole bursts.
    energy_uj:   its actions, its share of the front end by instructions, its share of static and background
                 energy by cycles, and the host's energy; the layers add up to the total.
    start_cycle, end_cycle: from the first start to the last end of its instructions, copies included: layers
                 overlap. None without instructions.
    reason:      why the host runs it; empty for the others.
    lower_bound_cycles, lower_bound_limit: what its work needs at least on an ideal machine of this size, and on
                 which resource: "mac", "vector", "dram", "host", or "none" for an operator that needs nothing.
    busy_cycles: cycles of the run in which each unit and each memory's port works for it, including cycles that are
                 attributed to other layers: "mac", "vector", "host", "dma" (for layers that copy), memories by name.
    bound_by:    the unit or memory that works longest for it; "none" if nothing does.
    lost_cycles: cycles - lower_bound_cycles, by cause (`npusim.numbers.causes.CAUSES`); gains are negative.
    device:      the name of the device that runs it, where there are several; else empty.
    """

    name: str
    op: str
    unit: str
    input_shapes: tuple[tuple[int, ...], ...]
    output_shapes: tuple[tuple[int, ...], ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    tile: tuple[int, ...]
    dataflow: str
    cycles: int
    time_us: float
    macs: int
    utilization: float
    bytes: int
    energy_uj: float
    start_cycle: int | None
    end_cycle: int | None
    reason: str
    lower_bound_cycles: int
    lower_bound_limit: str
    busy_cycles: Mapping[str, int]
    bound_by: str
    lost_cycles: Mapping[str, int]
    device: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The layer in the JSON; without a device where there is but one."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        if not self.device:
            del plain["device"]
        shapes = {name: [list(shape) for shape in plain[name]] for name in ("input_shapes", "output_shapes")}
        sizes = {name: list(plain[name]) for name in ("kernel", "stride", "tile")}
        cycles = {name: dict(plain[name]) for name in ("busy_cycles", "lost_cycles")}
        return plain | shapes | sizes | cycles

    def to_row(self) -> dict[str, Any]:
        """Return the layer as a table row: sizes as text such as "1x224x224x3", and columns "busy_..." and "lost_...".

        "busy_..." columns are for units and memories, "lost_..." columns for causes of lost cycles.
        """
        row = self.to_dict()
        lost, busy = row.pop("lost_cycles"), row.pop("busy_cycles")
        shapes = {name: " ".join(map(sizes_text, row[name])) for name in ("input_shapes", "output_shapes")}
        sizes = {name: sizes_text(row[name]) for name in ("kernel", "stride", "tile")}
        cycles = {f"busy_{name}": value for name, value in busy.items()}
        return row | shapes | sizes | cycles | {f"lost_{cause}": lost.get(cause, 0) for cause in CAUSES}


def layer_results(program: Program, execution: Execution, accounts: Accounts) -> tuple[LayerResult, ...]:
    """The numbers of every layer; the definitions are at the fields of `LayerResult`."""
    hardware, host = program.hardware, host_work(program, execution)
    cycles = timeline.layer_cycles(program, execution.trace, execution.cycles).tolist()
    spans = timeline.layer_spans(program, execution.trace)
    energy_uj = np.sum([*layer_energy_uj(program, execution).values()], axis=0).tolist()
    reasons = dict(zip(program.layer_of[host.positions].tolist(), host.reasons, strict=True))
    tiles = _tiles(program)
    ports = [port_actions(hardware, space) for space in hardware.outer_spaces if hardware.off_chip(space)]
    off_chip = [name for port in ports for name in (port.read, port.write)]
    results = []
    for i, (layer, account) in enumerate(zip(program.layers, accounts.layers, strict=True)):
        actions = execution.layer_actions[i]
        span = spans[i]
        on_array = layer.workload.macs if layer.unit == "mac" else 0
        results.append(
            LayerResult(
                name=layer.name,
                op=layer.op,
                unit=layer.unit,
                input_shapes=layer.input_shapes,
                output_shapes=layer.output_shapes,
                kernel=layer.kernel,
                stride=layer.stride,
                tile=tiles[i].largest,
                dataflow="+".join(sorted(tiles[i].dataflows)),
                cycles=cycles[i],
                time_us=hardware.us_of_cycles(cycles[i]),
                macs=layer.workload.macs,
                utilization=share(on_array, cycles[i] * hardware.macs_per_cycle),
                bytes=sum(actions.get(name, 0) for name in off_chip),
                energy_uj=energy_uj[i],
                start_cycle=span[0] if span else None,
                end_cycle=span[1] if span else None,
                reason=reasons.get(i, ""),
                lower_bound_cycles=account.bound.cycles,
                lower_bound_limit=account.bound.bound_by,
                busy_cycles=account.busy,
                bound_by=account.busiest,
                lost_cycles=account.lost,
            )
        )
    return tuple(results)


class _Tiles(NamedTuple):
    """How a layer is cut: the largest tile on its unit, and the dataflows of all of them."""

    largest: tuple[int, ...]
    dataflows: frozenset[str]


def _tiles(program: Program) -> list[_Tiles]:
    """The tiles of each layer, read off its instructions: a program file has them as the compiler does."""
    on_unit: dict[int, set[tuple[tuple[int, ...], str]]] = {}
    for instruction, layer in zip(decode_all(program.code), program.layer_of.tolist(), strict=True):
        if instruction.tile and UNIT_NAMES[instruction.unit] == program.layers[layer].unit:
            on_unit.setdefault(layer, set()).add((instruction.tile, instruction.dataflow))
    found = []
    for layer in range(len(program.layers)):
        tiles = on_unit.get(layer, set())
        largest = max((tile for tile, _ in tiles), key=lambda tile: (prod(tile), tile), default=())
        found.append(_Tiles(largest, frozenset(dataflow for _, dataflow in tiles if dataflow)))
    return found


def share(part: float, whole: float) -> float:
    """A part of a whole, 0 of nothing."""
    return part / whole if whole else 0.0


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
