"""The data of a report as tables: columns of plain values, for CSV (also of `npusim run --csv`) and Parquet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, BinaryIO

from npusim.base.csv_text import csv_text
from npusim.isa.hardware.units import UNIT_NAMES, Unit
from npusim.isa.instructions.table import row_of
from npusim.reports.run import run_table
from npusim.reports.run.series import Charts

if TYPE_CHECKING:
    from npusim.numbers.layers import Piece
    from npusim.numbers.run import RunResult
    from npusim.numbers.variants import RunTable

Columns = Mapping[str, Sequence[Any]]


def layers(charts: Charts) -> Columns:
    """Return a row per layer: its numbers, busy cycles of each unit, and cycles lost to each cause.

    A run on several devices also has the device of the layer.
    """
    return of_layers(charts.result)


def of_layers(result: RunResult) -> Columns:
    """Return the columns of `layers`, which need no series."""
    from npusim.numbers.causes import CAUSES
    from npusim.numbers.layers import LayerResult

    apart = ("busy_cycles", "lost_cycles", "device")
    names = [field.name for field in fields(LayerResult) if field.name not in apart]
    names += dict.fromkeys(f"busy_{name}" for layer in result.layers for name in layer.busy_cycles)
    names += [f"lost_{cause}" for cause in CAUSES]
    names += ["device"] if result.several_devices else []
    rows = [layer.to_row() for layer in result.layers]
    return {name: [row.get(name, 0) for row in rows] for name in names}


def pieces(charts: Charts) -> Columns:
    """A row per stretch of layers on one side of a device, with what the boundary in front of it cost; a boundary
    behind the last one has a row of its own.
    """
    result = charts.result
    rows: list[Piece | None] = [*result.pieces]
    boundaries = [piece.entered for piece in result.pieces]
    if rows and (left := result.pieces[-1].left):
        rows, boundaries = [*rows, None], [*boundaries, left]
    plain = {
        name: [piece and getattr(piece, name) for piece in rows]
        for name in ("side", "device", "first_layer", "last_layer", "cycles", "time_us", "energy_uj")
    }
    crossing = {
        f"boundary_{name}": [getattr(boundary, name) if boundary else None for boundary in boundaries]
        for name in ("bytes", "copies", "copy_cycles", "handover_cycles", "cycles", "time_us", "energy_uj")
    }
    tensors = [" ".join(boundary.tensors) if boundary else None for boundary in boundaries]
    return {**plain, "boundary_tensors": tensors, **crossing}


def energy(charts: Charts) -> Columns:
    """A row per layer: its energy by component in uJ."""
    parts = {f"{name}_uj": part.tolist() for name, part in charts.layer_energy_uj.items()}
    return {"name": [layer.name for layer in charts.result.layers], **parts}


def roofline(charts: Charts) -> Columns:
    """A row per layer of the MAC array; macs_per_byte is empty for a layer without DRAM traffic."""
    points = charts.roofline.points
    return {
        "layer": [point.index for point in points],
        "name": [point.layer.name for point in points],
        "macs_per_byte": [point.macs_per_byte for point in points],
        "macs_per_cycle": [point.macs_per_cycle for point in points],
        "bound_by": [point.layer.bound_by for point in points],
    }


def instructions(charts: Charts) -> Columns:
    """A row per instruction in program order: what, for which layer, and when, in cycles."""
    trace, program = charts.result.execution.trace, charts.result.program
    return {
        "unit": [UNIT_NAMES[Unit(unit)] for unit in trace.unit.tolist()],
        "instruction": [row_of(opcode).mnemonic for opcode in program.code[:, 0].tolist()],
        "layer": program.layer_of.tolist(),
        "dispatched": trace.dispatched.tolist(),
        "at_head": trace.at_head.tolist(),
        "ready": trace.ready.tolist(),
        "started": trace.started.tolist(),
        "ended": trace.ended.tolist(),
        "own_cycles": trace.busy.tolist(),
        "waited_for": [UNIT_NAMES[Unit(unit)] if unit >= 0 else None for unit in trace.blocked_by.tolist()],
        **_devices(charts.result, charts.devices.tolist()),
    }


def stalls(charts: Charts) -> Columns:
    """A row per stretch in which nothing computes: why, for which layer, and when, in cycles."""
    stalls = charts.stalls
    return {
        "cause": list(stalls.cause),
        "layer": stalls.layer.tolist(),
        "begin": stalls.begin.tolist(),
        "end": stalls.end.tolist(),
    }


def power(charts: Charts) -> Columns:
    """A row per window: its cycles, and the power of each component in mW."""
    power = charts.result.power_over_time()
    parts = {f"{name}_mw": part.tolist() for name, part in power.by_component_mw.items()}
    return {"begin": power.edges[:-1].tolist(), "end": power.edges[1:].tolist(), **parts}


def scratchpad(charts: Charts) -> Columns:
    """A row per change: from this cycle on, so many bytes are in use."""
    use = charts.occupancy
    return {"cycle": use.cycles.tolist(), "bytes": use.sizes.tolist()}


def buffers(charts: Charts) -> Columns:
    """A row per buffer of the scratchpad: where it lies, and when it is in use, in cycles."""
    uses = charts.buffers
    return {
        "name": [use.buffer.name for use in uses],
        "address": [use.buffer.address for use in uses],
        "size_bytes": [use.buffer.size_bytes for use in uses],
        "begin": [use.begin for use in uses],
        "end": [use.end for use in uses],
        **_devices(charts.result, [use.device for use in uses]),
    }


def _devices(result: RunResult, numbers: Sequence[int]) -> Columns:
    """Return the column of devices, if there are several."""
    if not result.several_devices:
        return {}
    return {"device": [result.devices[number].name for number in numbers]}


TABLES: Mapping[str, Callable[[Charts], Columns]] = {
    "layers": layers,
    "pieces": pieces,
    "energy": energy,
    "roofline": roofline,
    "instructions": instructions,
    "stalls": stalls,
    "power": power,
    "scratchpad": scratchpad,
    "buffers": buffers,
}
"""Every table by the name of its file; the docstring says what a row is."""


def render(result: RunResult) -> str:
    """Return the layers as CSV, a row each; fields that a layer lacks are empty."""
    return to_csv(of_layers(result))


def render_runs(table: RunTable) -> str:
    """Return a table of runs as CSV, a row each."""
    return run_table.to_csv(table)


def to_csv(columns: Columns) -> str:
    """Format columns as CSV with a line of names; values that a row lacks are empty."""
    return csv_text(list(columns), zip(*columns.values(), strict=True))


def write_parquet(columns: Columns, file: BinaryIO) -> None:
    """Write columns as Parquet, with types inferred from the values."""
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(
        pyarrow.table({name: pyarrow.array(list(values)) for name, values in columns.items()}), file
    )
