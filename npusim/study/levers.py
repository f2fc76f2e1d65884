"""The levers of a run: hardware changes that are compiled and timed on its model, chosen by its busy times.

Candidates are a faster clock, the next larger MAC arrays of the same type, twice the bandwidth of each memory, twice
the lanes, a faster host, units that take an operator from the host to the NPU, and the keys that reduce each cause of
lost cycles. The gain of a candidate is estimated from the run: doubling a unit saves half of the cycles in which only
that unit works, and about a quarter of its other busy cycles, because part of them overlaps with other units.

Only the most promising candidates are simulated, fewer for a large model than for a small one, so that the answer does
not take much longer than the run. The choice depends only on the run, never on the wall clock, so equal runs get equal
answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from shlex import quote, split
from typing import Any, NamedTuple

from npusim.isa.base.errors import NpusimError
from npusim.isa.engines.kinds import engine_of
from npusim.isa.hardware.file import change, to_flat
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.parameters import MEMORY
from npusim.isa.hardware.units import PORT, RESOURCES, WORKERS
from npusim.isa.hardware.voltage import fastest_mhz
from npusim.isa.instructions.lanes import FLOAT_TYPES as REAL_TYPES
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Graph
from npusim.kernels.operator.operator import ROOM
from npusim.machine import system as machine
from npusim.numbers.answer import CLOCK, HOST, MOST_LEVERS, WAITS, Lever, Tried
from npusim.numbers.causes import CAUSES
from npusim.numbers.layers import LayerResult
from npusim.numbers.measure import measure
from npusim.numbers.run import RunResult
from npusim.scheduler.network.network import prepare
from npusim.scheduler.network.storage import HostStep
from npusim.session import api
from npusim.session.opening import open_model
from npusim.session.options import FAST, Options, parse_sizes

LEAST_SHARE = 0.01
"""Least estimated share of the cycles that a change saves; a smaller one is not simulated."""

MOST_TRIED, LEAST_TRIED = 14, 2
EXTRA_COST = 290.0
"""Budget in ms (as `_cost` estimates) for simulations beyond `LEAST_TRIED`: a sixth of the time of the shortest run."""

MOST_COST_TIMED = 700.0
"""Cost in ms up to which a run without data simulates `LEAST_TRIED` changes, a longer one a single change: of a
ResNet-50 two took 49 to 60 % of the CPU time of the rest, one takes 24 to 38 %. Computing the data
takes far longer than both."""

TIMES = ("_cycles", "_ns", "_us")
"""Suffixes of keys that are times, so less is faster."""

RATES = ("bandwidth_gb_per_s", "access_bytes")
"""Suffixes of keys that set the bandwidth of a memory."""


class Candidate(NamedTuple):
    """A hardware change that may help: what it relieves, and the estimated share of the cycles that it saves."""

    relieves: str
    set: Mapping[str, Any]
    gain: float


def levers(model: Graph | Program, result: RunResult, options: Options = FAST, *, file: str = "") -> Tried:
    """Simulate the most promising hardware changes of a run on its model.

    model: the model that was run; a program, which is compiled already, has no levers.
    options: how it was compiled.
    file:  the name of the model in commands that a lever shows.

    If the result has what-if variants, the best of them are simulated as well.
    """
    placed = options.placing() if options.places else None
    note = _why_none(model, result, options, placed is not None and placed.by_cost)
    if note:
        return Tried(note=note)
    assert isinstance(model, Graph)
    graph = options.known(placed.forced_of(model) if placed else model)
    chosen = candidates(result, _lacking(graph, result))[: _affordable(result)]
    for variant in _best_variants(result):
        if all(candidate.set != variant.set for candidate in chosen):
            chosen.append(variant)
    tried = [_simulated(graph, result, candidate) for candidate in chosen]
    if (share := _float_share(result)) >= LEAST_SHARE:
        tried.append(_quantized(model, result, file, share))
    return Tried(tuple(lever for lever in tried if lever is not None))


def levers_of(result: RunResult, asked: Mapping[str, Any]) -> Tried:
    """Return `levers` of a result of `npusim.run`; `asked`: arguments of that call, empty for a program alone.

    Raises NpusimError for a model file that has changed since.
    """
    from npusim.session.provenance import digest_of_model

    path = asked.get("path")
    if path is not None and digest_of_model(path) != result.provenance.model_sha256:
        raise NpusimError(
            f"{path}: has changed since the run; run it again to see what changes of the hardware bring"
        )
    # The provenance has all open sizes, also those that the inputs settled.
    model = (
        result.program
        if path is None
        else open_model(path, parse_sizes(split(result.provenance.shapes or "")))
    )
    names = {field.name for field in fields(Options)} & set(asked)
    return levers(
        model,
        result,
        Options(**{name: asked[name] for name in names}),
        file="" if path is None else str(path),
    )


def _why_none(model: Graph | Program, result: RunResult, options: Options, by_cost: bool) -> str:
    """Return why no change is simulated; empty if changes are."""
    if not result.cycles:
        return f"{result.model} takes no time: all that it gives is known before the run"
    if result.hardware.is_host_alone:
        return f"{result.hardware.name} has no NPU to change; --hw edge-128 runs the model on one"
    if not isinstance(model, Graph):
        return "the program is compiled already; run the model to see what changes of the hardware bring"
    if by_cost or options.schedules:
        option = "--partition cost" if by_cost else f"--effort {options.effort}"
        return f"with {option} each change would be a search; run without it to see what changes bring"
    return ""


def _best_variants(result: RunResult) -> list[Candidate]:
    """Return the best what-if variants, as many as an answer has levers."""
    if result.variants is None:
        return []
    ran = [variant for variant in result.variants.variants if not variant.reason and variant.latency_percent]
    return [
        Candidate(_unit(variant.parameter), {variant.parameter: variant.after}, 0.0)
        for variant in sorted(ran, key=lambda variant: variant.latency_percent or 0.0)[:MOST_LEVERS]
    ]


def _affordable(result: RunResult) -> int:
    """Return how many changes are simulated: fewer if the model takes longer to compile and to time."""
    cost = _cost(result)
    if cost > MOST_COST_TIMED and not result.outputs:
        return 1
    return min(LEAST_TRIED + int(EXTRA_COST / cost), MOST_TRIED)


def _cost(result: RunResult) -> float:
    """Estimate the milliseconds to simulate one change; fitted on networks of 20 to 2,000 instructions."""
    program, transfers = result.program, len(result.execution.trace.transfers)
    return 12 + 0.4 * program.instructions + 0.04 * transfers + len(program.layers)


def _simulated(graph: Graph, result: RunResult, candidate: Candidate, do: str = "") -> Lever | None:
    """Simulate a change; None if the model does not fit the changed machine.

    do: the command that makes the change, for a change of the model instead of the hardware.
    """
    try:
        program = api.compile_program(graph, change(result.hardware, candidate.set))
        then = measure(program, machine.execute(program, data=False))
    except NpusimError:
        return None
    return Lever(
        relieves=candidate.relieves,
        set={} if do else candidate.set,
        do=do,
        cycles=int(then.cycles),
        latency_ms=then.latency_ms,
        energy_uj=float(then.energy_uj),
        area_mm2=then.area.total,
        latency_percent=_percent(result.latency_ms, then.latency_ms),
        energy_percent=_percent(float(result.energy_uj), float(then.energy_uj)),
        area_mm2_more=then.area.total - result.area.total,
    )


def _float_share(result: RunResult) -> float:
    """Return the share of the cycles in which the host computes floating-point values."""
    cycles = sum(layer.cycles for layer in _on_host(result, "float32"))
    return cycles / int(result.cycles)


def _on_host(result: RunResult, dtype: str) -> list[LayerResult]:
    """Return the layers that the host computes in an element type."""
    return [
        layer
        for layer, known in zip(result.layers, result.program.layers, strict=True)
        if layer.unit == HOST and known.workload.dtype == dtype
    ]


def _quantized(model: Graph, result: RunResult, file: str, share: float) -> Lever | None:
    """Simulate the model in int8, as `npusim quantize` converts it; the made-up ranges do not affect the time."""
    from npusim.quantization.conversion import Options as Settings
    from npusim.quantization.conversion import quantized
    from npusim.quantization.preparation import prepared
    from npusim.quantization.ranges import Range

    try:
        floats = prepared(model)
        ranges = {
            number: Range(-1.0, 1.0)
            for number, tensor in enumerate(floats.tensors)
            if tensor.type.dtype == "float32" and not tensor.constant
        }
        graph, _ = quantized(floats, ranges, Settings(codes_outside=True))
    except NpusimError:
        return None
    target = f"{Path(file).name.partition('.')[0]}_int8.tflite"
    do = f"npusim quantize {quote(file or 'MODEL')} --data SAMPLES.npz --io int8 -o {quote(target)}"
    return _simulated(graph, result, Candidate(HOST, {}, share), do)


def _percent(before: float, after: float) -> float:
    return 100 * (after - before) / before if before else 0.0


# Candidates


def candidates(result: RunResult, lacking: Mapping[str, int]) -> list[Candidate]:
    """Return the changes that may help and that the machine allows, in the order in which to simulate them.

    lacking: cycles of layers on the host by the hardware key that would bring them to the NPU.

    First the most promising change for each bottleneck, then the second ones, and so on, so that even a few changes
    cover several bottlenecks.
    """
    candidates: list[Candidate] = []
    for proposal in sorted(_proposals(result, lacking), key=lambda proposal: -proposal.gain):
        known = any(proposal.set == other.set for other in candidates)
        worthwhile = proposal.set and not known and proposal.gain >= LEAST_SHARE
        if worthwhile and _allowed(result.hardware, proposal.set):
            candidates.append(proposal)
    kinds = [candidate.relieves for candidate in candidates]
    places = sorted(range(len(candidates)), key=lambda place: (kinds[:place].count(kinds[place]), place))
    return [candidates[place] for place in places]


def _allowed(hardware: Hardware, changes: Mapping[str, Any]) -> bool:
    try:
        change(hardware, changes)
    except NpusimError:
        return False
    return True


def _proposals(result: RunResult, lacking: Mapping[str, int]) -> Iterator[Candidate]:
    """Yield every change that the busy times, the lost cycles and what the machine lacks suggest."""
    hardware, total = result.hardware, int(result.cycles)
    account, alone = result.accounts.network, result.accounts.alone
    for name, busy in account.busy.items():
        gain = (alone.get(name, busy // 2) + busy) / 4 / total
        yield from (Candidate(name, changes, gain) for changes in _relieving(hardware, name))
    yield from _needed(result, lacking)
    untouched = sum(cycles for name, cycles in alone.items() if name in _off_clock(hardware))
    faster = _faster_clock(hardware)
    for clock in faster.values():
        yield Candidate(CLOCK, faster, (1 - untouched / total) * (1 - hardware.clock_mhz / clock))
    for (path, cause), lost in _lost_to(result).items():
        relieves = cause if cause in WAITS and not path.endswith(RATES) else _unit(path)
        yield Candidate(relieves, scaled(hardware, {path: 2}), lost / 2 / total)


def _relieving(hardware: Hardware, name: str) -> Iterator[Mapping[str, Any]]:
    """Yield the changes that shorten the busy time of a unit or a memory."""
    array = hardware.mac_array
    if name == "mac":
        for factors in engine_of(array).larger:
            yield scaled(hardware, {f"mac_array.{key}": factor for key, factor in factors.items()})
    elif (name in RESOURCES and name != PORT) or name == "dma":
        levers = RESOURCES[name].levers if name in RESOURCES else CAUSES["moves"].levers
        yield from (scaled(hardware, {path: 2}) for path in levers)
    else:
        yield scaled(hardware, {_of_memory(hardware, name, RESOURCES[PORT].levers[0]): 2})


FLOAT_PARTS = {"vector.{}_lanes": ("vector.lanes", 2), "mac_array.{}_columns": ("mac_array.columns", 4)}
"""Keys of floating-point units; a machine without them gets a fraction (divisor) of the named key of its int8 units."""


FIRST_UNITS: Mapping[str, Mapping[str, Any]] = {
    "dma.burst_buffer_kib": {"dma.burst_buffer_kib": 4},
    "float32_rescale": {"float32_rescale": True},
    "mac_array.int16_passes": {"mac_array.int16_passes": 2},
}
"""What a machine without a unit gets, by the key that an operator needs; the burst buffer is as large as in presets."""


def _lacking(graph: Graph, result: RunResult) -> dict[str, int]:
    """Return the cycles of layers on the host by the hardware key that would bring them to the NPU.

    The graph is lowered once more, because neither a program nor its results keep these keys.
    """
    cycles: dict[str, int] = {}
    if result.cycles.host < LEAST_SHARE * result.cycles:
        return cycles
    try:
        items = prepare(graph, result.hardware).items
    except NpusimError:
        return cycles  # it is several programs
    for item in items:
        if isinstance(item.body, HostStep):
            for key in item.body.keys:
                cycles[key] = cycles.get(key, 0) + result.layers[item.node].cycles
    return cycles


def _needed(result: RunResult, lacking: Mapping[str, int]) -> Iterator[Candidate]:
    """Yield the changes that add what the machine lacks for layers on the host."""
    for dtype in REAL_TYPES:
        yield from _floats(result, dtype, lacking)
    room = scaled(result.hardware, {ROOM: 2})
    for key, changes in {ROOM: room, **FIRST_UNITS}.items():
        yield Candidate(HOST, changes, lacking.get(key, 0) / int(result.cycles))


def _floats(result: RunResult, dtype: str, lacking: Mapping[str, int]) -> Iterator[Candidate]:
    """Yield the changes that add missing floating-point units for layers on the host: all of them, and one alone."""
    values, lacked = to_flat(result.hardware), dict[str, Any]()
    for key, (of, part) in FLOAT_PARTS.items():
        path = key.format(dtype)
        if path in lacking:
            lacked[path] = max(int(values.get(of, part)) // part, 1)
    share = sum(layer.cycles for layer in _on_host(result, dtype)) / int(result.cycles)
    for changes in (lacked, dict(list(lacked.items())[:1])):
        yield Candidate(HOST, changes, share * len(changes) / max(len(lacked), 1))


def _lost_to(result: RunResult) -> dict[tuple[str, str], int]:
    """Return the lost cycles that each key can reduce, by the key and the largest of its causes."""
    lost = result.accounts.network.lost
    port = result.lower_bound.port
    causes: dict[str, list[str]] = {}
    for cause in lost:
        for path in CAUSES[cause].levers:
            if path == "scratchpad.size_kib" and "dram_traffic" not in lost:
                continue  # a larger scratchpad saves nothing, since nothing was spilled or fetched again
            causes.setdefault(_of_memory(result.hardware, port, path), []).append(cause)
    return {
        (path, max(own_causes, key=lambda cause: lost[cause])): sum(lost[cause] for cause in own_causes)
        for path, own_causes in causes.items()
    }


def _of_memory(hardware: Hardware, name: str, path: str) -> str:
    """Translate a key of the DRAM to that of a memory; a memory on the NPU's clock has a port width, no bandwidth."""
    memory = next((known for known in hardware.memory if known.name == name), None)
    table, _, key = path.partition(".")
    if memory is None or table != "dram":
        return path
    if memory.clock_ratio:
        key = {"bandwidth_gb_per_s": "access_bytes", "latency_ns": "latency_cycles"}.get(key, key)
    return f"memory.{name}.{key}"


