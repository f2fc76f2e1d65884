"""The commands that run models: run, demo."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from npusim.base.console import console, say
from npusim.cli import devices, job
from npusim.cli.base import (
    EffortOption,
    HardwareList,
    HardwareOption,
    HostOption,
    PartitionOption,
    Progress,
    SetOption,
    ShapeOption,
    UnknownOption,
    ascii_only,
    hardware_inputs,
    names,
    partition_inputs,
    sizes_of,
)
from npusim.isa.base.errors import NpusimError
from npusim.reports import REPORTS

if TYPE_CHECKING:
    from npusim.base.files import Writer
    from npusim.isa.hardware.hardware import Hardware
    from npusim.isa.program.executable import Executable
    from npusim.isa.program.program import Program
    from npusim.kernels.graph.bind import Offered, Sizes
    from npusim.kernels.graph.graph import Graph
    from npusim.numbers.run import RunResult
    from npusim.reports.folder import ReportFile

OUTPUT, JSON, DOT = "--output", "--json", "--dot"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("run")(_with_reports(run))
    app.command("demo")(demo)


def _with_reports(command: Callable[..., None]) -> Callable[..., None]:
    """A command with an option for each report; it is called with the files that were asked for, by option."""

    def shown(**given: Any) -> None:
        files = {report.option: given.pop(report.name) for report in REPORTS}
        command(reports={option: path for option, path in files.items() if path}, **given)

    options = [
        inspect.Parameter(
            report.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                Path | None, typer.Option(report.option, metavar="F", help=f"Write {report.purpose}.")
            ],
        )
        for report in REPORTS
    ]
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        parameters += options if parameter.name == "reports" else [parameter]
    by_name = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    shown.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]
    shown.__doc__ = command.__doc__
    return shown


def run(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="A model file, a .npu program, a built-in model (npusim models), or a folder; several give a table.",
        ),
    ],
    *,
    hw: HardwareList = None,
    set_: SetOption = None,
    input: Annotated[
        Path | None,
        typer.Option(
            "--input", metavar="F.npz", help="Inputs, by tensor name or as in0, in1, ... [default: random]"
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(OUTPUT, metavar="F.npz", help="Write the outputs, as out0, out1, ...")
    ] = None,
    reports: Mapping[str, Path],
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="DIR", help="Write a page, report.html, its data, and its figures."),
    ] = None,
    dot: Annotated[
        Path | None,
        typer.Option(DOT, metavar="F", help="Write the model as a drawing in the DOT language of graphviz."),
    ] = None,
    timing_only: Annotated[
        bool, typer.Option("--timing-only", help="Execute no data: the same cycles, no outputs.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of random inputs.")] = 0,
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Also try each hardware parameter doubled, by simulation.")
    ] = False,
    no_lever: Annotated[
        bool, typer.Option("--no-lever", help="Simulate no changes of the hardware for the answer.")
    ] = False,
    effort: EffortOption = "fast",
    unknown: UnknownOption = None,
    host: HostOption = None,
    partition: PartitionOption = None,
    shape: ShapeOption = None,
    decide: job.DecideOption = None,
    device: devices.DeviceOption = None,
    print_partition: devices.PrintOption = False,
    cache: devices.CacheOption = None,
) -> None:
    """Compile and execute a model, and print the summary; of several models or machines, a table."""
    from npusim.isa.program.program import Program
    from npusim.session import api

    machines = hw or [api.DEFAULT_HARDWARE]
    sizes = sizes_of(shape)
    given = models
    if any(Path(model).is_dir() for model in models):
        from npusim.session.run_table import model_files

        models = model_files(models)
    table = models != given or len(models) > 1 or len(machines) > 1
    how = devices.How(partition or (), devices.host_names(host), effort, timing_only, seed, sizes)
    over = devices.Asked(models[0], device or (), how, input, output, dot, cache)
    if device:
        others: dict[str, object] = {"MODEL": models[1:], "--hw": hw, "--set": set_, "--what-if": what_if}
        devices.require_alone(others | {"--unknown": unknown, job.OPTION: decide})
        _run_over(over, print_partition, reports, report)
        return
    devices.require_no_choice(partition or ())
    if cache and not table:
        others = {"--set": set_, "--what-if": what_if, "--unknown": unknown, job.OPTION: decide}
        devices.require_cacheable(partition or (), others | {devices.PRINT_OPTION: print_partition})
        _run_over(replace(over, devices=machines), False, reports, report)
        return
    if table:
        from npusim.cli import run_table

        one: dict[str, object] = {"--input": input, OUTPUT: output, "--what-if": what_if or None}
        one |= {DOT: dot, "--host": host, "--partition": partition}
        one |= {devices.PRINT_OPTION: print_partition or None, devices.CACHE_OPTION: cache}
        where = run_table.Targets(reports, report)
        run_table.run(models, machines, set_ or (), effort, unknown, sizes, where, one)
        return
    without_data = "--timing-only" if timing_only else "--unknown host" if api.check_unknown(unknown) else ""
    if without_data and (input or output):
        option = "--input" if input else OUTPUT
        raise NpusimError(f"{option}: {without_data} executes no data; give one or the other")
    compiler = _Compiler(effort, unknown, names(host), partition, sizes)
    asked = _Asked(models[0], hw[0] if hw else None, set_ or (), compiler, seed, input, _offered(input))
    targets = ({OUTPUT: output} if output else {}) | dict(reports)
    pages = _report_files(report) if report else {}
    _check_outputs(asked, machines[0], targets | ({DOT: dot} if dot else {}), report, pages)
    if dot:
        _draw(asked.model, dot, sizes)
    if print_partition:
        devices.print_subgraphs(over, machines[0], set_ or ())
    model, program, wall = _compiled(asked)
    if not isinstance(program, Program):
        others = {"--report": report, "--what-if": what_if}
        others |= {option: path for option, path in reports.items() if option != JSON}
        job.run(
            program,
            job.Asked(input, output, reports.get(JSON), timing_only, seed, decide or (), others),
            wall,
        )
        return
    if decide:
        raise NpusimError(f"{job.OPTION} {decide[0]}: {asked.model} decides nothing")
    result = _result(asked, program, wall, output, bool(without_data), report)
    if reports or report:  # who looks at the summary alone does not wait for digests
        result = asked.with_provenance(result)
    if what_if:
        result = asked.with_variants(result)
    if not no_lever:
        result = asked.with_levers(result, model)
    try:
        print_summary(result)
    finally:  # what was computed is kept, even if nobody reads the summary to its end
        _write(result, targets, pages)


def _run_over(
    asked: devices.Asked, print_partition: bool, reports: Mapping[str, Path], report: Path | None
) -> None:
    """A run over devices, with its summary, outputs and reports."""
    from npusim.base import files

    if asked.how.timing_only and (asked.input or asked.output):
        option = "--input" if asked.input else OUTPUT
        raise NpusimError(f"{option}: --timing-only executes no data; give one or the other")
    targets = ({OUTPUT: asked.output} if asked.output else {}) | dict(reports)
    drawn = {DOT: asked.dot} if asked.dot else {}
    pages = _report_files(report) if report else {}
    folders = {"--report": (report, [path.name for path in pages]), devices.CACHE_OPTION: (asked.cache, ())}
    files.check_outputs(targets | drawn, devices.inputs_of(asked), folders)
    if report:
        files.make_folder(report)
    result = devices.run(asked, print_partition)
    try:
        print_summary(result)
    finally:  # what was computed is kept, even if nobody reads the summary to its end
        _write(result, targets, pages)


class _Compiler(NamedTuple):
    """What the compiler was asked for, by the names of its arguments."""

    effort: str
    unknown: str | None
    host: Sequence[str]
    partition: Sequence[str] | None
    sizes: Sizes


@dataclass(frozen=True, slots=True)
class _Asked:
    """What one run was asked for, as it was written."""

    model: str
    hw: str | None
    settings: Sequence[str]
    compiler: _Compiler
    seed: int
    input: Path | None
    offered: Offered

    @property
    def sizes(self) -> Sizes:
        """Return the sizes that settle what the model left open, given or taken from inputs."""
        return {**self.offered.taken, **self.compiler.sizes}

    def with_provenance(self, result: RunResult) -> RunResult:
        """The result with the command that gives it again."""
        from npusim.session.opening import is_program
        from npusim.session.provenance import of_run

        made = of_run(
            self.model,
            self.hw,
            effort=self.compiler.effort,
            host=self.compiler.host,
            partition=self.compiler.partition,
            seed=self.seed,
            inputs=result.provenance.inputs,
            settings=self.settings,
            compiled=is_program(self.model),
            sizes=self.sizes,
        )
        return replace(result, provenance=made)

    def with_variants(self, result: RunResult) -> RunResult:
        """The result with what changes of the hardware would bring."""
        from npusim.study.what_if import what_if

        with Progress("what if") as progress:
            how = self.compiler._replace(sizes=self.sizes)._asdict()
            variants = what_if(self.model, result.hardware, **how, progress=progress)
        return replace(result, variants=variants)

    def with_levers(self, result: RunResult, model: Graph | Program) -> RunResult:
        """Return the result with the hardware changes that were simulated for its answer."""
        from npusim.study.levers import Compiler, levers

        effort, unknown, host, partition, _ = self.compiler
        with Progress("levers"):
            tried = levers(model, result, Compiler(effort, unknown, host, partition), file=self.model)
        return replace(result, tried=tried)


def _offered(inputs: Path | None) -> Offered:
    """Return the shapes of the inputs in a file, which settle sizes that the model leaves open."""
    from npusim.kernels.graph.bind import Offered
    from npusim.session.inputs import offered_by_npz

    return Offered() if inputs is None else offered_by_npz(inputs)


def _check_outputs(
    asked: _Asked,
    machine: str,
    targets: Mapping[str, Path],
    folder: Path | None,
    pages: Mapping[Path, ReportFile],
) -> None:
    from npusim.base import files

    sources: dict[str, Path | None] = {"MODEL": Path(asked.model), "--input": asked.input}
    sources |= hardware_inputs(machine) | partition_inputs(asked.compiler.partition)
    files.check_outputs(targets, sources, {"--report": (folder, [path.name for path in pages])})


def _draw(path: str, target: Path, sizes: Sizes) -> None:
    """Write the model as a drawing. Raises NpusimError for a program, which is no graph any more."""
    from npusim.frontends.nnadapter.model_building import Model
    from npusim.session import api
    from npusim.session.opening import is_program

    if is_program(path):
        raise NpusimError(
            f"{DOT} {target}: {path} is a compiled program, which has no operators; give the model"
        )
    Model.of(api.load(path, sizes)).save_dot(target)


def _compiled(asked: _Asked) -> tuple[Graph | Program, Program | Executable, dict[str, float]]:
    """Return the model, its program (or, with IF or WHILE, its programs), and the seconds of each step."""
    from time import perf_counter

    from npusim.isa.program.program import Program
    from npusim.session import api
    from npusim.session.fitting import says_what_fits
    from npusim.session.opening import open_model

    machine = None
    if asked.hw or asked.settings:
        machine = api.hardware(asked.hw or api.DEFAULT_HARDWARE, asked.settings)
    with Progress(f"scheduling {asked.model}") as progress:
        begin = perf_counter()
        model = open_model(asked.model, asked.compiler.sizes, asked.offered)
        load_s = perf_counter() - begin
        words = {
            key: value for key, value in asked.compiler._asdict().items() if key not in ("effort", "sizes")
        }

        def compiled(other: Hardware) -> object:
            if isinstance(model, Program):
                raise NpusimError("is compiled already")  # the fault says what to do
            return api.compile(model, other, **words)

        with says_what_fits(machine, compiled):
            made, wall = api.prepare_any(
                asked.model, machine, **asked.compiler._asdict(), progress=progress, model=model
            )
    return model, made, wall | {"load": load_s}


def _result(
    asked: _Asked,
    program: Program,
    wall: Mapping[str, float],
    output: Path | None,
    timing_only: bool,
    report: Path | None,
) -> RunResult:
    """Simulate. What cannot be read or written is found before the work."""
    from npusim.base import files
    from npusim.session import api

    api.require_outputs(program, output)
    if output:
        from npusim.base import npz

        npz.check_repeated(output, program.outputs)
    values = None
    if asked.input:
        from npusim.session.inputs import read_npz

        values = read_npz(asked.input, program.inputs)
    if report:
        files.make_folder(report)
    timing_only = timing_only or bool(program.unknown_operators)
    with Progress(f"simulating {program.name}") as progress:
        result = api.simulate(program, values, timing_only=timing_only, seed=asked.seed, progress=progress)
    return replace(result, wall_s=replace(result.wall_s, **wall))


def _write(result: RunResult, targets: Mapping[str, Path], pages: Mapping[Path, ReportFile]) -> None:
    from npusim.base import files

    asked = {path: _writer(option, result) for option, path in targets.items()}
    try:
        files.write_all(asked)
    finally:
        files.write_all({path: partial(each.write, result) for path, each in pages.items()}, follow=False)


def _report_files(folder: Path) -> dict[Path, ReportFile]:
    """The files of a report."""
    from npusim.reports.folder import files

    return {folder / each.name: each for each in files()}


def _writer(option: str, result: RunResult) -> Writer:
    from npusim.base import files

    if option == OUTPUT:
        from npusim.base import npz

        return lambda file: npz.write(file, result.outputs)
    from npusim.reports import report

    return lambda file: files.text(report(option).render(result))(file)


def print_summary(result: RunResult) -> None:
    """The summary of a run on stdout."""
    from npusim.reports.run.terminal import crops, summary

    target = console()
    target.print(summary(result, target.width, ascii_only(sys.stdout)), crop=crops(target.width))
    if result.variants:
        from npusim.reports.run.what_if import table

        target.print()
        target.print(table(result.variants, target.width))
    sys.stdout.flush()


def demo(hw: HardwareOption = None) -> None:
    """Classify handwritten digits on the simulated NPU, with the built-in model and its 200 test images."""
    from npusim import models
    from npusim.session import api
    from npusim.study.levers import levers

    program, wall = api.prepare("digits_cnn", hw)
    images, labels = models.digits_test()
    right, cycles = 0, set()
    with Progress("classifying") as progress:
        for i, (image, label) in enumerate(zip(images, labels, strict=True)):
            result = api.simulate(program, [image[None]])
            right += int(result.outputs[0].argmax()) == int(label)
            cycles.add(int(result.cycles))
            if progress:
                progress(i + 1, len(labels))
    tried = levers(api.load("digits_cnn"), result, file="digits_cnn")
    print_summary(replace(result, wall_s=replace(result.wall_s, **wall), tried=tried))
    lines = [f"Accuracy {right / len(labels):.1%}: {right} of {len(labels)} test images."]
    if len(cycles) == 1:
        lines.append(f"Every inference took {cycles.pop()} cycles.")
    say("\n" + " ".join(lines))
