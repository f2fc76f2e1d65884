"""Sensitivity of a run to each hardware parameter: `npusim run MODEL --what-if`.

Every parameter that declares factors (`Parameter.what_if`: 2 for most, also 1/2 for capacities and times) is changed
alone. The clock is raised at most to the limit of the process node, with the supply voltage that it needs. The changed
machines are points of a design space, evaluated like those of a search: each compiled for its own hardware and
simulated event by event, without data. A compiled program is not compiled again, but run on the variants that keep it
valid.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from shlex import split
from typing import NamedTuple

from npusim.isa.base.errors import NpusimError
from npusim.isa.hardware.file import change, to_flat
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.parameters import Parameter, parameters_read
from npusim.isa.hardware.voltage import fastest_mhz
from npusim.isa.program.program import Program
from npusim.kernels.graph.bind import Sizes
from npusim.kernels.graph.graph import Graph
from npusim.numbers.run import RunResult
from npusim.numbers.variants import Variant, WhatIf
from npusim.session import api
from npusim.session.opening import open_model
from npusim.session.options import Asked, Options, parse_sizes
from npusim.study.evaluate import Job, Record, Workload
from npusim.study.executors import Executor, InProcess, LocalProcesses, available_cores
from npusim.study.metrics import number
from npusim.study.space import Axis, Objective, Space

LEAST_MM2 = 1e-6
"""One square micrometre in mm2; a smaller change of the area counts as none."""

LEAST_PARALLEL_S = 2.0
"""Least estimated seconds for which worker processes start: they take 0.5 s to start, and halve the time at best."""

LATENCY, ENERGY, AREA = "latency_ms", "energy_uj.total", "area_mm2.total"


def what_if(
    model: str | Path | Graph | Program,
    hw: str | Path | Hardware | None = None,
    *,
    effort: str | int = "fast",
    unknown: str | None = None,
    host: Sequence[str] = (),
    partition: Asked = None,
    sizes: Sizes | None = None,
    jobs: int | None = None,
    progress: api.Progress | None = None,
) -> WhatIf:
    """Change each hardware parameter in turn and simulate the model again.

    model:    a model file, a built-in name, a Graph; or a program or `.npu` file, which brings its hardware.
    hw:       a preset, a file, or a Hardware; edge-128 if None.
    effort, unknown: how every variant is compiled, as for `npusim.compile`.
    host, partition: operators on the host, as for `npusim.compile`. Those that move there by cost are found for `hw`
                     and stay there in all variants.
    sizes:    sizes that a model file leaves open, as for `npusim.load`.
    jobs:     number of processes; None starts one per core. The result does not depend on it.
    progress: called now and then with (variants done, all variants).

    Raises NpusimError for a model or hardware that cannot be read or run.
    """
    return what_if_of(model, hw, Options(effort, unknown, host, partition, sizes), jobs, progress)


def what_if_of(
    model: str | Path | Graph | Program,
    hw: str | Path | Hardware | None,
    options: Options,
    jobs: int | None = None,
    progress: api.Progress | None = None,
) -> WhatIf:
    """Do what `what_if` does, with all options of the compilation in one value."""
    opened = open_model(model, options.sizes) if isinstance(model, str | Path) else model
    options.require_sound()
    if isinstance(opened, Graph):
        opened = options.known(opened)
    base = _base(opened, api.hardware(hw) if isinstance(hw, str | Path) else hw)
    if isinstance(opened, Graph):
        opened = options.placed(opened, base)
    tried = [
        _changed(base, parameter, factor)
        for parameter in parameters_read(base)
        for factor in parameter.what_if
    ]
    runs = [attempt for attempt in tried if isinstance(attempt, _Try)]
    job = Job(_space(base, runs, options.schedules), (Workload(opened.name, opened),))
    here = InProcess(job)
    begin = time.perf_counter()
    result = here.evaluator.run(0, job.space.setting(0), base)  # all first values: those of the base
    now = Point(*(number(result, key) for key in (LATENCY, ENERGY, AREA)))
    points = [_number(job.space, run) for run in runs]
    executor = _executor(here, job, points, jobs, time.perf_counter() - begin)
    records = _records(executor, points, progress)
    variants = [attempt for attempt in tried if isinstance(attempt, Variant)]
    variants += [_variant(run, records[point], now) for run, point in zip(runs, points, strict=True)]
    return WhatIf(
        model=opened.name,
        hardware=base,
        compiled=isinstance(opened, Graph),
        **now._asdict(),
        variants=tuple(sorted(variants, key=_gain)),
    )


def _base(model: Graph | Program, chosen: Hardware | None) -> Hardware:
    """Return the hardware to change. Raises NpusimError for a program with another hardware than its own."""
    if not isinstance(model, Program):
        return chosen or api.hardware(api.DEFAULT_HARDWARE)
    if chosen not in (None, model.hardware):
        raise NpusimError(
            f'what-if: {model.name} is compiled for "{model.hardware.name}"; leave the hardware out'
        )
    return model.hardware


def what_if_result(result: RunResult, jobs: int | None = None) -> WhatIf:
    """Do what `what_if` does for the model and hardware of a result; for its program if it has no model."""
    if result.source is None:
        return what_if(result.program, jobs=jobs)
    model = open_model(result.source, parse_sizes(split(result.provenance.shapes or "")))
    names = [layer.name for layer in result.program.layers]
    unknown = "host" if result.program.unknown_operators else None
    if isinstance(model, Graph) and names != [
        layer.name for layer in api.compile_program(model, result.hardware, Options(unknown=unknown)).layers
    ]:
        raise NpusimError(f"{result.source}: is another model than the one that this result is of")
    return what_if(model, result.hardware, unknown=unknown, jobs=jobs)


class Point(NamedTuple):
    """The latency, energy and area of one machine."""

    latency_ms: float
    energy_uj: float
    area_mm2: float


class _Try(NamedTuple):
    """A variant to run."""

    parameter: str
    before: float
    after: float


def _changed(base: Hardware, parameter: Parameter, factor: float) -> _Try | Variant:
    """Change one parameter of a machine; return the machine, or the reason why it cannot be changed."""
    path = parameter.path
    before = _value(base, parameter)
    if before is None:
        return Variant(path, None, None, reason="unset")
    after: float = before * factor if isinstance(before, float) else int(before * factor)
    if path == "clock_mhz" and before < fastest_mhz(base) < after:
        # Twice the clock is beyond the highest supply of the node, so the fastest clock is tried instead.
        return _Try(path, before, fastest_mhz(base))
    if after == before or after / factor != before:
        return Variant(
            path, before, None, reason=f"{before:g} cannot be {'halved' if factor < 1 else 'doubled'}"
        )
    try:
        change(base, {path: after})
    except NpusimError as fault:
        return Variant(path, before, after, reason=_without_place(str(fault)))
    return _Try(path, before, after)


def _value(hardware: Hardware, parameter: Parameter) -> float | None:
    # A table that a file leaves out, such as [mac_array.block], has default values.
    number: float | None = to_flat(hardware).get(parameter.path, parameter.default)
    return number


def _without_place(message: str) -> str:
    """Return the message of a hardware fault without its beginning "hardware: 1 fault:"."""
    return re.sub(r"^hardware: \d+ faults?: ", "", message)


# The machines as points of a space


def _space(base: Hardware, runs: Sequence[_Try], schedules: int) -> Space:
    """Return a space that holds all machines with one change; those with several changes are never computed."""
    values: dict[str, list[float]] = {}
    for run in runs:
        values.setdefault(run.parameter, [run.before]).append(run.after)
    return Space(
        base=base,
        axes=tuple(Axis(path, tuple(tried)) for path, tried in values.items()),
        objectives=(Objective(LATENCY, "min"), Objective(ENERGY, "min")),
        keep=(AREA,),
        effort=schedules,
    )


def _number(space: Space, tried: _Try) -> int:
    """Return the number of the point with one change; its other parameters have their first value, the base's."""
    return space.number(
        [axis.values.index(tried.after) if axis.path == tried.parameter else 0 for axis in space.axes]
    )


