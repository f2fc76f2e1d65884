"""The Python interface: load a model, describe a machine, compile, simulate; or all of it in one call.

result = npusim.run("model.tflite", hw="edge-128")
print(result.latency_ms, result.energy_uj, result.performance_info)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from npusim.isa.base.errors import FormatError, NpusimError
from npusim.isa.hardware.hardware import Hardware
from npusim.session.host import host_functions, kind_of_inputs, no_outputs, one_blas_thread
from npusim.session.opening import is_program, open_model, require_same_hardware, resolved
from npusim.session.options import FAST, Options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

    from npusim.isa.base.tensor import Array
    from npusim.isa.program.executable import Executable
    from npusim.isa.program.program import Program
    from npusim.kernels.graph.bind import Offered, Sizes
    from npusim.kernels.graph.graph import Graph
    from npusim.numbers.job import JobResult
    from npusim.numbers.run import RunResult
    from npusim.session.inputs import Inputs
    from npusim.session.options import Asked

DEFAULT_HARDWARE = "edge-128"
Progress = Callable[[int, int], None]
"""A function that is called now and then with (steps done, all steps), such as instructions of a simulation."""


def load(path: str | Path, sizes: Sizes | None = None) -> Graph:
    """Load a model file, or a built-in model by its name, into a graph.

    sizes: sizes that the file leaves open: shapes by input name, {"image": (1, 3, 224, 224)}, or single sizes by their
           own names, {"batch": 1}. An open first axis that is not given becomes 1.

    Raises NpusimError for a file that is missing, damaged or unsupported, for an open size that is not given, and for
    sizes that do not fit.
    """
    model = open_model(path, sizes)
    from npusim.isa.program.program import Program

    if isinstance(model, Program):
        raise FormatError(f"{path}: is a compiled program, not a model; npusim.load_program reads it")
    return model


def load_program(path: str | Path) -> Program:
    """Read the program of a `.npu` file. Raises NpusimError for one that is damaged, too new, or breaks a rule."""
    from npusim.isa.program import container

    return container.load(Path(path))


def save_program(program: Program | Executable, path: str | Path) -> None:
    """Write a program as a `.npu` file, which `load_program` reads in any process.

    Raises NpusimError for an executable: a file holds one program.
    """
    from npusim.base import files
    from npusim.isa.program import container
    from npusim.isa.program.program import Program

    if not isinstance(program, Program):
        raise NpusimError(f"{path}: {program.name} decides, so it is several programs; a .npu file holds one")
    data = container.dumps(program)
    files.write(Path(path), lambda file: file.write(data))


def hardware(name: str | Path, settings: Sequence[str] = (), **keys: Any) -> Hardware:
    """Return the hardware of a preset or of a TOML file. Raises NpusimError with every fault listed.

    settings: changes to it as `--set` takes them, such as "mac_array.rows=32".
    keys:     the same by name, tables as dicts: `clock_mhz=400, mac_array={"rows": 32}`.
    """
    from npusim.isa.hardware import file as hardware_file

    described = hardware_file.hardware(name)
    if not settings and not keys:
        return described
    from npusim.session.settings import changed, of_values, parse

    return changed(described, {**parse(settings), **of_values(keys)})


def compile(
    graph: Graph,
    hw: str | Path | Hardware = DEFAULT_HARDWARE,
    *,
    effort: str | int = "fast",
    unknown: str | None = None,
    host: Sequence[str] = (),
    partition: Asked = None,
    progress: Progress | None = None,
) -> Program | Executable:
    """Compile a graph for a machine; `hw` is a preset, a file, or a Hardware.

    A graph with IF or WHILE becomes an `Executable` of several programs.

    effort, unknown, host, partition: how it is compiled; `npusim.session.options.Options` explains them.
    progress: called with (schedules tried, schedules to try).

    Raises NpusimError for an operator that npusim does not have, a model that does not fit or an unknown effort.
    """
    return compile_any(graph, hw, Options(effort, unknown, host, partition), progress)


def compile_any(
    graph: Graph,
    hw: str | Path | Hardware = DEFAULT_HARDWARE,
    options: Options = FAST,
    progress: Progress | None = None,
) -> Program | Executable:
    """Compile a graph for a machine, as `compile` does, with all options in one value."""
    machine = hw if isinstance(hw, Hardware) else hardware(hw)
    chosen = options.placing() if options.places else None
    rest = replace(options, host=(), partition=None)

    def compiled(part: Graph) -> Program:
        return compile_program(chosen.by_cost_of(part, machine) if chosen else part, machine, rest, progress)

    graph = chosen.forced_of(graph) if chosen else graph
    if not graph.decides:
        return compiled(graph)
    from npusim.scheduler.partition.partition import partition as steps  # most graphs decide nothing

    return steps(options.known(graph), machine, compiled)


def compile_program(
    graph: Graph,
    hw: str | Path | Hardware = DEFAULT_HARDWARE,
    options: Options = FAST,
    progress: Progress | None = None,
) -> Program:
    """Compile a graph without IF and WHILE. Raises NpusimError for one that has them, too."""
    from npusim import scheduler

    schedules = options.schedules
    graph = options.known(graph)
    machine = hw if isinstance(hw, Hardware) else hardware(hw)
    graph = options.placed(graph, machine)
    if not schedules:
        return scheduler.compile_graph(graph, machine)
    from npusim.scheduler.search.search import search
    from npusim.session.tuning import timing

    return search(scheduler.prepare(graph, machine), timing, schedules, progress).program


@overload
def simulate(
    program: Program,
    inputs: Inputs | None = None,
    *,
    timing_only: bool = False,
    seed: int = 0,
    hardware: Hardware | None = None,
    states: Mapping[str, ArrayLike] | None = None,
    progress: Progress | None = None,
    decisions: Mapping[str, int] | None = None,
    every_layer: bool = False,
) -> RunResult: ...


@overload
def simulate(
    program: Executable,
    inputs: Inputs | None = None,
    *,
    timing_only: bool = False,
    seed: int = 0,
    hardware: Hardware | None = None,
    states: Mapping[str, ArrayLike] | None = None,
    progress: Progress | None = None,
    decisions: Mapping[str, int] | None = None,
    every_layer: bool = False,
) -> JobResult: ...


def simulate(
    program: Program | Executable,
    inputs: Inputs | None = None,
    *,
    timing_only: bool = False,
    seed: int = 0,
    hardware: Hardware | None = None,
    states: Mapping[str, ArrayLike] | None = None,
    progress: Progress | None = None,
    decisions: Mapping[str, int] | None = None,
    every_layer: bool = False,
) -> RunResult | JobResult:
    """Run a program, or an executable, on the simulated machine.

    State tensors of the model (an LSTM's) hold in the next inference of the same program object what they held at the
    end of this one, as in TFLite; `npusim.reset_states` lets them begin anew. A program without states gives the same
    result every time.

    inputs:      values by position, or by tensor name (or "in0", ...); drawn at random from `seed` if None.
    timing_only: execute no data; cycles and energy are the same, and there are no outputs.
    hardware:    another machine than the one that the program was compiled for, on which it runs unchanged.
    states:      values of states by tensor name; states that are not named have their initial values. The run then
                 neither reads nor changes the states that the program object holds. `result.states` has the new ones.
    decisions:   for an executable without data, the decisions by name (`Executable.decisions`): 1 or 0 for an IF, the
                 number of iterations for a WHILE. All decisions that are reached must be given.
    every_layer: simulate all of equal layers. Otherwise, without data, those that are proven to take the same cycles
                 are counted; every number is the same.

    Raises NpusimError for inputs or states that do not fit, for a program that cannot finish, and for hardware that
    lacks what the program uses.
    """
    from npusim.isa.program.program import Program
    from npusim.machine.system import execute
    from npusim.numbers.measure import measure
    from npusim.numbers.provenance import Provenance
    from npusim.numbers.run import WallTimes

    if not isinstance(program, Program):
        from npusim.session.jobs import simulate_executable

        return simulate_executable(
            program,
            inputs,
            timing_only,
            seed,
            hardware=hardware,
            before=states,
            decisions=decisions,
            progress=progress,
        )
    if program.unknown_operators:
        if inputs is not None:
            raise NpusimError(f"{program.name}: {no_outputs(program)}, so inputs cannot be given")
        timing_only = True
    if program.timing_only and not timing_only:
        raise NpusimError(f"{program.name}: {no_outputs(program)}: give timing_only=True or --timing-only")
    kind = kind_of_inputs(inputs, timing_only)
    begin = time.perf_counter()
    whose = program
    if hardware is not None:
        program = replace(program, hardware=hardware)
    arrays: list[Array] | None = None
    before = None
    if not timing_only:
        from npusim.session import inputs as values  # a run without data does without them

        arrays = values.draw(program.inputs, seed) if inputs is None else values.bind(program.inputs, inputs)
        before = values.bound(whose, states)
    with one_blas_thread(timing_only):
        execution = execute(
            program,
            arrays,
            states=before,
            host_functions=host_functions(program),
            data=not timing_only,
            progress=progress,
            every_layer=every_layer,
        )
    if states is None and execution.states:
        from npusim.session import inputs as values

        values.hold(whose, execution.states)
    result = measure(program, execution)
    return replace(
        result,
        wall_s=WallTimes(simulate=time.perf_counter() - begin),
        provenance=Provenance(seed=seed if kind == "random" else None, inputs=kind),
    )


def require_outputs(program: Program, wanted: object) -> None:
    """Raise NpusimError if outputs are wanted of a program that cannot compute them."""
    if wanted and (program.unknown_operators or program.timing_only):
        raise NpusimError(f"{wanted}: {program.name}: {no_outputs(program)}")


def run(
    path: str | Path,
    hw: str | Path | Hardware | None = None,
    inputs: Inputs | None = None,
    timing_only: bool = False,
    *,
    seed: int = 0,
    effort: str | int = "fast",
    unknown: str | None = None,
    host: Sequence[str] = (),
    partition: Asked = None,
    sizes: Sizes | None = None,
    progress: Progress | None = None,
    decisions: Mapping[str, int] | None = None,
) -> RunResult | JobResult:
    """Load, compile and simulate a model in one call. A model with IF or WHILE gives a `JobResult`.

    path:   a model file, a `.npu` program, or the name of a built-in model.
    hw:     a preset, a file, or a Hardware; edge-128 if None. A `.npu` program brings its own.
    effort, unknown, host, partition: of the compiler, as for `compile`.
    sizes:  sizes that the model leaves open, as for `load`; `inputs` settle those not given.

    The other arguments, and what is raised, are those of `simulate`.
    """
    from npusim.session.inputs import offered

    given = offered(inputs)
    options = Options(effort, unknown, host, partition, sizes)
    program, wall = prepare_any(path, hw, options, offered=given)
    result: RunResult | JobResult = simulate(
        program, inputs, timing_only=timing_only, seed=seed, progress=progress, decisions=decisions
    )
    from npusim.session.provenance import of_run

    origin = of_run(
        path,
        hw,
        replace(options, sizes=given.taken | dict(sizes or {})),
        seed=seed,
        inputs=result.provenance.inputs,
        compiled=is_program(path),
    )
    return replace(result, source=resolved(path), provenance=origin, wall_s=replace(result.wall_s, **wall))


def prepare(
    path: str | Path,
    hw: str | Path | Hardware | None = None,
    options: Options = FAST,
    progress: Progress | None = None,
) -> tuple[Program, dict[str, float]]:
    """Do what `prepare_any` does for a model without IF and WHILE. Raises NpusimError for one that has them, too."""
    from npusim.isa.program.program import Program

    program, wall = prepare_any(path, hw, options, progress)
    if not isinstance(program, Program):
        raise NpusimError(
            f"{path}: decides ({', '.join(program.decisions)}), so it is several programs; npusim.run runs it"
        )
    return program, wall


def prepare_any(
    path: str | Path,
    hw: str | Path | Hardware | None = None,
    options: Options = FAST,
    progress: Progress | None = None,
    *,
    offered: Offered | None = None,
    model: Graph | Program | None = None,
) -> tuple[Program | Executable, dict[str, float]]:
    """Return the program of a model or `.npu` file, and the seconds of loading and compiling by name.

    offered: shapes of the inputs that the run will have.
    model:   the model of `path`, if it was read already.
    """
    from npusim.isa.program.program import Program

    schedules = options.schedules

    wall = {"load": 0.0, "compile": 0.0}
    chosen = hardware(hw) if isinstance(hw, str | Path) else hw
    with _timed(wall, "load"):
        model = model or open_model(path, options.sizes, offered)
    if isinstance(model, Program):
        require_same_hardware(path, model, chosen)
        if schedules:
            raise NpusimError(
                f"{path}: compiled already, effort {options.effort} has nothing to search; give the model"
            )
        if options.places:
            raise NpusimError(f"{path}: compiled already, its operators have their places; give the model")
        return model, wall
    with _timed(wall, "compile"):
        program = compile_any(model, chosen or DEFAULT_HARDWARE, options, progress)
    return program, wall


@contextmanager
def _timed(wall: dict[str, float], name: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    wall[name] = time.perf_counter() - begin
