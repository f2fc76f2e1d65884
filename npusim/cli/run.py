"""The command `npusim run`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npusim.base.console import console, plain_width, say
from npusim.cli.base import Progress, ascii_only
from npusim.cli.options import (
    CACHE,
    DECIDE,
    DEVICES,
    DOT,
    INFERENCES,
    OUTPUT,
    PROMPT,
    SYSTEM,
    Request,
    hardware_inputs,
    partition_inputs,
)
from npusim.isa.base.errors import CompileError, NpusimError
from npusim.isa.base.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from rich.console import RenderableType

    from npusim.base.files import Writer
    from npusim.isa.hardware.hardware import Hardware
    from npusim.isa.program.executable import Executable
    from npusim.isa.program.program import Program
    from npusim.kernels.graph.bind import Offered
    from npusim.kernels.graph.graph import Graph
    from npusim.numbers.run import RunResult
    from npusim.reports.folder import ReportFile
    from npusim.session.options import Options


def run(models: list[str], request: Request) -> None:
    """Compile and execute a model, and print the summary; of several models or machines, a table."""
    from npusim.session import api

    machines = request.hw or [api.DEFAULT_HARDWARE]
    given = models
    if any(Path(model).is_dir() for model in models):
        from npusim.session.run_table import model_files

        models = model_files(models)
    table = models != given or len(models) > 1 or len(machines) > 1
    if request.weights and not table and not request.device:
        from npusim.frontends.frontend import name_and_format

        if name_and_format(models[0])[1]:
            raise NpusimError(
                f"--weights {request.weights}: {models[0]} names a format already; give one of them"
            )
        models = [f"{models[0]}:{request.weights}"]
    if request.prompt:
        if table:
            raise NpusimError(f"{PROMPT}: takes one model and one machine")
        _generate(models[0], request)
        return
    if request.new > 1:
        raise NpusimError(f"--new {request.new}: comes after a prompt; give one with {PROMPT}")
    if request.bucket:
        raise NpusimError(
            f"--bucket {request.bucket}: is for the tokens after a prompt; give one with {PROMPT}"
        )
    if request.inferences or request.system:
        if table:
            raise NpusimError(f"{SYSTEM if request.system else INFERENCES}: takes one model and one machine")
        _run_on_system(models[0], request)
        return
    if request.device:
        if len(models) > 1:
            raise NpusimError(f"MODEL: does not go with {DEVICES}; it takes one model")
        request.require(DEVICES, f"{{option}}: does not go with {DEVICES}; {{instead}}")
        _run_over(models[0], request, request.device)
        return
    for mode in ("order", "single"):
        if mode in (request.partition or ()):
            raise NpusimError(f"--partition {mode}: chooses among devices; give some with {DEVICES}")
    if request.cache and not table:
        request.require(CACHE, f"{{option}}: does not go with {CACHE}")
        if "cost" in (request.partition or ()):
            raise NpusimError(f"--partition cost: does not go with {CACHE} without {DEVICES}")
        _run_over(models[0], replace(request, print_partition=False), machines)
        return
    if table:
        from npusim.cli import run_table

        run_table.run(models, machines, request)
        return
    _run_one(models[0], machines[0], request)


def _run_one(model: str, machine: str, request: Request) -> None:
    """Run one model on one machine, print its summary, and write its files."""
    from npusim.isa.program.program import Program

    options = request.options
    without_data = (
        "--timing-only" if request.timing_only else "--unknown host" if options.times_unknown else ""
    )
    request.require_data(without_data)
    asked = _Asked(model, request, options, _offered(request.input))
    pages = _report_files(request.report)
    asked.check_files(machine, pages)
    if request.dot:
        _draw(model, request.dot, options)
    if request.print_partition:
        from npusim.cli import devices

        devices.print_subgraphs(model, request, machine)
    opened, program, wall = asked.compiled()
    if not isinstance(program, Program):
        from npusim.cli import devices

        devices.run_executable(program, request, wall)
        return
    if request.decide:
        raise NpusimError(f"{DECIDE} {request.decide[0]}: {model} decides nothing")
    result = asked.simulated(program, wall, bool(without_data))
    if request.reports or request.report:  # the summary alone needs no digests, which take time
        result = asked.with_provenance(result)
    if request.what_if:
        result = asked.with_variants(result)
    if not request.no_lever:
        result = asked.with_levers(result, opened)
    _finish(result, request, pages)


def _generate(model: str, request: Request) -> None:
    """Time a prompt and the tokens after it, print the summary, and write the JSON."""
    from npusim.base import files
    from npusim.frontends.frontend import model_file
    from npusim.reports.run import generation
    from npusim.session import api
    from npusim.session.generation import generate
    from npusim.session.options import BUCKET

    request.require(PROMPT, f"{{option}}: does not go with {PROMPT}")
    options = request.options
    sizes = dict(options.sizes or {})
    batch = sizes.pop("batch", 1)
    if sizes or not isinstance(batch, int):
        raise NpusimError(f"--shape: with {PROMPT} it may be batch=N")
    name = (request.hw or [api.DEFAULT_HARDWARE])[0]
    files.check_outputs(request.written, {"MODEL": model_file(model)} | hardware_inputs(name))
    machine = api.hardware(name, request.settings)
    assert request.prompt
    with Progress(f"generating with {model}") as progress:
        result = generate(
            model,
            request.prompt,
            request.new,
            machine,
            batch=batch,
            bucket=request.bucket or BUCKET,
            options=replace(options, sizes=None),
            progress=progress,
            every_layer=request.every_layer,
        )
    _print_and_write(generation.summary, result, request)


def _run_on_system(model: str, request: Request) -> None:
    """Time inferences on the cores of a system or on one machine, print the summary, and write the JSON."""
    from npusim.base import files
    from npusim.frontends.frontend import model_file
    from npusim.isa.hardware.system_file import SystemHardware, system, system_sources
    from npusim.reports.run import throughput_text
    from npusim.session import api
    from npusim.session.opening import is_program
    from npusim.session.system_run import inferences

    given = SYSTEM if request.system else INFERENCES
    if is_program(model):
        raise NpusimError(f"{model}: is compiled for one machine already; {given} takes a model")
    request.require(INFERENCES, f"{{option}}: does not go with {given}")
    sources: dict[str, Path | None] = {"MODEL": model_file(model)}
    over: SystemHardware | Hardware
    if request.system:
        if request.hw or request.settings:
            raise NpusimError(f"{SYSTEM}: its file says what the cores are; --hw and --set do not go with it")
        over = system(request.system)  # before its sources, because its faults name the file and the core
        for number, path in enumerate(system_sources(request.system)):
            sources[SYSTEM if not number else f"a core of {SYSTEM} ({path})"] = path
        files.check_outputs(request.written, sources)
    else:
        name = (request.hw or [api.DEFAULT_HARDWARE])[0]
        files.check_outputs(request.written, sources | hardware_inputs(name))
        over = api.hardware(name, request.settings)
    number = request.inferences or (len(over.cores) if isinstance(over, SystemHardware) else 1)
    with Progress(f"simulating {number} inferences of {model}") as progress:
        result = inferences(model, over, number, options=request.options, progress=progress)
    _print_and_write(throughput_text.summary, result, request)


def _print_and_write(summary: Callable[[Any, int], RenderableType], result: Any, request: Request) -> None:
    """Print the summary of a result, and write its JSON even if that fails."""
    from npusim.base import files

    try:
        out = console()
        out.print(summary(result, out.width))
    finally:
        for path in request.targets.values():
            files.write(path, files.text(files.json_text(result.to_dict())))


def _run_over(model: str, request: Request, over: list[str]) -> None:
    """Run a model over devices, print its summary, and write its files."""
    from npusim.base import files
    from npusim.cli import devices

    request.require_data("--timing-only" if request.timing_only else "")
    pages = _report_files(request.report)
    folders = {"--report": (request.report, [path.name for path in pages]), CACHE: (request.cache, ())}
    files.check_outputs(request.written, devices.inputs_of(model, request, over), folders)
    if request.report:
        files.make_folder(request.report)
    _finish(devices.run(model, request, over), request, pages)


def _finish(result: RunResult, request: Request, pages: Mapping[Path, ReportFile]) -> None:
    try:
        print_summary(result)
    finally:  # write the files even if the reader of the summary closes the pipe
        _write(result, request.targets, pages)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A requested run of one model on one machine."""

    model: str
    request: Request
    options: Options
    offered: Offered

    @property
    def sized(self) -> Options:
        """Return the options with values for all open sizes of the model, given or taken from the inputs."""
        return replace(self.options, sizes={**self.offered.taken, **(self.options.sizes or {})})

    def check_files(self, machine: str, pages: Mapping[Path, ReportFile]) -> None:
        """Raise NpusimError for a file that cannot be written, or that would take the place of one that is read."""
        from npusim.base import files
        from npusim.frontends.frontend import model_file

        request = self.request
        sources: dict[str, Path | None] = {"MODEL": model_file(self.model), "--input": request.input}
        sources |= hardware_inputs(machine) | partition_inputs(request.partition)
        files.check_outputs(
            request.written, sources, {"--report": (request.report, [path.name for path in pages])}
        )

    def compiled(self) -> tuple[Graph | Program, Program | Executable, dict[str, float]]:
        """Return the model, its program, and the seconds of loading and compiling by name."""
        from time import perf_counter

        from npusim.isa.program.program import Program
        from npusim.session import api
        from npusim.session.opening import open_model

        machine, hw, settings = None, self.request.hw, self.request.settings
        if hw or settings:
            machine = api.hardware(hw[0] if hw else api.DEFAULT_HARDWARE, settings)
        with Progress(f"scheduling {self.model}") as progress:
            begin = perf_counter()
            model = open_model(self.model, self.options.sizes, self.offered)
            load_s = perf_counter() - begin

            def compiled(other: Hardware) -> object:
                if isinstance(model, Program):
                    raise NpusimError("is compiled already")  # the fault says what to do
                return api.compile_any(model, other, replace(self.options, effort="fast"))

            try:
                program, wall = api.prepare_any(self.model, machine, self.options, progress, model=model)
            except CompileError as fault:
                from npusim.session.fitting import with_remedy

                raise with_remedy(fault, machine, compiled) from None
        return model, program, wall | {"load": load_s}

    def simulated(self, program: Program, wall: Mapping[str, float], timing_only: bool) -> RunResult:
        """Simulate the program. Files are checked first, so that an unusable path fails at once."""
        from npusim.base import files
        from npusim.session import api

        request = self.request
        api.require_outputs(program, request.output)
        if request.output:
            from npusim.base import npz

            npz.check_repeated(request.output, program.outputs)
        values = request.values(program.inputs)
        if request.report:
            files.make_folder(request.report)
        timing_only = timing_only or bool(program.unknown_operators)
        with Progress(f"simulating {program.name}") as progress:
            result = api.simulate(
                program,
                values,
                timing_only=timing_only,
                seed=request.seed,
                progress=progress,
                every_layer=request.every_layer,
            )
        return replace(result, wall_s=replace(result.wall_s, **wall))

    def with_provenance(self, result: RunResult) -> RunResult:
        """Return the result with the command that reproduces it."""
        from npusim.session.opening import is_program
        from npusim.session.provenance import of_run

        request = self.request
        provenance = of_run(
            self.model,
            request.hw[0] if request.hw else None,
            self.sized,
            seed=request.seed,
            inputs=result.provenance.inputs,
            settings=request.settings,
            compiled=is_program(self.model),
        )
        return replace(result, provenance=provenance)

    def with_variants(self, result: RunResult) -> RunResult:
        """Return the result with the effect of changing each hardware parameter."""
        from npusim.study.what_if import what_if_of

        with Progress("what if") as progress:
            variants = what_if_of(self.model, result.hardware, self.sized, progress=progress)
        return replace(result, variants=variants)

    def with_levers(self, result: RunResult, model: Graph | Program) -> RunResult:
        """Return the result with the hardware changes that were simulated for its answer."""
        from npusim.study.levers import levers

        with Progress("levers"):
            tried = levers(model, result, self.options, file=self.model)
        return replace(result, tried=tried)


