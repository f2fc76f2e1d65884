"""The evaluation of a point of a space: every model is compiled, executed and measured, with reuse between points.

`npusim.study.stages` defines what is reused: a program serves all points that are equal to the compiler, and an
execution serves all points that differ only in parameters that are read afterwards. The caches only save time: the
numbers are those of a fresh start, which a test checks over random spaces.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from typing import Any, TypeVar

import numpy as np

from npusim.isa.base.errors import CompileError, GraphError, NpusimError, ProgramError, SimulationError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Graph
from npusim.machine import system as machine
from npusim.machine.trace import Execution
from npusim.numbers.measure import measure
from npusim.numbers.run import RunResult
from npusim.session import api
from npusim.session.options import Options
from npusim.study.metrics import LARGEST_VALUE, LEAST_WEIGHT, MOST_WEIGHT, combine, is_value, number
from npusim.study.space import InfeasibleError, Space, Values

PROGRAMS_KEPT = 16
EXECUTIONS_KEPT = 16

_NO_PROGRAM = (CompileError, GraphError, ProgramError, SimulationError)
"""Errors that make a point infeasible, as opposed to faults of the space or of npusim."""

_Outcome = TypeVar("_Outcome")


@dataclass(frozen=True)
class Workload:
    """A model of a study.

    name:   its name in the study.
    model:  a graph, which is compiled for every point, or a program, which runs unchanged.
    weight: its weight in combined values.
    file:   the name of its file without folders, for commands; empty for a model without a file.
    shapes: sizes that the model leaves open, as `npusim run --shape` takes them, for commands.

    Raises NpusimError for a weight that is not one.
    """

    name: str
    model: Graph | Program
    weight: float = 1.0
    file: str = ""
    shapes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not LEAST_WEIGHT <= self.weight <= MOST_WEIGHT:
            raise NpusimError(
                f"{self.name}: weight {self.weight:g}, may be {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}"
            )

    @property
    def digest(self) -> str:
        """SHA-256 of what the compiler sees of the model. Raises NpusimError for a program, which no study takes."""
        if isinstance(self.model, Program):
            raise NpusimError(f"{self.name}: is compiled already; a study compiles its models")
        text = sha256()
        graph = self.model
        text.update(repr((graph.name, graph.nodes, graph.inputs, graph.outputs, graph.states)).encode())
        for tensor in graph.tensors:
            data = tensor.array
            plain = tensor if data is None else replace(tensor, data=None)
            text.update(repr((plain, None if data is None else (data.dtype.str, data.shape))).encode())
            if data is not None:
                text.update(np.ascontiguousarray(data).tobytes())
        return text.hexdigest()


@dataclass(frozen=True)
class Job:
    """The space and the models of a search. A worker process receives them once."""

    space: Space
    workloads: tuple[Workload, ...]


@dataclass(frozen=True)
class Record:
    """A computed point: its values, or the reason why it has none.

    values:   by key of the space, combined over several models; empty for a point without a result.
    by_model: the values of each model, if there are several.
    reason:   why the point has no result; empty for a point with one.
    """

    point: int
    values: Mapping[str, float] = field(default_factory=dict)
    by_model: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    reason: str = ""


class Evaluator:
    """The evaluator of a job's points, one after the other, with its caches."""

    def __init__(self, job: Job, *, caching: bool = True) -> None:
        self.job = job
        self._programs = _Cache(PROGRAMS_KEPT if caching else 0)
        self._executions = _Cache(EXECUTIONS_KEPT if caching else 0)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the job only, without the caches."""
        return Evaluator, (self.job,)

    def record(self, point: int) -> Record:
        """Compute the record of a point. Raises NpusimError for an objective that a model does not have.

        Any other error becomes the reason why the point has no result, so that the search goes on.
        """
        return self._judged(point, lambda: self._setting(point))

    def _setting(self, point: int) -> Values:
        space = self.job.space
        setting = space.setting(point)
        space.satisfied(setting)  # raises InfeasibleError if a constraint has no value for the setting
        return setting

    def base(self) -> Record:
        """Compute the record of the base hardware, which is no point of the space and has the number -1."""
        return self._judged(-1, dict)

    def _judged(self, point: int, setting: Callable[[], Values]) -> Record:
        try:
            return self._record(point, setting())
        except (InfeasibleError, *_NO_PROGRAM) as fault:
            return Record(point, reason=str(fault))
        except NpusimError:
            raise
        except MemoryError:
            return Record(point, reason="not enough memory to compile or simulate it")
        except Exception as fault:
            words = " ".join(f"{type(fault).__name__}: {fault}".split())
            return Record(point, reason=f"a fault of npusim, please report it with the hardware: {words}")

    def _record(self, point: int, setting: Values) -> Record:
        space, workloads = self.job.space, self.job.workloads
        hardware = space.hardware(setting)
        runs = [self.run(index, setting, hardware) for index in range(len(workloads))]
        by_model = [{key: number(run, key) for key in space.keys} for run in runs]
        values = self._combined(by_model)
        if not all(map(is_value, [*values.values(), *(value for run in by_model for value in run.values())])):
            return Record(point, reason=f"a value is not finite, or beyond {LARGEST_VALUE:g}")
        several = len(workloads) > 1
        named = {model.name: row for model, row in zip(workloads, by_model, strict=True)} if several else {}
        return Record(point, values, named)

    def _combined(self, by_model: Sequence[Mapping[str, float]]) -> dict[str, float]:
        space = self.job.space
        weights = [workload.weight for workload in self.job.workloads]
        maximised = {objective.key for objective in space.objectives if objective.goal == "max"}
        return {
            key: combine(
                [values[key] for values in by_model], weights, space.combine, key, key not in maximised
            )
            for key in space.keys
        }

    def run(self, workload: int, setting: Values, hardware: Hardware) -> RunResult:
        """Run one model on the hardware of a setting, without data."""
        space, model = self.job.space, self.job.workloads[workload].model

        def program() -> Program:
            assert isinstance(model, Graph)
            return api.compile_program(model, space.compiled_for(setting), Options(space.effort))

        def execution() -> tuple[Program, Execution]:
            if isinstance(model, Program):
                return model, machine.execute(replace(model, hardware=hardware), data=False)
            compiled = self._programs.get((workload, *_values(space.program_paths, setting)), program)
            return compiled, machine.execute(compiled, hardware=hardware, data=False)

        compiled, executed = self._executions.get((workload, *_values(space.run_paths, setting)), execution)
        return measure(replace(compiled, hardware=hardware), executed)


def order(space: Space, points: Sequence[int]) -> list[list[int]]:
    """Group points that share a program; within a group, points that share an execution are next to each other."""
    groups: dict[Hashable, dict[Hashable, list[int]]] = {}
    for point in points:
        try:
            setting: Values = space.setting(point)
        except InfeasibleError:
            setting = {}
        group = groups.setdefault(_values(space.program_paths, setting), {})
        group.setdefault(_values(space.run_paths, setting), []).append(point)
    return [[point for same in group.values() for point in same] for group in groups.values()]


def _values(paths: Sequence[str], setting: Values) -> tuple[Any, ...]:
    return tuple(setting.get(path) for path in paths)


class _Cache:
    """A small cache of recent values and errors, so that an infeasible program is not compiled again."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._outcomes: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], _Outcome]) -> _Outcome:
        if key in self._outcomes:
            self._outcomes.move_to_end(key)
            outcome = self._outcomes[key]
        else:
            try:
                outcome = make()
            except _NO_PROGRAM as fault:
                outcome = fault
            self._outcomes[key] = outcome
            while len(self._outcomes) > self._most:
                self._outcomes.popitem(last=False)
        if isinstance(outcome, NpusimError):
            raise outcome.with_traceback(None)
        result: _Outcome = outcome
        return result
