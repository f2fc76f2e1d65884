"""The commands as typer reads them. Each imports its own modules when it is called."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from npusim.base.console import STANDARD_OUTPUT, keep_for_data, say
from npusim.cli.base import cleaned, guarded
from npusim.cli.commands import COMMANDS, ENDING, PURPOSE, VERSION
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.version import npusim_version


class Commands(TyperGroup):
    """A group of commands that refuse a single-value option given twice."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name, with the check for repeated options."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and not isinstance(command, TyperGroup):
            command.parse_args = partial(_parsed_once, command)  # type: ignore[method-assign]
        return command


def _parsed_once(command: Any, ctx: Any, args: list[str]) -> list[str]:
    """Parse the words of a command. Raises NpusimError for an option that is repeated, whose last value would win."""
    options = {
        name: parameter
        for parameter in command.params
        for name in parameter.opts
        if getattr(parameter, "param_type_name", "") == "option"
    }
    seen: set[str] = set()
    words = iter(args)
    for word in words:
        if word == "--":
            break
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        opt = options.get(name)
        if opt is None or opt.is_flag or opt.multiple:
            continue
        if opt.name in seen:
            raise NpusimError(f"{name}: is given twice; {command.name} takes one")
        seen.add(opt.name)
        if word == name:
            next(words, None)  # skip its value, which may look like an option
    parsed: list[str] = type(command).parse_args(command, ctx, args)
    if any(ctx.params.get(opt.name) == STANDARD_OUTPUT for opt in options.values() if opt.metavar == "F"):
        keep_for_data()
    return parsed


class Lazy(Commands):
    """The commands of `COMMANDS`, each imported when it is called."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        for name, _, text in COMMANDS:
            self.add_command(TyperCommand(name, help=text, rich_markup_mode=None))

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line; everything that it writes to a terminal is cleaned."""
        with cleaned():
            return super().main(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a fault ends it with a line on stderr and an exit status."""
        with guarded():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the called command, and return its name, its command object and the remaining arguments."""
        name, command, words = super().resolve_command(ctx, args)
        module = next((module for known, module, _ in COMMANDS if known == name), None)
        if name and module:
            command = load(module).get_command(ctx, name)
        return name, command, words


def load(module: str) -> TyperGroup:
    """Return the commands that a module of this package holds."""
    part = typer.Typer(cls=Commands, rich_markup_mode=None, pretty_exceptions_enable=False)
    import_module(f"npusim.cli.{module}").register(part)
    part.callback()(lambda: None)
    return typer.main.get_group(part)


app = typer.Typer(
    cls=Lazy,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # plain help: rich alone would take longer to import than all the rest
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help=PURPOSE,
    epilog=ENDING,
)


def _show_version(asked: bool) -> None:
    if asked:
        say(f"npusim {npusim_version()}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help=VERSION, callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Define the options before the command."""
