"""The results of a run layer by layer, and the pieces of the network on the NPU and on the host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import groupby
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import HostCall, Placement
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
    """Return sizes as text, such as "1x224x224x3"; an empty text for a scalar."""
    return "x".join(map(str, sizes))


@dataclass(frozen=True, slots=True)
class LayerResult:
    """The results of one layer, that is one operator of the model.

    input_shapes, output_shapes: shapes of its operands without constants, and of its results.
    kernel, stride: height and width of a window over an image, and its steps, in elements; empty without a window.
    tile:        sizes of the largest part of the result that one instruction computes; empty on the host.
    dataflow:    "weight_stationary", "output_stationary" or "depthwise" on the MAC array, joined by "+" if tiles
                 differ; empty on other units.
    unit:        "mac", "vector", "dma", "host", or "none" for an operator that costs nothing.
    cycles:      cycles that are attributed to it (`npusim.numbers.timeline.layer_cycles`). Each cycle of the run
                 belongs to one layer, so the layers add up to the total.
    time_us:     cycles in microseconds.
    macs:        number of multiply-accumulates.
    utilization: macs / (cycles * multipliers of the array), 0 to 1, for layers on the MAC array; else 0.
    bytes:       traffic of its instructions at off-chip memories in bytes, in whole bursts.
    energy_uj:   energy of its actions, its share of the front end by instructions, its share of static and background
                 energy by cycles, and the host's energy. The layers add up to the total.
    start_cycle, end_cycle: first start and last end of its instructions, copies included, so layers overlap. None
                 without instructions.
    reason:      why the host runs it; empty for the others.
    lower_bound_cycles: cycles that its work needs at least on an ideal machine of this size.
    lower_bound_limit:  resource that sets this bound: "mac", "vector", "dram", "host"; "none" without work.
    busy_cycles: cycles of the run in which each unit and each memory's port works for it, including cycles that are
                 attributed to other layers: "mac", "vector", "host", "dma" (for layers that copy), memories by name.
    bound_by:    unit or memory with the most busy cycles for it; "none" if nothing works for it.
    lost_cycles: cycles - lower_bound_cycles, by cause (`npusim.numbers.causes.CAUSES`); gains are negative.
    device:      name of the device that runs it in a run on several devices; else empty.
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
        """Return the layer as in the JSON; `device` is left out if the run has only one."""
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
    """Return the results of every layer, in the order of the model."""
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
    """The tiles of a layer on its unit: the sizes of the largest one, and the dataflows of all."""

    largest: tuple[int, ...]
    dataflows: frozenset[str]


def _tiles(program: Program) -> list[_Tiles]:
    """Return the tiles of each layer, from its instructions, so that a program read from a file has them too."""
    on_unit: dict[int, set[tuple[tuple[int, ...], str]]] = {}
    for instruction, layer in zip(decode_all(program.code), program.layer_of.tolist(), strict=True):
        if instruction.tile and UNIT_NAMES[instruction.unit] == program.layers[layer].unit:
            on_unit.setdefault(layer, set()).add((instruction.tile, instruction.dataflow))
    tiles_of_layers = []
    for layer in range(len(program.layers)):
        tiles = on_unit.get(layer, set())
        largest = max((tile for tile, _ in tiles), key=lambda tile: (prod(tile), tile), default=())
        tiles_of_layers.append(_Tiles(largest, frozenset(dataflow for _, dataflow in tiles if dataflow)))
    return tiles_of_layers


def share(part: float, whole: float) -> float:
    """Return part / whole; 0 if the whole is 0."""
    return part / whole if whole else 0.0


Side = Literal["npu", "host"]


