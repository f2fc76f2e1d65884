"""Commands that turn models into files: compile, asm, disasm, convert."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.base.console import say
from npusim.cli.base import Progress
from npusim.cli.options import hardware_inputs, names, partition_inputs, sizes_of
from npusim.cli.typer_options import (
    EffortOption,
    HardwareOption,
    HostOption,
    PartitionOption,
    SetOption,
    ShapeOption,
    UnknownOption,
)
from npusim.frontends.targets import summary, target_of
from npusim.isa.base.errors import CompileError, NpusimError

if TYPE_CHECKING:
    from npusim.isa.program.program import Program


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("compile")(compile_model)
    app.command("asm")(assemble)
    app.command("disasm")(disassemble)
    app.command("convert")(convert)


ProgramFile = Annotated[Path, typer.Option("-o", "--output", metavar="P.npu", help="The program to write.")]


def compile_model(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model file or a built-in model (npusim models).")
    ],
    output: ProgramFile,
    hw: HardwareOption = None,
    set_: SetOption = None,
    effort: EffortOption = "fast",
    unknown: UnknownOption = None,
    host: HostOption = None,
    partition: PartitionOption = None,
    shape: ShapeOption = None,
) -> None:
    """Compile a model to a program that `npusim run` executes."""
    from npusim.base import files
    from npusim.frontends.frontend import model_file
    from npusim.session import api
    from npusim.session.options import Options

    sources = {"MODEL": model_file(model), **hardware_inputs(hw), **partition_inputs(partition)}
    files.check_outputs({"-o": output}, sources)
    options = Options(effort, unknown, names(host), partition)
    options.require_sound()
    machine = api.hardware(hw or api.DEFAULT_HARDWARE, set_ or ())
    graph = api.load(model, sizes_of(shape))
    with Progress(f"scheduling {graph.name}") as progress:
        fast = replace(options, effort="fast")
        try:
            program = api.compile_program(graph, machine, options, progress)
        except CompileError as fault:
            from npusim.session.fitting import with_remedy

            raise with_remedy(fault, machine, lambda other: api.compile_program(graph, other, fast)) from None
    api.save_program(program, output)
    from npusim.reports.words import quantities as show
    from npusim.reports.words.claims import caveats

    say(
        f"{show.printable(str(output))}: {show.printable(program.name)} for {program.hardware.name}, "
        f"{show.plural(program.instructions, 'instruction')}, {show.size(program.constants_bytes)} constants, "
        f"{show.size(program.scratchpad_peak_bytes)} scratchpad, {show.size(program.dram_room_bytes)} DRAM"
    )
    for caveat in caveats(program):
        say(show.printable(caveat))


def assemble(
    source: Annotated[Path, typer.Argument(metavar="P.asm", help="Assembly, as disasm writes it.")],
    output: ProgramFile,
) -> None:
    """Turn assembly into a program."""
    from npusim.base import files
    from npusim.isa.base import user_file
    from npusim.isa.text import assembly
    from npusim.session import api

    files.check_outputs({"-o": output}, {"P.asm": source})
    text = user_file.text(source, user_file.ASSEMBLY)
    try:
        program = assembly.assemble(text)
    except NpusimError as fault:
        raise type(fault)(f"{source}: {fault}") from None
    api.save_program(program, output)


def disassemble(
    program: Annotated[Path, typer.Argument(metavar="P.npu", help="A program.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="P.asm", help="Where to. [default: stdout]")
    ] = None,
    code: Annotated[
        bool, typer.Option("--code", help="The instructions alone, without constants and places.")
    ] = False,
    layer: Annotated[
        str, typer.Option("--layer", metavar="NAME|N", help="The instructions of one layer alone.")
    ] = "",
) -> None:
    """Print a program as assembly, with the fields by name; `npusim asm` needs all of it."""
    from npusim.base import files
    from npusim.isa.text import assembly
    from npusim.session import api

    files.check_outputs({"-o": output}, {"P.npu": program})
    loaded = api.load_program(program)
    if code or layer:
        text = assembly.code(loaded, _layer_number(loaded, layer) if layer else None)
    else:
        text = assembly.disassemble(loaded)
    if output:
        files.write(output, files.text(text))
    else:
        say(text, end="")


def _layer_number(program: Program, layer: str) -> int:
    """Return the number of a layer, given by number or name. Raises NpusimError if the program does not have it."""
    names = [own_layer.name for own_layer in program.layers]
    if layer in names:
        return names.index(layer)
    if layer.isascii() and layer.isdigit() and int(layer[:9]) < len(names):
        return int(layer)
    from npusim.isa.base.errors import nearest

    near = nearest(layer, names)
    hint = f"did you mean {near}? " if near else ""
    raise NpusimError(f"--layer {layer}: no layer has this name; {hint}it may also be 0 to {len(names) - 1}")


def convert(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model file or a built-in model (npusim models).")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FILE", help="The file to write; for NNEF .tar is not compressed."
        ),
    ],
    format: Annotated[
        str,
        typer.Option("--to", metavar="FORMAT", help=f"{summary()}. By default what FILE ends in, or nnef."),
    ] = "",
    shape: ShapeOption = None,
) -> None:
    """Write a model in another format, or say which layers it cannot express and why."""
    from npusim.base import files
    from npusim.frontends.frontend import model_file
    from npusim.reports.words import quantities as show
    from npusim.session import api

    target = target_of(format, output)
    files.check_outputs({"-o": output}, {"MODEL": model_file(model)})
    graph = api.load(model, sizes_of(shape))
    try:
        content = target.written(graph, output.name)
    except NpusimError as fault:
        raise type(fault)(f"{model}: {fault}") from None
    files.write(output, lambda file: file.write(content))
    say(
        f"{show.printable(str(output))}: {show.printable(graph.name)} as {target.title}, {show.size(len(content))}"
    )
    if caveat := target.caveats(graph):
        say(caveat)
