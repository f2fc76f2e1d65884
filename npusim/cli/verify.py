"""The command that compares npusim with another runtime, such as LiteRT: `npusim verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.base.console import say
from npusim.cli.base import EXIT_OUR_FAULT, Progress
from npusim.cli.options import hardware_inputs, sizes_of
from npusim.cli.typer_options import HardwareOption, ShapeOption
from npusim.isa.base.errors import NpusimError

if TYPE_CHECKING:
    from npusim.verification.verdicts import Difference, TensorVerdict, Verdict, Verification

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
        str,
        typer.Argument(
            metavar="MODEL", help="A model file: .tflite, .onnx, NNEF; or a built-in model (npusim models)."
        ),
    ],
    hw: HardwareOption = None,
    input: Annotated[
        Path | None,
        typer.Option("--input", metavar="F.npz", help="Inputs, by tensor name or as in0, in1, ..."),
    ] = None,
    inputs: Annotated[
        int, typer.Option("--inputs", metavar="N", min=1, help="On how many sets of random inputs.")
    ] = 1,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of the first set.")] = 0,
    shape: ShapeOption = None,
    json: Annotated[Path | None, typer.Option("--json", metavar="F", help="Write every tensor.")] = None,
) -> None:
    """Compare npusim with who else computes the model, layer by layer, and say where the first byte differs.

    That is LiteRT (pip install ai-edge-litert==2.3.0) with its reference kernels for TFLite, ONNX Runtime (pip install
    onnx onnxruntime) for ONNX, and the Khronos runtime (pip install nnef) for NNEF.
    """
    from npusim.base import files
    from npusim.frontends.frontend import model_file
    from npusim.verification import verification as verifying

    files.check_outputs(
        {"--json": json}, {"MODEL": model_file(model), "--input": input, **hardware_inputs(hw)}
    )
    if input and inputs > 1:
        raise NpusimError(f"--inputs {inputs}: draws inputs at random; --input gives one set")
    with Progress(f"verifying {model}") as progress:
        result = verifying.verify(
            model, hw, input, samples=inputs, seed=seed, sizes=sizes_of(shape), progress=progress
        )
    try:
        for line in lines(result):
            say(line)
    finally:
        if json:
            from npusim.isa.base.plain_values import to_json

            files.write(json, files.text(to_json(result.to_dict()) + "\n"))
    if not result.equal:
        raise typer.Exit(EXIT_OUR_FAULT)


def lines(result: Verification) -> list[str]:
    """Return the summary of a verification as lines of text."""
    from npusim.reports.words import quantities as show
    from npusim.verification.verdicts import VERDICTS

    head = (
        f"{show.printable(result.model)} on {show.printable(result.hardware)} and in {result.other} {result.version} "
        f"({result.kernels}), {show.plural(result.samples, 'set')} of inputs"
    )
    words = {
        "close": f"close (floats, within {result.close:.0e} of the largest)".replace("e-0", "e-"),
        "rounded": f"rounded ({_rounded(result)})",
        "saturated": f"saturated ({result.other} saturates {_sums(result, 'saturated')} on this processor (no VNNI); "
        "npusim has the exact value)",
        "follows": "different only because what goes in is",
        "not kept": f"not kept by {result.other}",
    }
    counts = [
        f"{result.count(verdict)} {words.get(verdict, verdict)}"
        for verdict in VERDICTS
        if result.count(verdict)
    ]
    body = [
        f"  layers   {show.plural(len(result.tensors), 'tensor')}: {', '.join(counts)}; "
        f"{show.plural(result.compared_bytes, 'byte')} compared with {result.other}",
        f"  machine  {show.plural(result.outputs, 'output')}: {show.plural(result.output_bytes, 'byte')} compared "
        "with the layers",
    ]
    if result.first is None:
        but = f", except for the sums that {result.other} saturates" if result.count("saturated") else ""
        return [head, *body, f"equal{but}"]
    worst = [row for row in result.tensors if row.verdict == "different"]
    rows = [
        f'  different: layer "{show.printable(row.layer)}" ({row.op}), tensor "{show.printable(row.tensor)}"'
        f"{_off(row, result.other)}"
        for row in worst[:MOST_ROWS]
    ]
    if len(worst) > MOST_ROWS:
        rows.append(f"  and {len(worst) - MOST_ROWS} more")
    return [head, *body, *rows, _first(result.first, result.other)]


def _rounded(result: Verification) -> str:
    """Describe which runtime rounds which sums; if exact values are not known, only that they differ."""
    from npusim.reports.words import quantities as show

    rows = [row for row in result.tensors if row.verdict == "rounded"]
    if all(row.off for row in rows):
        return f"{result.other} rounds {_sums(result, 'rounded')} the other way; npusim has the exact value"
    codes = show.plural(sum(row.differing for row in rows), "code")
    return f"{codes} one apart, where {result.other} adds up in float32"


def _sums(result: Verification, verdict: Verdict) -> str:
    """Return the number of differing elements with a verdict, and the number of all."""
    from npusim.reports.words import quantities as show

    rows = [row for row in result.tensors if row.verdict == verdict]
    differing, elements = sum(row.differing for row in rows), sum(row.elements for row in rows)
    return f"{show.whole(differing)} of {show.whole(elements)} sums"


def _off(row: TensorVerdict, other: str) -> str:
    """Return which side is off from the exact value, for a tensor that differs."""
    if row.off is None:
        return ""
    off, right = ("npusim", "") if row.off == "npusim" else (other, "; npusim has it")
    return f": {off} is off from the exact value{right}"


def _first(difference: Difference, other: str) -> str:
    from npusim.reports.words import quantities as show

    ours, theirs = ("npusim", other) if difference.place == "layer" else ("the machine", "the reference")
    place = ", ".join(map(str, difference.index))
    return (
        f'first difference: inputs {difference.sample}, layer "{show.printable(difference.layer)}" ({difference.op}), '
        f'tensor "{show.printable(difference.tensor)}" [{place}]: {ours} gives {difference.npusim}, {theirs} '
        f"{difference.other}; {show.whole(difference.differing)} of {show.whole(difference.elements)} elements differ"
    )
