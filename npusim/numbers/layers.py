"""The numbers of the layers of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import Any, NamedTuple

import numpy as np

from npusim.isa.hardware.units import UNIT_NAMES
from npusim.isa.instructions.actions import port_actions
from npusim.isa.instructions.table import decode_all
from npusim.isa.program.program import Program
from npusim.machine.trace import Execution
from npusim.numbers import timeline
from npusim.numbers.causes import CAUSES
from npusim.numbers.losses import Accounts
from npusim.numbers.power import host_work, layer_energy_uj


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