def _executor(here: InProcess, job: Job, points: Sequence[int], jobs: int | None, point_s: float) -> Executor:
    """Return the executor of the points: this process, or several processes if the work is long enough."""
    workers = min(jobs or available_cores(), len(points))
    parallel = workers > 1 and point_s * len(points) > LEAST_PARALLEL_S
    return LocalProcesses(job, workers) if parallel else here


def _records(
    executor: Executor, points: Sequence[int], progress: api.Progress | None
) -> Mapping[int, Record]:
    """Return the records of all points by number."""
    records: dict[int, Record] = {}
    with closing(executor):
        for record in executor.records(points):
            records[record.point] = record
            if progress is not None:
                progress(len(records), len(points))
    return records


def _variant(tried: _Try, record: Record, now: Point) -> Variant:
    if record.reason:
        return Variant(*tried, reason=record.reason)
    then = Point(*(record.values[key] for key in (LATENCY, ENERGY, AREA)))
    return Variant(
        *tried,
        **then._asdict(),
        latency_percent=_percent(now.latency_ms, then.latency_ms),
        energy_percent=_percent(now.energy_uj, then.energy_uj),
        area_percent=_percent(now.area_mm2, then.area_mm2),
        percent_per_mm2=_per_mm2(now, then),
    )


def _percent(before: float, after: float) -> float | None:
    """Return the change in percent; None from 0 to another value."""
    if not before:
        return None if after else 0.0
    return 100 * (after - before) / before


def _per_mm2(now: Point, then: Point) -> float | None:
    """Return the reduction of the latency in percent per additional mm2."""
    more, change = then.area_mm2 - now.area_mm2, _percent(now.latency_ms, then.latency_ms)
    if change is None or more < LEAST_MM2:
        return None
    return -change / more if change else 0.0


def _gain(variant: Variant) -> tuple[bool, float, float]:
    """Return the sorting key of the table of variants: the largest gain in latency, then in energy."""
    return bool(variant.reason), variant.latency_percent or 0.0, variant.energy_percent or 0.0
