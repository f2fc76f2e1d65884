"""The command that quantizes float networks: `npusim quantize`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.base.console import say
from npusim.cli.base import Progress
from npusim.cli.options import sizes_of
from npusim.cli.typer_options import ShapeOption
from npusim.isa.base.errors import NpusimError

if TYPE_CHECKING:
    from npusim.quantization.loss import Loss
    from npusim.quantization.result import Quantized

MOST_LAYERS = 6
OUTSIDE = ("float", "int8", "int16")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("quantize")(quantize)


def quantize(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file of float32.")],
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="F.npz",
            help="Samples of every input by its name (or in0, in1, ...); the first axis counts the samples. The scheme "
            "dynamic needs none.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="The file to write, in the format that its suffix names. [default: the model's name with the scheme, "
            "as ONNX of an ONNX file unless the scheme is dynamic, else as .tflite]",
            show_default=False,
        ),
    ] = None,
    scheme: Annotated[
        str,
        typer.Option(
            "--scheme",
            metavar="int8|int16x8|dynamic",
            help="int8 weights with int8 activations, with int16 activations (TFLite's 16x8), or with float32 "
            "activations (TFLite's dynamic range).",
        ),
    ] = "int8",
    outside: Annotated[
        str,
        typer.Option("--io", metavar="float|int8|int16", help="What inputs and outputs become."),
    ] = "float",
    every_channel: Annotated[
        bool,
        typer.Option("--per-channel", help="Give fully connected layers a scale per unit too."),
    ] = False,
    form: Annotated[
        str,
        typer.Option("--form", metavar="qdq|qoperator", help="Of an ONNX file that becomes one."),
    ] = "qdq",
    shape: ShapeOption = None,
    json: Annotated[Path | None, typer.Option("--json", metavar="F", help="Write every number.")] = None,
) -> None:
    """Quantize a float network after training, and say what accuracy that costs on the samples.

    Static, weights by channel, ranges from the smallest and largest values that the samples give; or dynamic: float32
    activations, which the operators quantize at run time.
    """
    from npusim.base import files
    from npusim.quantization import quantization

    for option, value, known in (
        ("--io", outside, OUTSIDE),
        ("--form", form, quantization.FORMS),
        ("--scheme", scheme, quantization.SCHEMES),
    ):
        if value not in known:
            raise NpusimError(f"{option} {value}: may be {', '.join(known)}")
    if data is None and scheme != "dynamic":
        raise NpusimError(
            f"--data: --scheme {scheme} needs samples, --data F.npz; --scheme dynamic needs none"
        )
    activations = quantization.ACTIVATIONS.get(scheme)
    dtype = activations.dtype if activations else "float32"
    if outside not in ("float", dtype):
        raise NpusimError(f"--io {outside}: is not for --scheme {scheme}, whose activations are {dtype}")
    output = output or _beside(Path(model), scheme)
    files.check_outputs(
        {"-o": output, "--json": json}, {"MODEL": Path(model)} | ({"--data": data} if data else {})
    )
    with Progress(f"quantizing {model}") as progress:
        result = quantization.quantize(
            model,
            data,
            output,
            sizes=sizes_of(shape),
            codes_outside=outside != "float",
            every_channel=every_channel,
            form=form,  # type: ignore[arg-type]
            scheme=scheme,  # type: ignore[arg-type]
            progress=progress,
        )
    try:
        open_sizes = shape or () if result.graph is None else ()
        *report, following = lines(result, output, open_sizes, scheme)
        conversion = (
            "" if outside != "float" or scheme == "dynamic" else _conversion(output, open_sizes, scheme)
        )
        for line in (*report, *([conversion] if conversion else []), following):
            say(line)
    finally:
        if json:
            from npusim.isa.base.plain_values import to_json

            files.write(json, files.text(to_json(result.to_dict()) + "\n"))


def _beside(model: Path, scheme: str) -> Path:
    """Return the default output file, which is in the current folder."""
    suffix = ".onnx" if model.suffix.lower() == ".onnx" and scheme != "dynamic" else ".tflite"
    return Path(f"{model.name.partition('.')[0]}_{scheme}{suffix}")


def lines(result: Quantized, output: Path, shapes: Sequence[str], scheme: str = "int8") -> Iterator[str]:
    """Return the summary of a quantized network as lines of text.

    shapes: given sizes that the written file leaves open.
    """
    from shlex import quote

    from npusim.reports.words import quantities as show

    before, after = result.constant_bytes
    in_codes = result.layers - len(result.in_floats)
    file = show.printable(str(output))
    verb, computing = {
        "int8": ("in int8", "compute in int8"),
        "int16x8": ("with int16 activations and int8 weights", "compute in int16"),
        "dynamic": ("with int8 weights", "have int8 weights"),
    }[scheme]
    yield f"{file}: {show.printable(result.model)} {verb} as {result.form}, {show.size(result.file_bytes or 0)}"
    yield f"  constants  {show.size(before)} in floats, {show.size(after)} now"
    yield f"  layers     {in_codes} of {result.layers} {computing}"
    in_floats = sorted(result.in_floats, key=lambda layer: (layer.reason, layer.op))
    for (reason, op), group in groupby(in_floats, key=lambda layer: (layer.reason, layer.op)):
        names = [f'"{show.printable(layer.layer)}"' for layer in group]
        more = f" and {len(names) - MOST_LAYERS} more" if len(names) > MOST_LAYERS else ""
        yield f"  in floats  {op} {', '.join(names[:MOST_LAYERS])}{more}: {show.printable(reason)}"
    for loss in result.losses:
        yield f'  output     "{show.printable(loss.output)}": {_loss(loss, result.samples)}'
    options = "".join(f" --shape {quote(show.printable(shape))}" for shape in shapes)
    yield f"next: npusim run {quote(file)}{options}"


def _conversion(output: Path, shapes: Sequence[str], scheme: str) -> str:
    """Return how long a run converts float inputs and outputs, in words.

    It is empty if nothing is converted, or if the file cannot be run.
    """
    from npusim.reports.words import quantities as show
    from npusim.session import api

    try:
        graph = api.load(output, sizes_of(shapes))
        run = api.simulate(api.compile_program(graph), timing_only=True)
    except NpusimError:  # npusim run reports the fault
        return ""
    ends = {*graph.inputs, *graph.outputs}
    names = {
        node.name
        for node in graph.nodes
        if node.op in ("quantize", "dequantize") and not ends.isdisjoint((*node.inputs, *node.outputs))
    }
    taken_ms = sum(layer.time_us for layer in run.layers if layer.name in names) / 1000
    if not taken_ms:
        return ""
    return (
        f"  outside    float32 inputs and outputs: converting them takes {show.time(taken_ms)} of the "
        f"{show.time(run.latency_ms)} of a run on {api.DEFAULT_HARDWARE} ({show.percent(taken_ms / run.latency_ms)}); "
        f"--io {scheme.removesuffix('x8')} leaves it out"
    )


def _loss(loss: Loss, samples: int) -> str:
    """Return the error of an output against the float network, in words."""
    from npusim.reports.words import quantities as show

    words = [
        f"off by {loss.largest:.4g} at most, {loss.mean:.4g} on average, of a range of {loss.range:.4g}",
        "no noise" if isinf(loss.snr_db) else f"{loss.snr_db:.1f} dB signal to noise",
        f"cosine {loss.cosine:.6f}",
    ]
    if loss.top_1 is not None:
        words.append(f"the same first class in {show.percent(loss.top_1)}")
    return f"{', '.join(words)} of {show.plural(samples, 'sample')}"
