"""`npusim run` of a model that decides: several programs, with sums over their launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.base.console import console
from npusim.cli.base import Progress
from npusim.isa.base.errors import NpusimError

if TYPE_CHECKING:
    from npusim.base.files import Writer
    from npusim.isa.program.executable import Executable

OPTION = "--decide"

DecideOption = Annotated[
    list[str] | None,
    typer.Option(
        OPTION,
        metavar="NAME=N",
        help="Without data: the turns of a WHILE, 1 or 0 for an IF; once for each. [for a model that decides]",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked of the run; `others` are options that a model that decides does not have, and their values."""

    input: Path | None
    output: Path | None
    json: Path | None
    timing_only: bool
    seed: int
    decide: Sequence[str]
    others: Mapping[str, object]


def run(executable: Executable, asked: Asked, wall: Mapping[str, float]) -> None:
    """Execute, print the summary, and write what was asked for. Raises NpusimError for an option that it lacks."""
    from npusim.base import files
    from npusim.session import api

    for option, value in asked.others.items():
        if value:
            raise NpusimError(
                f"{option}: {executable.name} decides ({', '.join(executable.decisions)}), so it is several programs; "
                f"{option} takes one"
            )
    values = None
    if asked.input:
        from npusim.session.inputs import read_npz

        values = read_npz(asked.input, [place.tensor for place in executable.inputs])
    with Progress(f"simulating {executable.name}") as progress:
        result = api.simulate(
            executable,
            values,
            timing_only=asked.timing_only,
            seed=asked.seed,
            decisions=decisions(asked.decide),
            progress=progress,
        )
    result = replace(result, wall_s=replace(result.wall_s, **wall))
    from npusim.reports.run import pieces, result_json

    console().print(pieces.summary(result))
    targets: dict[Path, Writer] = {}
    if asked.json:
        targets[asked.json] = files.text(result_json.render(result))
    if asked.output:
        from npusim.base import npz

        if asked.timing_only or not result.outputs:
            raise NpusimError(
                f"{asked.output}: {executable.name}: no data was executed, there are no outputs"
            )
        targets[asked.output] = lambda file: npz.write(file, result.outputs)
    files.write_all(targets)


def decisions(texts: Sequence[str]) -> dict[str, int]:
    """The decisions of texts such as "net/loop=10". Raises NpusimError for one that is not such a text."""
    found = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not name or not number.isascii() or not number.isdigit():
            raise NpusimError(f"{OPTION} {text}: may be NAME=N, such as model/loop=10")
        if name in found:
            raise NpusimError(f"{OPTION} {text}: {name} is decided twice")
        found[name] = int(number)
    return found
