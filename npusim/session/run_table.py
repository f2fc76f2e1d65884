"""Several models on several machines: a table of runs, timing only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from npusim.isa.base.errors import CompileError, GraphError, NpusimError, ProgramError, SimulationError
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.program import Program
from npusim.kernels.graph.bind import Sizes
from npusim.numbers.runs import Run, RunTable
from npusim.session import api
from npusim.session.opening import open_model
from npusim.session.provenance import of_run

_NO_RUN = (CompileError, GraphError, ProgramError, SimulationError)
"""Why a model does not run on a machine, while the others go on."""


def run_table(
    models: Sequence[str | Path],
    machines: Sequence[Hardware],
    *,
    effort: str | int = "fast",
    sizes: Sizes | None = None,
    watch: Callable[[str], Any] | None = None,
) -> RunTable:
    """Run every model on every machine. `watch` is called with what is run next.

    sizes: that the models leave open, as for `npusim.load`.

    Raises NpusimError for a model that cannot be read, and for one or a machine that is given twice; that a model does
    not fit on a machine is told in its run.
    """
    _require_different("model", [str(Path(each)) for each in models])
    hardware = _named([each.name for each in machines], "hardware")
    loaded = [open_model(path, sizes) for path in models]
    names = _names([each.name for each in loaded], [str(path) for path in models])
    runs = []
    for path, name, model in zip(models, names, loaded, strict=True):
        for machine, called in zip(machines, hardware, strict=True):
            if watch:
                watch(f"{name} on {called}")
            runs.append(_run(path, name, model, machine, called, effort, sizes))
    return RunTable(tuple(names), tuple(hardware), tuple(runs))


def _run(
    path: str | Path,
    name: str,
    model: Any,
    machine: Hardware,
    called: str,
    effort: str | int,
    sizes: Sizes | None,
) -> Run:
    try:
        if isinstance(model, Program):
            program, _ = api.prepare(path, machine, effort=effort)
        else:
            program = api.compile_program(model, machine, effort=effort)
        result = api.simulate(program, timing_only=True)
        made = of_run(
            path,
            machine,
            effort=effort,
            seed=0,
            inputs="none",
            compiled=isinstance(model, Program),
            sizes=sizes,
        )
        result = replace(result, provenance=made)
    except _NO_RUN as fault:
        return Run(name, called, None, str(fault))
    return Run(name, called, result.to_dict())


def _names(names: Sequence[str], paths: Sequence[str]) -> list[str]:
    """What each model is called: its name, or where that is another's too, its path."""
    count = Counter(names)
    return [name if count[name] == 1 else path for name, path in zip(names, paths, strict=True)]


def _named(names: Sequence[str], what: str) -> list[str]:
    _require_different(what, names)
    return list(names)


def _require_different(what: str, names: Sequence[str]) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise NpusimError(f"{twice}: two of this {what}; a table has each once, under a name of its own")