@dataclass(frozen=True, slots=True)
class Boundary:
    """The transfer of tensors and control between an NPU and the host, or between two devices.

    tensors:         names of the transferred tensors.
    bytes:           sum of their sizes.
    copies:          number of DMA copies of the NPU that store or load them.
    copy_cycles:     cycles in which at least one of these copies runs; other work may run meanwhile.
    handover_cycles: cycles in which control passes to the host's operators after the boundary and back again. On the
                     way back they are 0, because the way there counts both. For a boundary with cycles of its own,
                     those of them in which the host hands over.
    cycles, time_us, energy_uj: of a boundary between two programs; 0 if the cycles belong to the pieces.
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
    """Consecutive layers that run on the NPU, or on the host, of one device.

    side:        "npu" or "host".
    device:      name of the device; outside of a context, name of the hardware.
    first_layer, last_layer: numbers of layers of the model, both included. Layers without cost belong to the piece
                 before them.
    cycles, time_us, energy_uj: sums over the layers.
    entered:     boundary before the piece; None without one.
    left:        boundary after the last piece of the run; None without one, and for all other pieces.
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
        """The number of layers."""
        return self.last_layer - self.first_layer + 1

    def to_dict(self) -> dict[str, Any]:
        """Return the piece as in the JSON."""
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
    """Return the pieces of a program in the order of its layers.

    device:    name that each piece gets.
    clock_mhz: clock of the cycles of `execution` and `layers`.
    """
    crossings = _Crossings(program, execution, clock_mhz) if program.host_calls else None
    result: list[Piece] = []
    for side, group in groupby(enumerate(_sides(layers)), lambda numbered: numbered[1]):
        numbers = [number for number, _ in group]
        entered = None
        if crossings is not None and result:
            if side == "host":
                entered = crossings.into(numbers)
            else:
                entered = crossings.out_of(range(result[-1].first_layer, result[-1].last_layer + 1))
        inside = [layers[number] for number in numbers]
        result.append(
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
    return tuple(result)


def _sides(layers: Sequence[LayerResult]) -> Iterator[Side]:
    """Yield the side that computes each layer.

    A layer without cost has the side of the layer before it, or "npu" before all others.
    """
    side: Side = "npu"
    for layer in layers:
        if layer.unit != "none":
            side = "host" if layer.unit == "host" else "npu"
        yield side


@dataclass(frozen=True, slots=True)
class _Accesses:
    """The memory regions that copies and host operators access, one entry per access, in program order.

    position: of the instruction in the program; space, begin, end: memory and byte addresses of the region.
    write:    the access writes; else it reads. host: the host makes the access; else the NPU does.
    """

    position: NDArray[np.int64]
    space: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    write: NDArray[np.bool_]
    host: NDArray[np.bool_]

    def of(self, place: Placement) -> NDArray[np.int64]:
        """Return the indices of the accesses that overlap a tensor's bytes."""
        inside = (self.space == place.space) & (self.begin < place.end) & (self.end > place.address)
        return np.flatnonzero(inside)


class _Crossings:
    """The transfers between the NPU and the host in one program: the host's operands, and the copies that move them."""

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
        """Return the boundary before consecutive host layers."""
        calls = self._calls_of(layers)
        crossing = [(place, self._stores(place, at)) for at, call in calls for place in call.inputs if place]
        handover_us = len(calls) * self._program.hardware.host.handover_us
        return self._boundary(crossing, round(handover_us * self._clock_mhz))

    def out_of(self, layers: Iterable[int]) -> Boundary:
        """Return the boundary after consecutive host layers."""
        calls = self._calls_of(layers)
        return self._boundary(
            [(place, self._loads(place, at)) for at, call in calls for place in call.outputs]
        )

    def _calls_of(self, layers: Iterable[int]) -> list[tuple[int, HostCall]]:
        return [self._calls[layer] for layer in layers if layer in self._calls]

    def _stores(self, place: Placement, position: int) -> list[int]:
        """Return the positions of the copies that wrote a tensor's bytes before the host reads it at `position`."""
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
        """Return the positions of the copies that read a tensor after the host writes it at `position`.

        The search ends where other bytes are written to the same addresses.
        """
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
        """Return the boundary of tensors, each with the positions of its copies; those without copies do not count."""
        sizes = {place.name: place.type.size_bytes for place, copies in crossing if copies}
        at = np.array(sorted({copy for _, copies in crossing for copy in copies}), np.int64)
        cycles = union_cycles(self._trace.started[at], self._trace.ended[at])
        return Boundary(tuple(sizes), sum(sizes.values()), len(at), cycles, handover_cycles)
