"""The command that compares npusim with LiteRT: `npusim verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.base.console import say
from npusim.cli.base import EXIT_OUR_FAULT, HardwareOption, Progress, ShapeOption, hardware_inputs, sizes_of

if TYPE_CHECKING:
    from npusim.verification.verification import Difference, Verification

MOST_ROWS = 10


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "verify",
        epilog="Exit status: 0 equal, 1 they differ (a fault of npusim: please report it), "
        "2 a mistake in what was given.",
    )(verify)


def verify(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A .tflite file or a built-in model (npusim models).")
    ],
    hw: HardwareOption = None,
    inputs: Annotated[
        int, typer.Option("--inputs", metavar="N", min=1, help="On how many sets of random inputs.")
    ] = 1,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of the first set.")] = 0,
    shape: ShapeOption = None,
    json: Annotated[Path | None, typer.Option("--json", metavar="F", help="Write every tensor.")] = None,
) -> None:
    """Compare npusim with LiteRT's reference kernels, layer by layer, and say where the first byte differs.

    Needs LiteRT (pip install ai-edge-litert==2.3.0).
    """
    from npusim.base import files
    from npusim.verification import verification as verifying

    files.check_outputs({"--json": json}, {"MODEL": Path(model), **hardware_inputs(hw)})
    with Progress(f"verifying {model}") as progress:
        found = verifying.verify(
            model, hw, samples=inputs, seed=seed, sizes=sizes_of(shape), progress=progress
        )
    try:
        for line in lines(found):
            say(line)
    finally:
        if json:
            from npusim.isa.base.plain_json import to_json

            files.write(json, files.text(to_json(found.to_dict()) + "\n"))
    if not found.equal:
        raise typer.Exit(EXIT_OUR_FAULT)


def lines(found: Verification) -> list[str]:
    """What came of a model, for people."""
    from npusim.reports.words import quantities as show
    from npusim.verification.verification import VERDICTS

    head = (
        f"{show.printable(found.model)} on {show.printable(found.hardware)} and in LiteRT {found.litert} "
        f"(BUILTIN_REF), {show.plural(found.samples, 'set')} of inputs"
    )
    words = {
        "close": "close (floats, within 1e-5 of the largest)",
        "follows": "different only because what goes in is",
        "not kept": "not kept by LiteRT",
    }
    counts = [
        f"{found.count(verdict)} {words.get(verdict, verdict)}"
        for verdict in VERDICTS
        if found.count(verdict)
    ]
    body = [
        f"  layers   {show.plural(len(found.tensors), 'tensor')}: {', '.join(counts)}; "
        f"{show.plural(found.compared_bytes, 'byte')} compared with LiteRT",
        f"  machine  {show.plural(found.outputs, 'output')}: {show.plural(found.output_bytes, 'byte')} compared "
        "with the layers",
    ]
    if found.first is None:
        return [head, *body, "equal"]
    worst = [row for row in found.tensors if row.verdict == "different"]
    rows = [
        f'  different: layer "{show.printable(row.layer)}" ({row.op}), tensor "{show.printable(row.tensor)}"'
        for row in worst[:MOST_ROWS]
    ]
    if len(worst) > MOST_ROWS:
        rows.append(f"  and {len(worst) - MOST_ROWS} more")
    return [head, *body, *rows, _first(found.first)]


def _first(difference: Difference) -> str:
    from npusim.reports.words import quantities as show

    ours, theirs = ("npusim", "LiteRT") if difference.place == "layer" else ("the machine", "the reference")
    place = ", ".join(map(str, difference.index))
    return (
        f'first difference: inputs {difference.sample}, layer "{show.printable(difference.layer)}" ({difference.op}), '
        f'tensor "{show.printable(difference.tensor)}" [{place}]: {ours} gives {difference.npusim}, {theirs} '
        f"{difference.litert}; {show.whole(difference.differing)} of {show.whole(difference.elements)} elements differ"
    )