def _offered(inputs: Path | None) -> Offered:
    """Return the shapes of the inputs in a file, which determine open sizes of the model."""
    from npusim.kernels.graph.bind import Offered

    if inputs is None:
        return Offered()
    from npusim.session.inputs import offered_by_npz

    return offered_by_npz(inputs)


def _draw(path: str, target: Path, options: Options) -> None:
    """Write a drawing of the model. Raises NpusimError for a compiled program, which has no graph."""
    from npusim.frontends.nnadapter.model_building import Model
    from npusim.session import api
    from npusim.session.opening import is_program

    if is_program(path):
        raise NpusimError(
            f"{DOT} {target}: {path} is a compiled program, which has no operators; give the model"
        )
    Model.of(api.load(path, options.sizes)).save_dot(target)


def _write(result: RunResult, targets: Mapping[str, Path], pages: Mapping[Path, ReportFile]) -> None:
    from npusim.base import files

    asked = {path: _writer(option, result) for option, path in targets.items()}
    try:
        files.write_all(asked)
    finally:
        if pages:
            from npusim.reports.folder import writers

            files.write_all(writers(result, pages), follow=False)


def _report_files(folder: Path | None) -> dict[Path, ReportFile]:
    """Return the files of a report by their paths; none without a folder for them."""
    if folder is None:
        return {}
    from npusim.reports.folder import files

    return {folder / file.name: file for file in files()}


def _writer(option: str, result: RunResult) -> Writer:
    from npusim.base import files

    if option == OUTPUT:
        from npusim.base import npz

        return lambda file: npz.write(file, result.outputs)
    from npusim.reports import report

    return lambda file: files.text(report(option).render(result))(file)


def print_summary(result: RunResult) -> None:
    """Print the summary of a run to stdout."""
    from npusim.reports.run.terminal import crops, render, summary

    width = plain_width()
    if width is not None and not result.variants:
        say(render(result, width, ascii_only(sys.stdout)), end="")
        return
    target = console()
    target.print(summary(result, target.width, ascii_only(sys.stdout)), crop=crops(target.width))
    if result.variants:
        from npusim.reports.run.what_if import table

        target.print()
        target.print(table(result.variants, target.width))
    sys.stdout.flush()
