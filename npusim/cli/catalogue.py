"""Commands that list presets, models, operators, capabilities and the JSON Schema."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from npusim.base.console import console, say
from npusim.cli.base import Progress
from npusim.cli.options import hardware_inputs
from npusim.cli.typer_app import Commands
from npusim.cli.typer_options import HardwareOption

JsonOption = Annotated[
    Path | None, typer.Option("--json", metavar="F", help="Write it as JSON; - is standard output.")
]

hw_app = typer.Typer(
    cls=Commands, rich_markup_mode=None, no_args_is_help=True, help="Hardware: presets and files."
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("capabilities")(capabilities)
    app.add_typer(hw_app, name="hw")
    app.command("models")(models)
    app.command("ops")(operators)
    app.command("schema")(schema)


def capabilities(
    hw: HardwareOption = None,
    json: JsonOption = None,
) -> None:
    """Simulate the reference models and print the PerformanceInfo table of the NN HAL driver."""
    from npusim.base import files
    from npusim.reports.run import capabilities as report
    from npusim.session import api, references

    files.check_outputs({"--json": json}, hardware_inputs(hw))
    hardware = api.hardware(hw or api.DEFAULT_HARDWARE)
    with Progress("simulating the reference workloads") as progress:
        table = references.table(hardware, progress)
    console().print(report.table(table))
    sys.stdout.flush()
    if json:
        files.write(json, files.text(report.to_json(table)))


@hw_app.command("list")
def list_hardware(json: JsonOption = None) -> None:
    """The presets, and how far each agrees with its chip: the typical error of the rows of docs/silicon.md."""
    from npusim.cli.presets import list_presets

    list_presets(json)


@hw_app.command("show")
def show_hardware(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A preset or a TOML file.")],
) -> None:
    """Every parameter of a preset, hardware file or system file, as TOML, and what is known of its error."""
    from npusim.isa.hardware import file as hardware_file
    from npusim.isa.hardware.agreement import standing
    from npusim.isa.hardware.system_file import is_system, system
    from npusim.reports.words.claims import paragraph
    from npusim.reports.words.quantities import printable

    if is_system(name):
        described = system(name)
        say(f"# {printable(described.name)}: {len(described.cores)} cores, which share memories and a host")
        for machine, numbers in described.distinct().items():
            cores = ", ".join(map(str, numbers))
            say(f"\n# core {cores}\n{hardware_file.to_toml(machine)}", end="")
        return
    machine = hardware_file.hardware(name)
    claims = "".join(f"# {printable(line)}\n" for line in paragraph(standing(machine)))
    say(f"{claims}\n{hardware_file.to_toml(machine)}", end="")


@hw_app.command("check")
def check_hardware(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A TOML file, or a preset.")],
) -> None:
    """Check a hardware file or a system file; every fault is listed."""
    from npusim.isa.hardware import file as hardware_file
    from npusim.isa.hardware.system_file import is_system, system
    from npusim.kernels.table import check_lacks

    if is_system(file):
        described = system(file)
        for core in described.distinct():
            check_lacks(core)
        say(f'{file}: "{described.name}" is a valid system of {len(described.cores)} cores')
        return
    machine = hardware_file.hardware(file)
    check_lacks(machine)
    say(f'{file}: "{machine.name}" is a valid hardware description')


def models(json: JsonOption = None) -> None:
    """The built-in models."""
    from npusim import models as built_in
    from npusim.base import files
    from npusim.frontends.transformer.published import BLOCKS, PUBLISHED
    from npusim.reports.words import quantities as show

    files.check_outputs({"--json": json}, {})
    rows = [
        (model.name, show.count(model.macs), show.count(model.parameters), model.description)
        for model in built_in.MODELS
    ]
    say(show.columns(("model", "MACs", "parameters", "what it is"), rows, right=(1, 2)))
    say("\nOnly the sizes of these are built in (run --timing-only; language models also run --prompt N)\n")
    counted = [(row.name, row.description, row.config.parameters) for row in PUBLISHED]
    counted += [(block.name, block.description, block.parameters) for block in BLOCKS]
    sizes = [(name, show.count(parameters), description) for name, description, parameters in counted]
    say(show.columns(("model", "parameters", "what it is"), sizes, right=(1,)))
    if json:
        from npusim.reports.run import coverage as lists

        keys = ("name", "description", "macs", "parameters")
        _write(json, lists.models({key: getattr(model, key) for key in keys} for model in built_in.MODELS))


def operators(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[OP...]", help="Operators to show whole, by any of their names. [default: all]"
        ),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format", metavar="FRONT_END", help="nnadapter, onnx, paddle: what its operations become."
        ),
    ] = "",
    json: JsonOption = None,
) -> None:
    """The operators: what each model format calls them, which element types run where, and on which conditions."""
    from npusim.base import files
    from npusim.cli.operators_table import FRONT_ENDS, chosen, coverage, standard
    from npusim.isa.base.errors import NpusimError
    from npusim.reports.run import coverage as lists
    from npusim.reports.run.coverage import details, standard_table, table

    if format and format not in FRONT_ENDS:
        raise NpusimError(f"--format {format}: may be {', '.join(FRONT_ENDS)}")
    files.check_outputs({"--json": json}, {})
    rows, width = coverage(), console().width
    if format:
        operations = standard(rows, names or (), format)
        text, written = standard_table(operations, width), lists.operations(operations)
    else:
        wanted = chosen(rows, names) if names else rows
        text = "\n\n".join(map(details, wanted)) if names else table(wanted, width)
        written = lists.operators(wanted)
    say(text)
    if json:
        _write(json, written)


def _write(path: Path, text: str) -> None:
    from npusim.base import files

    files.write(path, files.text(text))


def schema(
    document: Annotated[
        str, typer.Argument(metavar="[DOCUMENT]", help="One of docs/json.md, such as run. [default: all]")
    ] = "",
) -> None:
    """The JSON Schema of the JSON that npusim writes."""
    import json

    from npusim.isa.base.errors import NpusimError
    from npusim.reports import json_schema
    from npusim.reports.words.json_keys import DOCUMENTS
    from npusim.reports.words.quantities import printable

    if document and document not in DOCUMENTS:
        raise NpusimError(f"{printable(document)}: no document has this name; may be {', '.join(DOCUMENTS)}")
    say(json.dumps(json_schema.schema(document), indent=2))