def _unit(path: str) -> str:
    """Return the unit or memory that a key belongs to, else its table."""
    table, _, rest = path.partition(".")
    units = {kind.section: kind.name for kind in WORKERS}
    return rest.partition(".")[0] if table == MEMORY else units.get(table, table)


def _off_clock(hardware: Hardware) -> set[str]:
    """Return what a faster clock of the NPU does not speed up: the host, and memories with a clock of their own."""
    own = {memory.name for memory in hardware.memory if not memory.clock_ratio}
    return {HOST, PORT, *own}


def _faster_clock(hardware: Hardware) -> Mapping[str, Any]:
    """Return twice the clock, or the fastest clock of the process node; the supply voltage follows it."""
    clock = min(2 * hardware.clock_mhz, fastest_mhz(hardware))
    return {"clock_mhz": clock} if clock > hardware.clock_mhz else {}


def scaled(hardware: Hardware, factors: Mapping[str, float]) -> Mapping[str, Any]:
    """Return keys with their values multiplied by a factor; times are divided by a factor above 1.

    Keys that the machine does not read, or that are unset, are left out. Empty if a value cannot be scaled exactly.
    """
    values, changed = to_flat(hardware), dict[str, Any]()
    for path, factor in factors.items():
        before = values.get(path)
        if before is None:
            continue
        if not isinstance(before, int | float) or isinstance(before, bool):
            return {}
        by = 1 / factor if path.endswith(TIMES) and factor > 1 else factor
        after = before * by if isinstance(before, float) else int(before * by)
        if after == before or after / by != before:
            return {}
        changed[path] = after
    return changed
