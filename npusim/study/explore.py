"""The search of a space: a sampler proposes points, an executor computes them, and a folder keeps the records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from npusim.isa.base.errors import NpusimError
from npusim.isa.base.version import npusim_version
from npusim.study.evaluate import Job, Record, Workload
from npusim.study.executors import Executor, executor
from npusim.study.folder import Folder, keep_base, read_base
from npusim.study.samplers import proposers, sampler
from npusim.study.space import Space
from npusim.study.space_file import Sampling
from npusim.study.study import Study

FRUITLESS_BATCHES = 20
"""Number of consecutive batches without a new point after which a search ends."""

Watcher = Callable[[Record, int], None]
"""A function that is called with every record, computed now or before, and the total number of points."""

MakeExecutor = Callable[[Job], Executor]


def explore(
    workloads: Sequence[Workload],
    space: Space,
    sampling: Sampling,
    path: str | Path,
    *,
    make_executor: MakeExecutor = executor,
    watch: Watcher | None = None,
) -> Study:
    """Search a space, or continue an interrupted search, and return the study.

    make_executor: creates the executor of points; by default one that uses all cores of this machine.

    Raises NpusimError if `path` holds a study of something else, and for an objective that a model does not have.
    """
    if not workloads:
        raise NpusimError("nothing to explore: give at least one model")
    folder = Folder(Path(path))
    folder.describe(describe(workloads, space, sampling))
    with folder.writing():
        read_base(folder)  # a damaged one is known before the work
        search = _Search(folder, space, sampling, watch)
        if not search.complete:
            with closing(make_executor(Job(space, tuple(workloads)))) as executor:
                search.run(executor)
        folder.sort(search.known)
        keep_base(folder, Job(space, tuple(workloads)))
    return Study.open(path)


def describe(workloads: Sequence[Workload], space: Space, sampling: Sampling) -> dict[str, Any]:
    """Return the description of a study. Two runs with equal descriptions continue each other.

    The number of points is left out: asking for more continues a study.
    """
    return {
        "npusim_version": npusim_version(),
        "models": [
            {
                "name": workload.name,
                "digest": workload.digest,
                "weight": workload.weight,
                "file": workload.file,
            }
            | ({"shapes": list(workload.shapes)} if workload.shapes else {})
            for workload in workloads
        ],
        "sampler": sampling.model_dump(exclude={"points"}) | proposers(sampling),
        "space": space.to_plain(),
    }


class _Search:
    """The state of a search in this process: known records, and the sampler's proposals."""

    def __init__(self, folder: Folder, space: Space, sampling: Sampling, watch: Watcher | None) -> None:
        self._folder, self._space, self._sampling, self._watch = folder, space, sampling, watch
        self._known = {record.point: record for record in folder.records()}
        self._told: dict[int, Record] = {}
        self._batches = sampler(sampling)(space, sampling, self._told)
        self._fruitless = 0
        self._pending: list[int] = []
        self._total = 0
        self._propose()

    @property
    def complete(self) -> bool:
        """Return whether all points are computed."""
        return not self._pending

    @property
    def known(self) -> list[Record]:
        """Return every record of the study, also those of an earlier search that computed more points."""
        return list((self._known | self._told).values())

    def run(self, executor: Executor) -> None:
        """Compute the missing points."""
        while self._pending:
            for record in executor.records(self._pending):
                self._folder.append(record)
                self._learn(record)
            self._propose()

    def _propose(self) -> None:
        """Take batches from the sampler until one has points to compute; earlier batches are known by then."""
        self._pending = []
        while not self._pending and not self._enough():
            batch = next(self._batches, None)
            if batch is None:
                return
            fresh = [point for point in dict.fromkeys(batch) if point not in self._told]
            self._fruitless = 0 if fresh else self._fruitless + 1
            if self._sampling.kind != "grid":
                fresh = fresh[: self._sampling.points - len(self._told)]
                self._total = self._sampling.points
            else:
                self._total = len(fresh)
            self._pending = [point for point in fresh if point not in self._known]
            for point in fresh:
                if point in self._known:
                    self._learn(self._known[point])

    def _enough(self) -> bool:
        if self._sampling.kind == "grid":
            return False
        return len(self._told) >= self._sampling.points or self._fruitless >= FRUITLESS_BATCHES

    def _learn(self, record: Record) -> None:
        self._told[record.point] = record
        if self._watch is not None:
            self._watch(record, self._total)
