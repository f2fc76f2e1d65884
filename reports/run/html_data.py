"""What the scripts of the report draw, compact: columns of whole numbers, times as differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.numbers.causes import CAUSES
from npusim.numbers.power import CHART_WINDOW
from npusim.numbers.timeline import Times
from npusim.reports.run import machines, series
from npusim.reports.words import quantities as show
from npusim.reports.words.layer_names import short_names
from npusim.reports.words.names import (
    CAUSE_NAMES,
    TRACK_NAMES,
    bound_name,
    bound_style,
    component_names,
    component_style,
    main_name,
)

if TYPE_CHECKING:
    from npusim.numbers.power import Amounts
    from npusim.numbers.run import RunResult

LABEL_WIDTH = 14
"""Letters of a name in the timeline."""

MOST_ITEMS = 20_000
"""Of more instructions neighbours are merged: the page stays small, and nobody could tell them apart."""


def data(result: RunResult) -> dict[str, Any]:
    """Everything that is drawn; `time.js` and `report.js` read it."""
    power, use = result.moving_power(), result.scratchpad_use()
    labels = component_names(result.hardware)
    return {
        "cycles": int(result.cycles),
        "us": result.hardware.us_of_cycles(1),
        "layers": [show.printable(main_name(layer.name)) for layer in result.layers],
        "short": short_names([layer.name for layer in result.layers], LABEL_WIDTH),
        "ops": [show.printable(layer.op) for layer in result.layers],
        "spans": [[layer.start_cycle, layer.end_cycle] for layer in result.layers],
        "causes": {name: [CAUSE_NAMES[name], cause.meaning] for name, cause in CAUSES.items()},
        "turns": _turns(result),
        "devices": [show.printable(device.name) for device in result.devices]
        if result.several_devices
        else [],
        "pieces": _pieces(result),
        "tracks": _tracks(result),
        "stalls": _stalls(result),
        "power": {
            "edges": _differences(power.edges),
            "parts": [
                {
                    "name": component_style(name),
                    "label": labels[name],
                    "mw": _short(power.by_component_mw[name]),
                }
                for name in reversed(list(labels))
                if name in power.by_component_mw and power.by_component_mw[name].any()
            ],
            "highest": _short(power.highest_mw),
            "average": result.power_mw.average,
            "peak": result.power_mw.peak_10us,
            "window": CHART_WINDOW,
        },
        "occupancy": {
            "at": _differences(use.cycles),
            "bytes": use.sizes.tolist(),
            "size": max(hardware.scratchpad_bytes for _, hardware in machines.npus(result)),
            "sizes": _sizes(result),
        },
        "buffers": [
            [
                show.printable(main_name(use.buffer.name)),
                use.buffer.address,
                use.buffer.size_bytes,
                use.begin,
                use.end,
            ]
            for use in series.buffers(result)
        ],
        "roofline": _roofline(result),
    }


def _turns(result: RunResult) -> dict[str, Any]:
    found = series.turns(result)
    return {"layer": found.layer.tolist(), "ends": _differences(found.end)}


def _tracks(result: RunResult) -> list[dict[str, Any]]:
    """A track per unit: layer, instruction, begin and length of each item, and how many are merged in it."""
    work = series.work(result, MOST_ITEMS)
    names = work.mnemonics()
    known = list(dict.fromkeys(names))
    place = np.array([known.index(name) for name in names], np.int64)
    tracks = []
    for device, unit, mine in series.tracks(work):
        tracks.append(
            {
                "title": TRACK_NAMES[unit],
                "device": device,
                "colour": unit.kind.name,
                "words": known,
                "layer": work.layer[mine].tolist(),
                "word": place[mine].tolist(),
                "begin": _differences(work.begin[mine]),
                "length": (work.end - work.begin)[mine].tolist(),
                "busy": work.busy[mine].tolist() if (work.number[mine] > 1).any() else None,
                "number": work.number[mine].tolist() if (work.number[mine] > 1).any() else None,
            }
        )
    return tracks


def _pieces(result: RunResult) -> dict[str, Any] | None:
    """Which device is at work when, -1 for what runs between two pieces; None where there is but one."""
    if not result.several_devices:
        return None
    ends = [stage.end_cycle for stage in result.stages]
    names = [stage.program.name if stage.is_piece else "" for stage in result.stages]
    return {
        "device": [stage.device if stage.is_piece else -1 for stage in result.stages],
        "name": [show.printable(name) for name in names],
        "ends": _differences(np.array(ends, np.int64)),
    }


def _sizes(result: RunResult) -> list[list[int]]:
    """The scratchpad of the device at work: from which cycle on, and its bytes."""
    found: list[list[int]] = []
    for stage in result.stages:
        size_bytes = stage.program.hardware.scratchpad_bytes
        if not found or found[-1][1] != size_bytes:
            found.append([stage.start_cycle, size_bytes])
    return found


def _stalls(result: RunResult) -> dict[str, Any]:
    found = series.stalls(result)
    known = list(dict.fromkeys(found.cause))
    return {
        "words": known,
        "word": [known.index(cause) for cause in found.cause],
        "layer": found.layer.tolist(),
        "begin": _differences(found.begin),
        "length": (found.end - found.begin).tolist(),
    }


def _roofline(result: RunResult) -> dict[str, Any]:
    roof = series.roofline(result)
    return {
        "roofs": [[show.printable(each.name), each.peak_macs_per_cycle] for each in roof.roofs],
        "rate": roof.bytes_per_cycle,
        "gb": result.hardware.dram.bandwidth_gb_per_s,
        "points": [
            {
                "layer": point.index,
                "x": None if point.macs_per_byte is None else float(f"{point.macs_per_byte:.5g}"),
                "y": float(f"{point.macs_per_cycle:.5g}"),
                "cycles": point.layer.cycles,
                "bound": bound_name(point.layer.bound_by),
                "colour": bound_style(point.layer.bound_by),
                "part": float(f"{point.layer.utilization:.4g}"),
                "device": show.printable(point.layer.device),
            }
            for point in roof.points
        ],
    }


def _differences(values: Times) -> list[int]:
    """Ascending numbers as the first and the steps between them."""
    return [int(step) for step in np.diff(values, prepend=0)]


def _short(values: Amounts) -> list[float]:
    """Milliwatts with four significant digits."""
    return [float(f"{value:.4g}") for value in values.tolist()]
