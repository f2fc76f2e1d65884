"""Quantize a float network, a file or a graph, and measure what that costs in accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from npusim.base import files
from npusim.frontends.targets import target_of
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.tensor import Array, Placement, TensorType
from npusim.kernels.graph.bind import Sizes
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.reference import evaluate
from npusim.kernels.operator.element_types import dequantize_values
from npusim.quantization import dynamic
from npusim.quantization import samples as sampling
from npusim.quantization.conversion import Options, quantized
from npusim.quantization.loss import losses
from npusim.quantization.preparation import prepared
from npusim.quantization.ranges import measured
from npusim.quantization.result import Progress, Quantized
from npusim.quantization.rules import INT8, INT16
from npusim.quantization.scales import codes
from npusim.session.api import load
from npusim.session.host import one_blas_thread

Form = Literal["qdq", "qoperator"]
FORMS: tuple[Form, ...] = get_args(Form)

Scheme = Literal["int8", "int16x8", "dynamic"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)
ACTIVATIONS = {"int8": INT8, "int16x8": INT16}
"""Quantization of activations, by the schemes that need samples."""

ONNX_SUFFIX = ".onnx"


def quantize(
    model: str | Path | Graph,
    data: sampling.Data | None = None,
    output: str | Path | None = None,
    *,
    sizes: Sizes | None = None,
    codes_outside: bool = False,
    every_channel: bool = False,
    form: Form = "qdq",
    scheme: Scheme = "int8",
    progress: Progress | None = None,
) -> Quantized:
    """Quantize a float network to int8 after training: static, weights by channel, ranges from the samples' extremes.

    With the scheme "int16x8" activations become int16 beside int8 weights and int64 biases. With the scheme "dynamic"
    only weights become int8, and activations are quantized at run time (dynamic range quantization of TFLite).

    model:         a model file, a built-in model, or a Graph, of float32.
    data:          an npz file with samples of every input by its name, or a mapping of arrays; the first axis counts
                   the samples. With the scheme "dynamic" they only measure the error, and may be left out.
    output:        the file to write, in the format that its suffix names; None: none is written.
    sizes:         values of open sizes of the model, as for `npusim.load`.
    codes_outside: inputs and outputs become int8 or int16; they stay float32 otherwise.
    every_channel: fully connected layers have a scale per unit too.
    scheme:        "int8" for weights and activations, "int16x8" for int16 activations, "dynamic" for weights only.
    form:          format of an ONNX file that ONNX Runtime's quantizer makes from an ONNX file: "qdq", "qoperator".
    progress:      called with (steps done, all).

    Raises NpusimError for a model that is unreadable, is quantized, has IF or WHILE, or keeps states;
    for samples that do not fit; for a format that cannot express the
    result; and where what reads or quantizes ONNX is not installed.
    """
    if form not in FORMS:
        raise NpusimError(f"form {form!r}: may be {', '.join(FORMS)}")
    if scheme not in SCHEMES:
        raise NpusimError(f"scheme {scheme!r}: may be {', '.join(SCHEMES)}")
    if scheme == "dynamic" and codes_outside:
        raise NpusimError("codes_outside: is not for the scheme dynamic, whose activations are float32")
    if data is None and scheme != "dynamic":
        raise NpusimError(
            f"data: the scheme {scheme} needs samples, an npz file or arrays by input; dynamic needs none"
        )
    target = None if output is None else Path(output)
    if scheme == "dynamic" and target is not None and _is_onnx(target):
        raise NpusimError(f"{target}: ONNX has no dynamic range operators; name a .tflite file")
    if target is not None and not isinstance(model, Graph) and _is_onnx(model) and _is_onnx(target):
        if codes_outside or every_channel:
            option = "codes_outside" if codes_outside else "every_channel"
            raise NpusimError(f"{option}: is not for ONNX files, which ONNX Runtime quantizes")
        assert data is not None
        from npusim.quantization.onnx import quantized_file

        return quantized_file(Path(model), data, target, form, sizes, progress, scheme)
    if form != FORMS[0]:
        raise NpusimError(f"form {form}: is of ONNX files that become ONNX files")
    graph = model if isinstance(model, Graph) else load(model, sizes)
    try:
        options = Options(codes_outside, every_channel, ACTIVATIONS.get(scheme, INT8))
        result = _of_graph(graph, data, options, scheme, progress)
        if target is None:
            return result
        written = target_of("", target)
        assert result.graph is not None
        content = written.written(result.graph, target.name)
    except NpusimError as fault:
        raise fault if isinstance(model, Graph) else type(fault)(f"{model}: {fault}") from None
    files.write(target, lambda file: file.write(content))
    return replace(result, form=written.title, file_bytes=len(content))


def _is_onnx(path: str | Path) -> bool:
    return Path(path).suffix.lower() == ONNX_SUFFIX


def _of_graph(
    graph: Graph, data: sampling.Data | None, options: Options, scheme: Scheme, progress: Progress | None
) -> Quantized:
    floats = prepared(graph)
    drawn = [] if data is None else sampling.read(data, placements(graph))
    done = _Steps(progress, 2 * len(drawn))
    with one_blas_thread(False):
        ranges, wanted = measured(floats, drawn, done)
        if scheme == "dynamic":
            result, kept = dynamic.quantized(floats, options.every_channel)
        else:
            result, kept = quantized(floats, ranges, options)
        computed = []
        for sample in drawn:
            computed.append(_in_floats(result, sample))
            done()
    names = [graph.tensors[number].name for number in graph.outputs]
    return Quantized(
        model=graph.name,
        form="",
        samples=len(drawn),
        layers=len(floats.nodes),
        in_floats=kept,
        losses=losses(names, wanted, computed) if drawn else (),
        constant_bytes=(_constant_bytes(graph), _constant_bytes(result)),
        graph=result,
    )


class _Steps:
    """Counts steps and calls the progress function."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def __call__(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)


def placements(graph: Graph) -> list[Placement]:
    """Return the inputs of a graph by name and type; addresses are the numbers of tensors."""
    return [
        Placement(graph.tensors[number].name, graph.tensors[number].type, number) for number in graph.inputs
    ]


def _in_floats(graph: Graph, sample: Sequence[Array]) -> list[Array]:
    """Return the outputs of a quantized graph for a float sample, as floats."""
    kinds = [graph.tensors[number].type for number in graph.inputs]
    inputs = [_coded(value, kind) for value, kind in zip(sample, kinds, strict=True)]
    values = evaluate(graph, inputs)
    return [dequantize_values(values[number], graph.tensors[number].type) for number in graph.outputs]


def _coded(value: Array, kind: TensorType) -> Array:
    scheme = kind.quantization
    return value if scheme is None or value.dtype.kind != "f" else codes(value, scheme, kind.dtype)


def _constant_bytes(graph: Graph) -> int:
    read = {number for node in graph.nodes for number in node.inputs if number is not None}
    return sum(graph.tensors[number].type.size_bytes for number in read if graph.tensors[number].constant)
