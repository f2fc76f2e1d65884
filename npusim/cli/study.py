"""The commands that search hardware spaces: `npusim explore` and `npusim study`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from npusim.base.console import console, say
from npusim.cli.options import hardware_inputs, sizes_of
from npusim.cli.typer_options import SetOption, ShapeOption
from npusim.isa.base.errors import NpusimError, printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from npusim.kernels.graph.bind import Sizes
    from npusim.study.evaluate import Record, Workload
    from npusim.study.explore import MakeExecutor
    from npusim.study.space import Space
    from npusim.study.space_file import SpaceFile
    from npusim.study.study import Study


class SamplerName(StrEnum):
    """Samplers, as the command line calls them."""

    grid = "grid"
    random = "random"
    nsga2 = "nsga2"
    tpe = "tpe"


class Programs(StrEnum):
    """Which points share a program: none, or points that differ in timing, energy or clock only."""

    own = "own"
    shared = "shared"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("explore")(explore)
    app.command("study")(redraw)


def explore(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL]... SPACE.toml",
            help="Models, and the space to search; it may name models itself.",
        ),
    ],
    study: Annotated[
        Path | None,
        typer.Option("--study", metavar="DIR", help="Where results go. [default: the space's name .study]"),
    ] = None,
    sampler: Annotated[SamplerName | None, typer.Option(help="How points are chosen.")] = None,
    points: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many points (not for grid).")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Seed of the sampler.")] = None,
    batch: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Points that nsga2 and tpe choose at once.")
    ] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Instead of the space's objectives; may be repeated."),
    ] = None,
    set_: SetOption = None,
    shape: ShapeOption = None,
    programs: Annotated[
        Programs | None,
        typer.Option(help="shared: points that differ in timing, energy or clock execute one program."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", metavar="N", min=1, help="Processes. [default: all cores]")
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="A running Dask cluster that computes the points. Its scheduler and workers run the code of whoever "
            "reaches them: only in a network that you trust, or with TLS.",
        ),
    ] = None,
    dask_tls_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="F.pem", help="TLS for --dask tls://...: the authority that all must be signed by."
        ),
    ] = None,
    dask_tls_cert: Annotated[
        Path | None, typer.Option(metavar="F.pem", help="The certificate of this side.")
    ] = None,
    dask_tls_key: Annotated[
        Path | None, typer.Option(metavar="F.pem", help="The key of that certificate.")
    ] = None,
) -> None:
    """Search a hardware space; the same command goes on where it was interrupted."""
    sampling = {"kind": sampler, "points": points, "seed": seed, "batch": batch}
    overrides: dict[str, Any] = {
        "sampler": {key: _plain(value) for key, value in sampling.items() if value is not None}
    }
    if objective:
        overrides["objectives"] = objective
    if programs:
        overrides["programs"] = programs.value
    *models, space = arguments
    if dask and jobs:
        raise NpusimError(
            "--jobs: the cluster decides with --dask how many processes there are; give one of them"
        )

    if not dask and (dask_tls_ca or dask_tls_cert or dask_tls_key):
        raise NpusimError(
            "--dask-tls-ca, --dask-tls-cert, --dask-tls-key: are for --dask, which is not given"
        )

    from npusim.study.space_file import read_space

    file = _with_settings(read_space(Path(space), overrides), set_ or ())
    if points and file.sampling.kind == "grid":
        raise NpusimError("--points: a grid has all its points; choose another --sampler, such as random")
    where = study or Path(f"{Path(space).stem}.study")
    _check_outputs(where, Path(space), models, file)
    workloads = _workloads(models, file, Path(space).parent, sizes_of(shape))
    make_executor = _executor(jobs, dask, dask_tls_ca, dask_tls_cert, dask_tls_key)
    _finish(_search(file, workloads, where, make_executor))


def _check_outputs(study: Path, space: Path, models: list[str], file: SpaceFile) -> None:
    """Raise NpusimError if the search would write over a file that it reads."""
    from npusim.base import files
    from npusim.study.study import names_in

    named = {name: Path(name) if models else space.parent / name for name in models or file.models}
    inputs = {"SPACE.toml": space, **named, **hardware_inputs(file.extends, "extends", space.parent)}
    files.check_outputs({}, inputs, {"--study": (study, names_in(study))})


def _with_settings(file: SpaceFile, texts: Sequence[str]) -> SpaceFile:
    """Return the space with settings applied to its base hardware; parameters of the space cannot be set."""
    if not texts:
        return file
    from npusim.session.settings import OPTION, changed, parse

    settings = parse(texts)
    given = next((path for path in settings if path in file.space.changed), None)
    if given:
        raise NpusimError(f"{OPTION} {given}: the space itself varies or derives it; change it there")
    return replace(file, space=replace(file.space, base=changed(file.space.base, settings)))


def _plain(value: object) -> object:
    return value.value if isinstance(value, StrEnum) else value


def _workloads(models: list[str], file: SpaceFile, folder: Path, sizes: Sizes) -> list[Workload]:
    """Return the models of the command line, or those of the space file in `folder`, with the weights of the file.

    sizes: values of open sizes, for a single model only.
    """
    from npusim.session import api
    from npusim.session.options import texts_of as texts
    from npusim.study.evaluate import Workload

    named = dict.fromkeys(models) or file.models
    if not named:
        raise NpusimError("no model: name one before the space, or in its [models]")
    if sizes and len(named) > 1:
        raise NpusimError(f"--shape: goes with one model; these are {len(named)}")
    paths = {given: given if models else _beside(folder, given) for given in named}
    called = _called([str(path) for path in paths.values()])
    return [
        Workload(
            name,
            api.load(path, sizes),
            file.models.get(given, 1.0),
            Path(path).name if Path(path).is_file() else "",
            tuple(texts(sizes)),
        )
        for name, (given, path) in zip(called, paths.items(), strict=True)
    ]


def _called(paths: Sequence[str]) -> list[str]:
    """Return the display name of each model: the file name without suffix, with folders where names would be equal."""
    parts = [Path(path).with_suffix("").parts if Path(path).is_file() else (path,) for path in paths]
    names = [path_parts[-1] for path_parts in parts]
    for length in range(2, max(map(len, parts)) + 1):
        twice = {name for name in names if names.count(name) > 1}
        names = [
            "/".join(path_parts[-length:]) if name in twice else name
            for name, path_parts in zip(names, parts, strict=True)
        ]
    return names if len(set(names)) == len(names) else list(paths)


def _beside(folder: Path, name: str) -> str | Path:
    """Return a model that a space file names: a file relative to it, or else a built-in model."""
    return folder / name if (folder / name).is_file() else name


def _search(file: SpaceFile, workloads: list[Workload], path: Path, make_executor: MakeExecutor) -> Study:
    from npusim.study import explore as searching
    from npusim.study.folder import Folder

    known = sum(1 for _ in Folder(path).records())
    try:
        with Watch(file.space, sys.stderr, known) as watch:
            return searching.explore(
                workloads, file.space, file.sampling, path, make_executor=make_executor, watch=watch
            )
    except KeyboardInterrupt:
        _keep(path)
        raise


def _keep(path: Path) -> None:
    """Write the tables and the page of an interrupted search."""
    from npusim.study.study import Study

    study = Study.open(path) if (path / "study.json").is_file() else None
    if study is None or not study.records:
        return
    say(
        f"npusim: {len(study.records)} points are in {printable(str(path))}, and the same command goes on from "
        "there; drawing them, Ctrl-C again leaves that to npusim study",
        err=True,
    )
    _finish(study)


def redraw(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a study, as explore wrote it.")
    ],
) -> None:
    """Draw a study again from its points: tables, page, figures, summary; also of one that is unfinished."""
    from npusim.base import files
    from npusim.study.study import Study, names_in

    study = Study.open(folder)
    files.check_outputs({}, {}, {"DIR": (folder, names_in(folder))})
    _finish(study)


def _executor(
    jobs: int | None, dask: str | None, ca: Path | None, cert: Path | None, key: Path | None
) -> MakeExecutor:
    if dask is not None:
        from npusim.study.cluster import DaskCluster, tls

        trusted = tls(dask, ca, cert, key)
        return lambda job: DaskCluster(job, dask, trusted)
    from npusim.study.executors import executor

    return lambda job: executor(job, jobs)


def _finish(study: Study) -> None:
    """Write the tables and the page, and print the summary."""
    from npusim.reports.study import terminal
    from npusim.study import study as tables

    written = tables.write_tables(study)
    text = terminal.summary(study)
    say(f"{text}\n\n{_files(study, written)}")


def _files(study: Study, written: list[Path]) -> str:
    from npusim.reports.study.page import write_page

    names = [path.name for path in written if path.parent == study.path]
    fronts = len(written) - len(names)
    names += [path.name for path in write_page(study)]
    hardware = f"; front/*.toml: {fronts} hardware files for npusim run --hw" if fronts else ""
    return f"{printable(str(study.path))}: {', '.join(names)}{hardware}"


class Watch:
    """A progress bar of a search on stderr, if that is a terminal: points, points per second, time left, Pareto front.

    with Watch(space) as watch:
        explore(..., watch=watch)
    """

    INTERVAL_S = 0.2

    def __init__(self, space: Space, file: TextIO, known: int = 0) -> None:
        self._space, self._file, self._known = space, file, known
        self._front: list[list[float]] = []
        self._best: list[float] = []
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._done = 0
        self._begin = self._next = time.monotonic()

    def __enter__(self) -> Watch:
        if self._file.isatty():
            self._bar = _bar(self._file)
            self._bar.start()
            self._task = self._bar.add_task("", total=None, state="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, record: Record, total: int) -> None:
        """Update the bar after a point is computed."""
        if self._bar is None or self._task is None:
            return
        self._done += 1
        self._add(record)
        now = time.monotonic()
        if now >= self._next or self._done == total:
            self._next = now + self.INTERVAL_S
            self._bar.update(self._task, completed=self._done, total=total, state=self._state(now, total))

    def _add(self, record: Record) -> None:
        import numpy as np

        from npusim.study import metrics

        if record.reason or self._space.excess(record.values):
            return
        costs = self._space.costs(record.values)
        self._best = [min(pair) for pair in zip(self._best or costs, costs, strict=True)]
        together = np.array([*self._front, costs], np.float64)
        kept = metrics.front(together)
        self._front = together[kept].tolist()

    def _state(self, now: float, total: int) -> str:
        from npusim.reports.words.quantities import digits

        fresh = self._done - self._known
        rate = fresh / (now - self._begin) if fresh > 0 and now > self._begin else 0.0
        left = f"{rate:.1f}/s, {_duration((total - self._done) / rate)} left, " if rate else ""
        goals = zip(self._space.objectives, self._best, strict=False)
        best = ", ".join(f"{objective.key} {digits(objective.cost(cost))}" for objective, cost in goals)
        return f"{self._done}/{total} points, {left}{len(self._front)} on the front, best {best}"


def _bar(file: TextIO) -> Progress:
    """Return a short bar and a line of text, cut to the width of the terminal."""
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    words = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    return Progress(
        BarColumn(bar_width=10),
        TextColumn("{task.fields[state]}", markup=False, table_column=words),
        console=console(file),
        transient=True,
        expand=True,
        refresh_per_second=5,
    )


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
    )
