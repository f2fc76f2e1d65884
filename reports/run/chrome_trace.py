"""The timeline in the Chrome trace format, which ui.perfetto.dev opens: `npusim run --trace`.

Each device is a process with one track per unit. A slice is an instruction from its start to its end; an arrow comes
from the completion that the instruction waited for. Above them, a process for the whole run shows the layer that each
cycle is attributed to and the stalls with their causes; with several devices, also the pieces and the transfers between
them. Counters show DRAM traffic, scratchpad in use, and power. Times are microseconds of the simulated machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.hardware.units import UNIT_NAMES, Unit
from npusim.isa.instructions.table import row_of
from npusim.machine.trace import INSTRUCTION_FETCH, OTHER_CORE, Source, Transfers
from npusim.numbers.timeline import accumulate
from npusim.reports.run.series import Charts
from npusim.reports.words.names import CAUSE_NAMES, COMPONENT_NAMES, TRACK_NAMES

if TYPE_CHECKING:
    from npusim.numbers.run import RunResult
    from npusim.numbers.stage import Stage

Event = dict[str, Any]

PROCESS = 1
"""Process id of the first device; the others follow."""

SYSTEM = 0
"""Process id of the tracks of the whole run, and of what several devices share."""

PIECES, LAYERS, STALLS = range(3)
"""Track ids of the process `SYSTEM`."""

COUNTER_WINDOWS = 1000


def render(given: RunResult | Charts) -> str:
    """Return the trace as JSON text."""
    charts = Charts.of(given)
    result = charts.result
    document = {
        "displayTimeUnit": "ns",
        "otherData": {
            "model": result.model,
            "hardware": result.machine_name,
            "clock_mhz": result.hardware.clock_mhz,
            "cycles": int(result.cycles),
        },
        "traceEvents": list(events(charts)),
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"


def events(charts: Charts) -> Iterator[Event]:
    """Return all trace events: names of tracks, slices, arrows, counters."""
    result = charts.result
    yield from _tracks(result)
    yield from _pieces(result)
    yield from _layers(charts)
    yield from _stalls(charts)
    yield from _slices(charts)
    for stage in result.stages:
        yield from _arrows(result, stage)
    yield from _dram_counter(result)
    yield from _scratchpad_counter(charts)
    yield from _power_counter(result)


def _tracks(result: RunResult) -> Iterator[Event]:
    several = result.several_devices
    yield _process(SYSTEM, f"{result.model}: what the devices share" if several else result.model)
    for number, name in ((PIECES, "pieces"), (LAYERS, "layers"), (STALLS, "stalls")):
        if several or number != PIECES:
            yield {"ph": "M", "pid": SYSTEM, "tid": number, "name": "thread_name", "args": {"name": name}}
    names = [device.name for device in result.devices] if several else [result.machine_name]
    for device in sorted({stage.device for stage in result.stages}):
        yield _process(PROCESS + device, f"{result.model} on {names[device]}")
        units = [stage.execution.trace.unit for stage in result.stages if stage.device == device]
        used = set(np.concatenate(units).tolist())
        for order, (unit, title) in enumerate(TRACK_NAMES.items()):
            if unit in used:
                track = {"ph": "M", "pid": PROCESS + device, "tid": int(unit)}
                yield track | {"name": "thread_name", "args": {"name": title}}
                yield track | {"name": "thread_sort_index", "args": {"sort_index": order}}


def _process(pid: int, name: str) -> Event:
    return {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}


def _pieces(result: RunResult) -> Iterator[Event]:
    """Yield a slice for each piece on a device, and for what runs between two pieces."""
    if not result.several_devices:
        return
    for stage in result.stages:
        name = result.devices[stage.device].name if stage.is_piece else "between devices"
        kind = "piece" if stage.is_piece else "boundary"
        more = {"program": stage.program.name}
        yield _span(result, PIECES, stage.start_cycle, stage.end_cycle, name, kind, more)


def _layers(charts: Charts) -> Iterator[Event]:
    """Yield a slice for each interval that is attributed to one layer, as in the table of layers."""
    result, turns = charts.result, charts.turns
    rows = zip(turns.layer.tolist(), turns.begin.tolist(), turns.end.tolist(), strict=True)
    for number, begin, end in rows:
        layer = result.layers[number] if number < len(result.layers) else None
        name, op = (layer.name, layer.op) if layer else ("", "")
        yield _span(result, LAYERS, begin, end, name, "layer", {"layer": number, "operator": op})


def _stalls(charts: Charts) -> Iterator[Event]:
    """Yield a slice for each stall, in which no unit computes, with its cause."""
    result, stalls = charts.result, charts.stalls
    rows = zip(stalls.cause, stalls.layer.tolist(), stalls.begin.tolist(), stalls.end.tolist(), strict=True)
    for cause, number, begin, end in rows:
        name = result.layers[number].name if number < len(result.layers) else ""
        yield _span(result, STALLS, begin, end, CAUSE_NAMES[cause], "stall", {"layer": name})


def _span(
    result: RunResult, track: int, begin: int, end: int, name: str, category: str, more: Event
) -> Event:
    """Return a slice on a track of the whole run, from one cycle to another."""
    first, last = _whole_ns(result, np.array([begin, end])).tolist()
    return {
        "ph": "X",
        "pid": SYSTEM,
        "tid": track,
        "ts": first,
        "dur": round(last - first, 3),
        "name": name,
        "cat": category,
        "args": {**more, "start_cycle": begin, "end_cycle": end},
    }


def _slices(charts: Charts) -> Iterator[Event]:
    result, program, trace = charts.result, charts.result.program, charts.result.execution.trace
    mnemonics = [row_of(opcode).mnemonic for opcode in program.code[:, 0].tolist()]
    begin, end = _whole_ns(result, trace.started), _whole_ns(result, trace.ended)
    rows = zip(
        charts.devices.tolist(),
        *(column.tolist() for column in (trace.unit, program.layer_of, begin, (end - begin).round(3))),
        *(column.tolist() for column in (trace.dispatched, trace.at_head, trace.ready)),
        *(column.tolist() for column in (trace.started, trace.ended, trace.busy, trace.blocked_by)),
        mnemonics,
        strict=True,
    )
    for index, row in enumerate(rows):
        (device, unit, layer, ts, duration, dispatched, at_head, ready, started, ended, busy, blocked_by,
         mnemonic) = row  # fmt: skip
        source = program.layers[layer] if layer < len(program.layers) else None
        name = source.name if source else ""
        yield {
            "ph": "X",
            "pid": PROCESS + device,
            "tid": unit,
            "ts": ts,
            "dur": duration,
            "name": f"{name} {mnemonic}".strip(),
            "cat": mnemonic,
            "args": {
                "instruction": index,
                "layer": name,
                "operator": source.op if source else "",
                "start_cycle": started,
                "end_cycle": ended,
                "own_cycles": busy,
                "dram_wait_cycles": ended - started - busy,
                "queue_cycles": at_head - dispatched,
                "token_wait_cycles": ready - at_head,
                "bank_wait_cycles": started - ready,
                "waited_for": UNIT_NAMES[Unit(blocked_by)] if blocked_by >= 0 else "nobody",
            },
        }


def _arrows(result: RunResult, stage: Stage) -> Iterator[Event]:
    """Yield an arrow to each instruction that waited, from the one whose completion ended the wait."""
    trace = stage.execution.trace
    producers = producer_of(trace.unit, trace.ready, trace.ended, trace.blocked_by)
    started, ended = stage.of_run(trace.started), stage.of_run(trace.ended)
    middle = _us(result, (started + ended) / 2)
    begin = _whole_ns(result, started)
    units = list(map(Unit, trace.unit.tolist()))
    for consumer in np.flatnonzero(producers >= 0).tolist():
        producer = int(producers[consumer])
        number = stage.first_instruction + consumer
        name = f"{UNIT_NAMES[units[producer]]} to {UNIT_NAMES[units[consumer]]}"
        arrow = {"pid": PROCESS + stage.device, "name": name, "cat": "wait", "id": number}
        # A viewer ties the tail to the slice that is open at that time, so it must lie before the slice's end.
        tail = {"ph": "s", "tid": int(trace.unit[producer]), "ts": float(middle[producer])}
        head = {"ph": "f", "bp": "e", "tid": int(trace.unit[consumer]), "ts": float(begin[consumer])}
        yield arrow | tail
        yield arrow | head


def producer_of(
    unit: NDArray[np.int8],
    ready: NDArray[np.int64],
    ended: NDArray[np.int64],
    blocked_by: NDArray[np.int8],
) -> NDArray[np.int64]:
    """Return for each instruction the one that it waited for, or -1.

    It is the last instruction of the blocking unit that ended by the time at which the waiting one was ready.
    """
    producers = np.full(len(unit), -1, np.int64)
    for other in np.unique(blocked_by[blocked_by >= 0]):
        of_unit = np.flatnonzero(unit == other)
        of_unit = of_unit[np.argsort(ended[of_unit], kind="stable")]
        waiting = np.flatnonzero(blocked_by == other)
        last = np.searchsorted(ended[of_unit], ready[waiting], side="right") - 1
        exists = last >= 0
        producers[waiting[exists]] = of_unit[last[exists]]
    return producers


def _dram_counter(result: RunResult) -> Iterator[Event]:
    """Yield the counter of bytes per second through the DRAM port, averaged over intervals of 1/1000 of the run."""
    total = int(result.cycles)
    if not total:
        return
    edges = np.unique(np.linspace(0, total, COUNTER_WINDOWS + 1).astype(np.int64))
    seconds = np.diff(edges) / (result.hardware.clock_mhz * 1e6)
    transfers = Transfers.of(result.execution.trace.transfers)
    kinds = [_kind(source) for source in transfers.sources]
    rates = {}
    for kind in ("read", "write", "instructions"):
        part = transfers.where(np.array([event == kind for event in kinds], bool)[transfers.source])
        moved = accumulate(part.started, part.ended, part.size_bytes.astype(np.float64), total)
        rates[kind] = np.diff(moved.by(edges)) / seconds
    pid = SYSTEM if result.several_devices else PROCESS
    yield from _counter(pid, "DRAM bytes/s", _us(result, edges).tolist(), rates)


def _counter(
    pid: int, name: str, times: Sequence[float], rates: Mapping[str, NDArray[Any]], digits: int | None = None
) -> Iterator[Event]:
    """Yield the values of a counter from each of `times` to the next, rounded, and zeros at the end."""
    for window, ts in enumerate(times[:-1]):
        values = {key: round(float(rate[window]), digits) for key, rate in rates.items()}
        yield {"ph": "C", "pid": pid, "name": name, "ts": ts, "args": values}
    if times[1:]:
        yield {"ph": "C", "pid": pid, "name": name, "ts": times[-1], "args": dict.fromkeys(rates, 0)}


def _kind(source: Source) -> str:
    """Return the counter to which the transfers of a requester belong; empty for other cores."""
    if source.requester == OTHER_CORE:
        return ""
    return "instructions" if source.requester == INSTRUCTION_FETCH else "write" if source.write else "read"


def _scratchpad_counter(charts: Charts) -> Iterator[Event]:
    """Yield the counter of KiB in use in the scratchpad of the device at work."""
    result, use = charts.result, charts.occupancy
    pid = SYSTEM if result.several_devices else PROCESS
    counter = {"ph": "C", "pid": pid, "name": "scratchpad KiB"}
    for ts, size in zip(_us(result, use.cycles).tolist(), use.sizes.tolist(), strict=True):
        yield counter | {"ts": ts, "args": {"in use": size / 1024}}


def _power_counter(result: RunResult) -> Iterator[Event]:
    """Yield the counter of power in mW by component, averaged over intervals of 1/1000 of the run."""
    power = result.power_over_time(COUNTER_WINDOWS)
    rates = {COMPONENT_NAMES.get(key, key): part for key, part in power.by_component_mw.items()}
    yield from _counter(SYSTEM, "power mW", _us(result, power.edges).tolist(), rates, 3)


def _whole_ns(result: RunResult, cycles: NDArray[Any]) -> NDArray[np.float64]:
    """Return cycles as us, rounded to whole ns. Viewers count whole ns, and would let rounded neighbours overlap."""
    return _us(result, cycles).round(3)


def _us(result: RunResult, cycles: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(cycles / result.hardware.clock_mhz, np.float64)
