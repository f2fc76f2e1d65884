"""The command convert: a model in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from npusim.base.console import say
from npusim.cli.base import ShapeOption, sizes_of
from npusim.frontends.targets import summary, target_of
from npusim.isa.base.errors import NpusimError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("convert")(convert)


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
    from npusim.reports.words import quantities as show
    from npusim.session import api

    target = target_of(format, output)
    files.check_outputs({"-o": output}, {"MODEL": Path(model)})
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
