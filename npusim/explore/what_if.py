"""What a change of each hardware parameter would bring: `npusim run MODEL --what-if`.

Every parameter that declares factors (`Parameter.what_if`: twice as much of most, half as well of capacities and
times) is changed alone. Each variant is compiled for its own hardware and simulated event by event, without data. A
compiled program is run as it is instead, on the variants that keep it valid.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from npusim.base.frame import frame
from npusim.explore.executors import available_cores
from npusim.isa.base.errors import NpusimError
from npusim.isa.hardware.file import Parameter, change, parameters, to_dict
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.unknown import unknown_on_host

if TYPE_CHECKING:
    import pandas

    from npusim.numbers.run import RunResult
    from npusim.session.api import Progress

LEAST_MM2 = 1e-6
"""A square micrometre: less is no area."""

LEAST_PARALLEL_S = 0.4
"""Work of fewer seconds is done here: starting processes would take longer than they save."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One changed parameter and what it brings.

    before, after:   its value, and the value that was tried; None where it could not be changed.
    latency_ms, energy_uj, area_mm2:   of the variant; None if it was not run.
    *_percent:       the change of them, negative is less.
    percent_per_mm2: latency that it takes off, in percent, for each square millimetre more; None where the area
                     does not grow.
    reason:          why it was not run; empty if it was.
    """

    parameter: str
    before: float | None
    after: float | None
    latency_ms: float | None = None
    energy_uj: float | None = None
    area_mm2: float | None = None
    latency_percent: float | None = None
    energy_percent: float | None = None
    area_percent: float | None = None
    reason: str = ""
    percent_per_mm2: float | None = None

    @property
    def chosen(self) -> bool:
        """An architect may choose the parameter; else it comes with the DRAM, the circuits or the host."""
        return self.parameter not in _given()

    def to_dict(self) -> dict[str, Any]:
        """The variant in the JSON."""
        return asdict(self) | {"chosen": self.chosen}


@cache
def _given() -> frozenset[str]:
    return frozenset(each.path for each in parameters() if not each.chosen)


@dataclass(frozen=True, slots=True)
class Parameters:
    """The variants of one parameter, in the order of its values: those that were run, and why others were not."""

    path: str
    chosen: bool
    ran: tuple[Variant, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class WhatIf:
    """What each change would bring to one model on one machine.

    variants: what was tried, the largest gain in latency first (then in energy), what was not run last.
    compiled: each variant was compiled for its hardware; False: one program was run on all of them.
    """

    model: str
    hardware: Hardware
    compiled: bool
    latency_ms: float
    energy_uj: float
    area_mm2: float
    variants: tuple[Variant, ...]

    def to_list(self) -> list[dict[str, Any]]:
        """The `what_if` of the JSON: a table per variant, in order."""
        return [each.to_dict() for each in self.variants]

    def by_parameter(self) -> tuple[Parameters, ...]:
        """The variants, each parameter once: what an architect may choose first, then the largest gain in latency."""
        found: dict[str, list[Variant]] = {}
        for each in self.variants:
            found.setdefault(each.parameter, []).append(each)
        groups = [
            Parameters(
                path,
                variants[0].chosen,
                tuple(
                    sorted((each for each in variants if not each.reason), key=lambda each: each.after or 0.0)
                ),
                tuple(dict.fromkeys(each.reason for each in variants if each.reason)),
            )
            for path, variants in found.items()
        ]
        return tuple(
            sorted(groups, key=lambda group: not group.chosen)
        )  # variants have the largest gain first

    def to_pandas(self) -> pandas.DataFrame:
        """The variants as a table, a row each."""
        return frame(self.to_list())

    def __repr__(self) -> str:
        return f"<WhatIf: {self.model} on {self.hardware.name}, {len(self.variants)} variants>"

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        from npusim.reports import notebook

        return notebook.what_if(self)


class Point(NamedTuple):
    """What one machine gives."""

    latency_ms: float
    energy_uj: float
    area_mm2: float


def what_if(
    model: str | Path | Graph | Program,
    hw: str | Path | Hardware | None = None,
    *,
    effort: str | int = "fast",
    unknown: str | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> WhatIf:
    """Change each hardware parameter in turn and simulate the model again.

    model:    a model file, a built-in name, a Graph; or a program or `.npu` file, which brings its hardware.
    hw:       a preset, a file, or a Hardware; edge-128 if None.
    effort:   of the compiler, for every variant, as for `npusim.compile`; so is `unknown`.
    jobs:     processes; as many as there are cores if None. The result does not depend on it.
    progress: called now and then with (variants done, all variants).

    Raises NpusimError for a model or hardware that cannot be read or run.
    """
    from npusim.session import api

    opened = api.open_model(model) if isinstance(model, str | Path) else model
    if api.check_unknown(unknown) and isinstance(opened, Graph):
        opened = unknown_on_host(opened)
    chosen = api.hardware(hw) if isinstance(hw, str | Path) else hw
    if isinstance(opened, Program):
        if chosen not in (None, opened.hardware):
            raise NpusimError(
                f'what-if: {opened.name} is compiled for "{opened.hardware.name}"; leave the hardware out'
            )
        base = opened.hardware
    else:
        base = chosen or api.hardware(api.DEFAULT_HARDWARE)
    begin = time.perf_counter()
    bench = _Bench(opened, effort)
    now = bench.point(base)
    point_s = time.perf_counter() - begin
    tried = [_changed(base, parameter, factor) for parameter in parameters() for factor in parameter.what_if]
    runs = [each for each in tried if isinstance(each, _Try)]
    found = _points(bench, [each.hardware for each in runs], jobs, point_s, progress)
    variants = [each for each in tried if isinstance(each, Variant)]
    variants += [_variant(each, point, now) for each, point in zip(runs, found, strict=True)]
    return WhatIf(
        model=opened.name,
        hardware=base,
        compiled=isinstance(opened, Graph),
        latency_ms=now.latency_ms,
        energy_uj=now.energy_uj,
        area_mm2=now.area_mm2,
        variants=tuple(sorted(variants, key=_gain)),
    )


def what_if_result(result: RunResult, jobs: int | None = None) -> WhatIf:
    """`what_if` of the model of a result on its hardware; of its program, if that is all there is."""
    from npusim.session import api

    if result.source is None:
        return what_if(result.program, jobs=jobs)
    model = api.open_model(result.source)
    names = [layer.name for layer in result.program.layers]
    unknown = "host" if result.program.unknown_operators else None
    if isinstance(model, Graph) and names != [
        layer.name for layer in api.compile_program(model, result.hardware, unknown=unknown).layers
    ]:
        raise NpusimError(f"{result.source}: is another model than the one that this result is of")
    return what_if(model, result.hardware, unknown=unknown, jobs=jobs)


class _Bench(NamedTuple):
    """What is run on one machine after the other, and how hard the compiler tries."""

    model: Graph | Program
    effort: str | int

    def point(self, hardware: Hardware) -> Point:
        """What one machine gives. Raises NpusimError where the model, or the program as it is, does not fit."""
        from npusim.numbers.area import area
        from npusim.session import api

        program = self.model
        if not isinstance(program, Program):
            program = api.compile_program(program, hardware, effort=self.effort)
        result = api.simulate(program, timing_only=True, hardware=hardware)
        return Point(result.latency_ms, float(result.energy_uj), area(hardware).total)

    def attempt(self, hardware: Hardware) -> Point | str:
        """What one machine gives, or why it gives nothing."""
        try:
            return self.point(hardware)
        except NpusimError as fault:
            return str(fault)


class _Try(NamedTuple):
    """A variant to run."""

    parameter: str
    before: float
    after: float
    hardware: Hardware


def _changed(base: Hardware, parameter: Parameter, factor: float) -> _Try | Variant:
    """A machine with one parameter changed, or the reason why there is none."""
    path = parameter.path
    before = _value(base, path)
    if before is None:
        return Variant(path, None, None, reason="unset")
    after: float = before * factor if isinstance(before, float) else int(before * factor)
    if after == before or after / factor != before:
        return Variant(
            path, before, None, reason=f"{before:g} cannot be {'halved' if factor < 1 else 'doubled'}"
        )
    try:
        return _Try(path, before, after, change(base, {path: after}))
    except NpusimError as fault:
        return Variant(path, before, after, reason=_without_place(str(fault)))


def _value(hardware: Hardware, path: str) -> float | None:
    value: Any = to_dict(hardware)
    for key in path.split("."):
        value = value.get(key)
    number: float | None = value
    return number


def _without_place(message: str) -> str:
    """A fault of a hardware description without "hardware: 1 fault:"."""
    return re.sub(r"^hardware: \d+ faults?: ", "", message)


def _variant(tried: _Try, point: Point | str, now: Point) -> Variant:
    if isinstance(point, str):
        return Variant(tried.parameter, tried.before, tried.after, reason=point)
    return Variant(
        tried.parameter,
        tried.before,
        tried.after,
        **point._asdict(),
        latency_percent=_percent(now.latency_ms, point.latency_ms),
        energy_percent=_percent(now.energy_uj, point.energy_uj),
        area_percent=_percent(now.area_mm2, point.area_mm2),
        percent_per_mm2=_per_mm2(now, point),
    )


def _percent(before: float, after: float) -> float | None:
    """The change in percent; None from 0 to anything else."""
    if not before:
        return None if after else 0.0
    return 100 * (after - before) / before


def _per_mm2(now: Point, then: Point) -> float | None:
    """Percent of the latency that go for each square millimetre that comes."""
    more, change = then.area_mm2 - now.area_mm2, _percent(now.latency_ms, then.latency_ms)
    if change is None or more < LEAST_MM2:
        return None
    return -change / more if change else 0.0


def _gain(variant: Variant) -> tuple[bool, float, float]:
    """The order of the table."""
    return bool(variant.reason), variant.latency_percent or 0.0, variant.energy_percent or 0.0


# Many machines


def _points(
    bench: _Bench,
    machines: Sequence[Hardware],
    jobs: int | None,
    point_s: float,
    progress: Progress | None,
) -> list[Point | str]:
    """The point of every machine, or why there is none, in order; by several processes where that pays."""
    workers = min(jobs or available_cores(), len(machines))
    parallel = workers > 1 and point_s * len(machines) > LEAST_PARALLEL_S and hasattr(os, "fork")
    points: list[Point | str] = []
    source = _in_processes(bench, machines, workers) if parallel else iter(())
    with suppress(
        BrokenProcessPool
    ):  # a worker was killed: what is left is done here, which needs less memory
        for point in source:
            points.append(point)
            if progress is not None:
                progress(len(points), len(machines))
    for hardware in machines[len(points) :]:
        points.append(bench.attempt(hardware))
        if progress is not None:
            progress(len(points), len(machines))
    return points


def _in_processes(bench: _Bench, machines: Sequence[Hardware], workers: int) -> Iterator[Point | str]:
    """Points in order. Forked workers have the model already, and need no `__main__` that can be imported."""
    import multiprocessing

    pool = ProcessPoolExecutor(
        workers, multiprocessing.get_context("fork"), initializer=_begin_worker, initargs=(bench,)
    )
    try:
        yield from pool.map(_work, machines)
    finally:
        pool.shutdown(cancel_futures=True)


_benches: list[_Bench] = []


def _begin_worker(bench: _Bench) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started us is told, and stops us
    _benches.append(bench)


def _work(hardware: Hardware) -> Point | str:
    return _benches[-1].attempt(hardware)
