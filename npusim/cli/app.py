"""The command line. Everything heavy is imported by the command that needs it: `npusim --help` is instant."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.base.terminal import console, say
from npusim.cli import catalogue as cli_catalogue
from npusim.cli import compare as cli_compare
from npusim.cli import job as cli_job
from npusim.cli import program as cli_program
from npusim.cli import study as cli_explore
from npusim.cli import verify as cli_verify
from npusim.cli.base import (
    EXIT_INTERRUPTED,
    EffortOption,
    Guarded,
    HardwareList,
    HardwareOption,
    Progress,
    SetOption,
    UnknownOption,
    ascii_only,
    hardware_inputs,
    start_lightly,
)
from npusim.cli.job import DecideOption
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.version import npusim_version

if TYPE_CHECKING:
    from npusim.base.files import Writer
    from npusim.numbers.run import RunResult
    from npusim.reports.folder import ReportFile

app = typer.Typer(
    cls=Guarded,
    add_completion=False,
    rich_markup_mode=None,  # plain help: rich alone would take longer to import than all the rest
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Compile quantized networks for a parametric NPU and simulate them: exact bytes, cycles, energy.",
    epilog="Exit status: 0 done, 2 a mistake in what was given, 1 a fault of npusim.",
)


def _show_version(asked: bool) -> None:
    if asked:
        say(f"npusim {npusim_version()}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Options before the command."""


@app.command()
def run(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="A model file, a .npu program, or a built-in model (npusim models); several give a table.",
        ),
    ],
    hw: HardwareList = None,
    set_: SetOption = None,
    input: Annotated[
        Path | None,
        typer.Option(
            "--input", metavar="F.npz", help="Inputs, by tensor name or as in0, in1, ... [default: random]"
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="F.npz", help="Write the outputs, as out0, out1, ...")
    ] = None,
    json: Annotated[Path | None, typer.Option("--json", metavar="F", help="Write every number.")] = None,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="F", help="Write the layers.")] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", metavar="F", help="Write the timeline, for ui.perfetto.dev.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="DIR", help="Write a page, report.html, its data, and its figures."),
    ] = None,
    timing_only: Annotated[
        bool, typer.Option("--timing-only", help="Execute no data: the same cycles, no outputs.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of random inputs.")] = 0,
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Also try each hardware parameter doubled, by simulation.")
    ] = False,
    effort: EffortOption = "fast",
    unknown: UnknownOption = None,
    decide: DecideOption = None,
) -> None:
    """Compile and execute a model, and print the summary; of several models or machines, a table."""
    from npusim.base import files
    from npusim.session import api

    machines = hw or [api.DEFAULT_HARDWARE]
    if len(models) > 1 or len(machines) > 1:
        from npusim.cli import table as cli_table

        one: dict[str, object] = {
            "--input": input,
            "--output": output,
            "--trace": trace,
            "--what-if": what_if or None,
        }
        one["--unknown"] = unknown
        cli_table.run(models, machines, set_ or (), effort, cli_table.Targets(json, csv, report), one)
        return
    model = models[0]
    machine = api.hardware(machines[0], set_ or ()) if hw or set_ else None
    without_data = "--timing-only" if timing_only else "--unknown host" if api.check_unknown(unknown) else ""
    if without_data and (input or output):
        option = "--input" if input else "--output"
        raise NpusimError(f"{option}: {without_data} executes no data; give one or the other")
    timing_only = bool(without_data)
    reports = {"--json": json, "--csv": csv, "--trace": trace}
    targets = {option: path for option, path in {"--output": output, **reports}.items() if path}
    pages = _report_files(report) if report else {}
    sources = {"MODEL": Path(model), "--input": input, **hardware_inputs(machines[0])}
    files.check_outputs(targets, sources, {"--report": (report, [path.name for path in pages])})
    with Progress(f"scheduling {model}") as progress:
        program, wall = api.prepare_any(model, machine, effort=effort, unknown=unknown, progress=progress)
    from npusim.isa.program.program import Program

    if not isinstance(program, Program):
        others = {"--csv": csv, "--trace": trace, "--report": report, "--what-if": what_if}
        asked = cli_job.Asked(input, output, json, timing_only, seed, decide or (), others)
        cli_job.run(program, asked, wall)
        return
    if decide:
        raise NpusimError(f"--decide {decide[0]}: {model} decides nothing")
    api.require_outputs(program, output)
    timing_only = timing_only or bool(program.unknown_operators)
    if output:
        from npusim.base import npz

        npz.check_repeated(output, program.outputs)
    values = None
    if input:
        from npusim.session.inputs import read_npz

        values = read_npz(input, program.inputs)
    if report:
        files.make_folder(report)
    with Progress(f"simulating {program.name}") as progress:
        result = api.simulate(program, values, timing_only=timing_only, seed=seed, progress=progress)
    result = replace(result, wall_s=replace(result.wall_s, **wall))
    if json or report:  # who looks at the summary alone does not wait for digests
        from npusim.session.host import kind_of_inputs
        from npusim.session.provenance import of_run

        made = of_run(
            model,
            machines[0] if hw else None,
            effort=effort,
            seed=seed,
            inputs=kind_of_inputs(input, timing_only),
            settings=set_ or (),
            compiled=api.is_program(model),
        )
        result = replace(result, provenance=made)
    if what_if:
        from npusim.study.what_if import what_if as try_all

        with Progress("what if") as progress:
            result = replace(
                result,
                variants=try_all(model, result.hardware, effort=effort, unknown=unknown, progress=progress),
            )
    try:
        print_summary(result)
    finally:  # what was computed is kept, even if nobody reads the summary to its end
        made_by = {path: _writer(option, result) for option, path in targets.items()}
        try:
            files.write_all(made_by)
        finally:
            files.write_all({path: partial(each.write, result) for path, each in pages.items()}, follow=False)


def _report_files(folder: Path) -> dict[Path, ReportFile]:
    """The files of a report."""
    from npusim.reports.folder import files

    return {folder / each.name: each for each in files()}


def _writer(option: str, result: RunResult) -> Writer:
    from npusim.base import files

    if option == "--output":
        from npusim.base import npz

        return lambda file: npz.write(file, result.outputs)
    from npusim.reports import report

    return lambda file: files.text(report(option).render(result))(file)


def print_summary(result: RunResult) -> None:
    """The summary of a run on stdout."""
    from npusim.reports.run.terminal import summary

    target = console()
    target.print(summary(result, target.width, ascii_only(sys.stdout)))
    if result.variants:
        from npusim.reports.run.what_if import table

        target.print()
        target.print(table(result.variants, target.width))
    sys.stdout.flush()


@app.command()
def demo(hw: HardwareOption = None) -> None:
    """Classify handwritten digits on the simulated NPU, with the built-in model and its 200 test images."""
    from npusim import models
    from npusim.session import api

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
    print_summary(replace(result, wall_s=replace(result.wall_s, **wall)))
    lines = [f"Accuracy {right / len(labels):.1%}: {right} of {len(labels)} test images."]
    if len(cycles) == 1:
        lines.append(f"Every inference took {cycles.pop()} cycles.")
    say("\n" + " ".join(lines))


cli_program.register(app)
cli_catalogue.register(app)
cli_compare.register(app)
cli_explore.register(app)
cli_verify.register(app)


def main() -> None:
    """The entry point of `npusim`."""
    start_lightly()
    if isinstance(sys.stdout, TextIOWrapper):  # a name that the terminal cannot show must not stop a run
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except KeyboardInterrupt:  # before or after a command; within one, `Guarded` has seen it
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
