"""The table of runs of several models on several machines, without data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from npusim.isa.base.errors import (
    CompileError,
    FormatError,
    GraphError,
    NpusimError,
    ProgramError,
    SimulationError,
)
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.program import Program
from npusim.numbers.run import RunResult
from npusim.numbers.variants import Run, RunTable
from npusim.session import api
from npusim.session.opening import open_model
from npusim.session.options import FAST, Options
from npusim.session.provenance import of_run

_NO_RUN = (CompileError, FormatError, GraphError, ProgramError, SimulationError)
"""Errors that end one run of the table, while the others go on."""


def model_files(paths: Iterable[str | Path]) -> list[str]:
    """Expand paths and names of built-in models into models: a folder into every model file below it, sorted.

    A folder that is a model itself (NNEF) counts as one model. Hidden files and folders are skipped.

    Raises NpusimError for a path that does not exist, and for a folder without a model.
    """
    from npusim import models
    from npusim.frontends import frontend

    files: list[str] = []
    for path in paths:
        if not Path(path).is_dir() or frontend.is_model(Path(path)):
            if not Path(path).exists() and str(path) not in models.names():
                open_model(path)  # raises an error that explains the name
            files.append(str(path))
            continue
        inside = [str(file) for file in frontend.models_below(Path(path))]
        if not inside:
            raise NpusimError(
                f"{path}: no model file below this folder; models end in {', '.join(frontend.SUFFIXES)}"
            )
        files += [file for file in inside if file not in files]
    return files


def run_table(
    models: Sequence[str | Path],
    machines: Sequence[Hardware],
    *,
    options: Options = FAST,
    watch: Callable[[str], Any] | None = None,
    show: Callable[[int, RunResult], Any] | None = None,
) -> RunTable:
    """Run every model on every machine.

    models: files, built-in models and folders (`model_files`).
    watch:  called with the name of the next run.
    show:   called with the index of a run in the table and its result.

    Raises NpusimError for a path that does not exist, and for a model or a machine that is given twice. If a model
    cannot be read or does not fit on a machine, its run holds the reason.
    """
    models = model_files(models)
    _require_different("model", [str(Path(model)) for model in models])
    machine_names = [machine.name for machine in machines]
    _require_different("hardware", machine_names)
    names, runs = list[str](), list[Run]()
    for path in models:
        model = _tried(open_model, path, options.sizes)
        names.append(Path(path).stem if isinstance(model, str) else model.name)
        for machine, machine_name in zip(machines, machine_names, strict=True):
            if watch:
                watch(f"{names[-1]} on {machine_name}")
            result = model
            if not isinstance(model, str):
                result = _tried(_result, path, model, machine, options)
            failed = isinstance(result, str)
            if show and not failed:
                show(len(runs), result)
            values, reason = (None, result) if failed else (result.to_dict(), "")
            runs.append(Run(path, machine_name, values, reason))
    names = _names(names, models)
    name_of = dict(zip(models, names, strict=True))
    runs = [replace(run, model=name_of[run.model]) for run in runs]
    return RunTable(tuple(names), tuple(machine_names), tuple(runs))


def _tried(step: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a step, or the message of its error as text, so that one bad file does not end a table."""
    try:
        return step(*arguments)
    except _NO_RUN as fault:
        return str(fault)
    except MemoryError:
        return "not enough memory for this model on this computer"


def _result(path: str, model: Any, machine: Hardware, options: Options) -> RunResult:
    """Simulate a model on a machine without data."""
    if isinstance(model, Program):
        program, _ = api.prepare(path, machine, Options(options.effort))
    else:
        program = api.compile_program(model, machine, options)
    result = api.simulate(program, timing_only=True)
    compiled = isinstance(model, Program)
    provenance = of_run(path, machine, options, seed=0, inputs="none", compiled=compiled)
    return replace(result, provenance=provenance)


def _names(names: Sequence[str], paths: Sequence[str]) -> list[str]:
    """Return the name of each model, or its path if another model has the same name."""
    count = Counter(names)
    return [name if count[name] == 1 else path for name, path in zip(names, paths, strict=True)]


def _require_different(kind: str, names: Sequence[str]) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise NpusimError(f"{twice}: two of this {kind}; a table has each once, under a name of its own")
