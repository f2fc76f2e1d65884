"""The data that the scripts of the report draw, in compact form: integer columns, times as differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npusim.isa.hardware.memories import Space
from npusim.numbers.causes import CAUSES
from npusim.numbers.power import CHART_WINDOW
from npusim.numbers.timeline import Times
from npusim.reports.run.series import Charts, Stalls, Work, tracks
from npusim.reports.words import quantities as show
from npusim.reports.words.names import (
    CAUSE_NAMES,
    TRACK_NAMES,
    bound_name,
    bound_style,
    component_names,
    component_style,
    main_name,
    short_names,
)

if TYPE_CHECKING:
    from npusim.isa.program.program import Program
    from npusim.numbers.power import Amounts
    from npusim.numbers.run import RunResult

LABEL_WIDTH = 14
"""Most characters of a layer's name in the timeline."""


def data(given: RunResult | Charts) -> dict[str, Any]:
    """Return all data of the page's drawings, which `time.js` and `report.js` read."""
    charts = Charts.of(given)
    result, power, use = charts.result, charts.power, charts.occupancy
    labels = component_names(result.hardware)
    return {
        "cycles": int(result.cycles),
        "us": result.hardware.us_of_cycles(1),
        "layers": [show.printable(main_name(layer.name)) for layer in result.layers],
        "short": short_names([layer.name for layer in result.layers], LABEL_WIDTH),
        "ops": [show.printable(layer.op) for layer in result.layers],
        "spans": [[layer.start_cycle, layer.end_cycle] for layer in result.layers],
        "causes": {name: [CAUSE_NAMES[name], cause.meaning] for name, cause in CAUSES.items()},
        "turns": {"layer": charts.turns.layer.tolist(), "ends": _differences(charts.turns.end)},
        "devices": [show.printable(device.name) for device in result.devices]
        if result.several_devices
        else [],
        "pieces": _pieces(result),
        "tracks": _tracks(charts.work),
        "stalls": _stalls(charts.stalls),
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
            "size": max(hardware.scratchpad_bytes for _, hardware in result.npus),
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
            for use in charts.buffers
        ],
        "roofline": _roofline(charts),
    }


def _tracks(work: Work) -> list[dict[str, Any]]:
    """Return a track per unit: of each item its layer, mnemonic, begin, length, and number of merged instructions."""
    names = work.mnemonics()
    known = list(dict.fromkeys(names))
    place = np.array([known.index(name) for name in names], np.int64)
    return [
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
        for device, unit, mine in tracks(work)
    ]


def _pieces(result: RunResult) -> dict[str, Any] | None:
    """Return the device that works at each time, -1 between two pieces; None for a run on one device."""
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
    """Return the scratchpad size of the device at work, as pairs of first cycle and bytes."""
    sizes: list[list[int]] = []
    for stage in result.stages:
        size_bytes = stage.program.hardware.scratchpad_bytes
        if not sizes or sizes[-1][1] != size_bytes:
            sizes.append([stage.start_cycle, size_bytes])
    return sizes


def _stalls(stalls: Stalls) -> dict[str, Any]:
    known = list(dict.fromkeys(stalls.cause))
    return {
        "words": known,
        "word": [known.index(cause) for cause in stalls.cause],
        "layer": stalls.layer.tolist(),
        "begin": _differences(stalls.begin),
        "length": (stalls.end - stalls.begin).tolist(),
    }


def _roofline(charts: Charts) -> dict[str, Any]:
    roof = charts.roofline
    return {
        "roofs": [[show.printable(line.name), line.peak_macs_per_cycle] for line in roof.roofs],
        "rate": roof.bytes_per_cycle,
        "gb": charts.result.hardware.dram.bandwidth_gb_per_s,
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
    """Encode ascending numbers as the first one and the differences between neighbours."""
    return [int(step) for step in np.diff(values, prepend=0)]


def _short(values: Amounts) -> list[float]:
    """Round milliwatts to four significant digits."""
    return [float(f"{value:.4g}") for value in values.tolist()]


class DramRegion(NamedTuple):
    """A region of the DRAM that a run uses; `kind` selects its colour."""

    name: str
    kind: str
    address: int
    size_bytes: int


def used_bytes(result: RunResult) -> int:
    """Return the bytes of DRAM that a run uses, from address 0 on."""
    return max(stage.base(Space.DRAM) + stage.program.dram_size_bytes for stage in result.stages)


def regions(result: RunResult) -> list[DramRegion]:
    """Return the DRAM regions of a run in order of address.

    Gaps between known regions hold feature maps, alignment, and values that are passed between programs.
    """
    known = dict.fromkeys(
        region for stage in result.stages for region in _known(stage.program, stage.base(Space.DRAM))
    )
    regions: list[DramRegion] = []
    at, end = 0, used_bytes(result)
    for region in sorted((item for item in known if item.size_bytes), key=lambda item: item.address):
        if region.address > at:
            regions.append(DramRegion("feature maps, alignment", "maps", at, region.address - at))
        regions.append(region)
        at = max(at, region.address + region.size_bytes)
    if end > at:
        regions.append(DramRegion("feature maps, alignment", "maps", at, end - at))
    return regions


def _known(program: Program, base: int) -> Iterator[DramRegion]:
    """Yield the known DRAM regions of a program whose address 0 is at `base`."""
    for image in program.images:
        if image.space == Space.DRAM:
            spared = program.spared_bytes(Space.DRAM)
            name = f"constants, addresses of {spared} bytes more than they take" if spared else "constants"
            yield DramRegion(name, "constants", base + image.address, image.size_bytes)
    if program.code_space == Space.DRAM:
        yield DramRegion("instructions", "code", base + program.code_address, program.code_size_bytes)
    for kind, places in (("input", program.inputs), ("output", program.outputs)):
        for place in places:
            if place.space == Space.DRAM:
                yield DramRegion(place.name, kind, base + place.address, place.type.size_bytes)
