"""Simulation of an executable, a model of several programs, alone on a system of one core."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from npusim.isa.base.errors import NpusimError
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.memory import HostFunction
from npusim.isa.program.executable import Executable
from npusim.machine.core import Progress
from npusim.machine.job import Bindings
from npusim.machine.system import System
from npusim.numbers.job import JobResult, measure_job
from npusim.numbers.provenance import Provenance
from npusim.numbers.run import WallTimes
from npusim.session import host, inputs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def simulate_executable(
    executable: Executable,
    given: inputs.Inputs | None,
    timing_only: bool,
    seed: int,
    *,
    hardware: Hardware | None,
    before: Mapping[str, ArrayLike] | None,
    decisions: Mapping[str, int] | None,
    progress: Progress | None,
) -> JobResult:
    """Simulate an executable; arguments and errors are those of `npusim.simulate`."""
    begin = time.perf_counter()
    timing_only = _without_data(executable, given, timing_only)
    kind = host.kind_of_inputs(given, timing_only)
    bound, bindings = executable, None
    if hardware is not None:
        programs = tuple(replace(program, hardware=hardware) for program in executable.programs)
        bound = replace(executable, hardware=hardware, programs=programs)
    if not timing_only:
        tensors = [place.tensor for place in executable.inputs]
        values = inputs.draw(tensors, seed) if given is None else inputs.bind(tensors, given)
        bindings = Bindings(values, inputs.bound(executable, before), host_functions(executable))
    system = System((bound.hardware,))
    job = system.submit(bound, bindings, decisions=decisions or {}, progress=progress)
    with host.one_blas_thread(timing_only):
        system.run()
    run = job.runs[0]
    if before is None and run.states:
        inputs.hold(executable, run.states)
    return replace(
        measure_job(bound, run, inputs.names(executable)),
        wall_s=WallTimes(simulate=time.perf_counter() - begin),
        provenance=Provenance(seed=seed if kind == "random" else None, inputs=kind),
    )


def _without_data(executable: Executable, given: object, timing_only: bool) -> bool:
    """Return whether no data is executed. Raises NpusimError if data is given that a program cannot execute."""
    for program in executable.programs:
        if program.unknown_operators and given is not None:
            raise NpusimError(f"{executable.name}: {host.no_outputs(program)}, so inputs cannot be given")
        if program.timing_only and not timing_only:
            raise NpusimError(f"{executable.name}: {host.no_outputs(program)}: give timing_only=True")
    return timing_only or any(program.unknown_operators for program in executable.programs)


def host_functions(executable: Executable) -> dict[str, HostFunction]:
    """Return the functions of the programs' host operators. Raises NpusimError as for one program."""
    functions: dict[str, HostFunction] = {}
    for program in executable.programs:
        functions |= host.host_functions(program)
    return functions
