"""The command convert: a model in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from npusim.base.console import say
from npusim.cli.base import ShapeOption, sizes_of
from npusim.isa.base.errors import NpusimError

FORMATS = ("nnef",)
"""What models are written as."""


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
            "-o",
            "--output",
            metavar="FILE",
            help="The archive to write, such as model.tgz; .tar is unpacked.",
        ),
    ],
    format: Annotated[str, typer.Option("--to", metavar="DOOR", help="nnef: NNEF 1.0.")] = "nnef",
    shape: ShapeOption = None,
) -> None:
    """Write a model in another format, which gives the same bytes in the same cycles; or say what it cannot express."""
    from npusim.base import files
    from npusim.session import api

    if format not in FORMATS:
        raise NpusimError(f"--to {format}: may be {', '.join(FORMATS)}")
    files.check_outputs({"-o": output}, {"MODEL": Path(model)})
    from npusim.frontends.nnef import export
    from npusim.reports.words import quantities as show

    graph = api.load(model, sizes_of(shape))
    try:
        content = export.packed(graph, is_compressed=not output.name.lower().endswith(".tar"))
    except NpusimError as fault:
        raise type(fault)(f"{model}: {fault}") from None
    files.write(output, lambda file: file.write(content))
    say(f"{show.printable(str(output))}: {show.printable(graph.name)} as NNEF, {show.size(len(content))}")
