"""Several inferences of one model on the cores of a system, timing only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from npusim.isa.base.errors import NpusimError
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.system_file import SystemHardware, system
from npusim.isa.program.executable import Executable
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Graph
from npusim.machine.job import Supply
from npusim.machine.system import System
from npusim.numbers.throughput import Throughput, measure_system
from npusim.session import api
from npusim.session.options import FAST, Options

__all__ = ["SystemHardware", "inferences", "system"]

MOST_INFERENCES = 1_000_000
"""Maximum number of inferences. Each is simulated and stays in the result, so that more would take days and memory."""


def inferences(
    model: str | Path | Graph,
    over: str | Path | Hardware | SystemHardware = api.DEFAULT_HARDWARE,
    number: int = 1,
    *,
    options: Options = FAST,
    progress: Callable[[int, int], None] | None = None,
) -> Throughput:
    """Time inferences of a model on the cores of a system, and return throughput, latencies, use and energy.

    over:     a system (`npusim.system`), or a preset, a hardware file or a Hardware, which is a system of one core.
    number:   inferences in all, at most `MOST_INFERENCES`, which are all there in cycle 0. A core that has ended one
              takes the next.
    progress: called with (instructions completed, all instructions) of each launch.

    No data is executed. Raises NpusimError for a model that decides (IF, WHILE), for what the compiler refuses, and for
    memories that are too small.
    """
    if not 1 <= number <= MOST_INFERENCES:
        raise NpusimError(f"inferences is {number}, must be 1 to {MOST_INFERENCES}")
    if not isinstance(over, SystemHardware):
        machine = over if isinstance(over, Hardware) else api.hardware(over)
        over = SystemHardware(machine.name, (machine,))
    graph = model if isinstance(model, Graph) else api.load(model, options.sizes)
    programs: dict[Hardware, Program] = {}
    for core in over.cores:
        if core not in programs:
            program = api.compile_any(graph, core, options)
            if not isinstance(program, Program):
                raise NpusimError(f"{program.name}: decides, so it is several programs; inferences take one")
            programs[core] = program
    simulated = System(over.cores)
    supply = Supply(number)
    jobs = [
        simulated.submit(Executable.of(programs[core]), repeat=supply, cores=[position], progress=progress)
        for position, core in enumerate(over.cores)
    ]
    simulated.run()
    return measure_system(over.name, [programs[core] for core in over.cores], [job.runs for job in jobs])
