"""The options of `npusim run` as typer takes them, for the commands that have some of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from npusim.cli.options import BY_NAME, OPTIONS, Names, Option, Request


def declaration(option: Option) -> Any:
    """Return an option as typer takes it."""
    return typer.Option(
        option.flag,
        metavar=option.metavar,
        min=option.least,
        help=option.purpose,
        show_default=option.shows_default,
    )


HardwareOption = Annotated[
    str | None,
    typer.Option(
        "--hw", metavar="NAME|FILE", help="A preset (npusim hw list) or a TOML file. [default: edge-128]"
    ),
]
SetOption = Annotated[Names, declaration(BY_NAME["set_"])]
EffortOption = Annotated[str, declaration(BY_NAME["effort"])]
UnknownOption = Annotated[str | None, declaration(BY_NAME["unknown"])]
HostOption = Annotated[Names, declaration(BY_NAME["host"])]
PartitionOption = Annotated[Names, declaration(BY_NAME["partition"])]
ShapeOption = Annotated[Names, declaration(BY_NAME["shape"])]


def with_options(command: Callable[[list[str], Request], None]) -> Callable[..., None]:
    """Return a command with all options of `npusim run` that calls `command` with the models and a `Request`."""

    def shown(models: list[str], **values: Any) -> None:
        command(models, Request.of(**values))

    models_type = Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="A model file, a .npu program, a built-in model (npusim models), or a folder; several give a table.",
        ),
    ]
    keyword = inspect.Parameter.KEYWORD_ONLY
    shown.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("models", keyword, annotation=models_type),
            *(
                inspect.Parameter(
                    option.name,
                    keyword,
                    default=option.default,
                    annotation=Annotated[option.type, declaration(option)],
                )
                for option in OPTIONS
            ),
        ]
    )
    shown.__doc__ = command.__doc__
    return shown
