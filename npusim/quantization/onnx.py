"""Quantize ONNX files with ONNX Runtime's quantizer, and compare the result with the float network."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from npusim.base import extras, files
from npusim.isa.base import user_file
from npusim.isa.base.elements import names as element_names
from npusim.isa.base.errors import FormatError, NpusimError, one_line
from npusim.isa.base.tensor import Array, Placement, TensorType
from npusim.kernels.graph.bind import Sizes
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import UNKNOWN
from npusim.quantization import samples as sampling
from npusim.quantization.conversion import InFloats
from npusim.quantization.loss import losses
from npusim.quantization.result import Progress, Quantized

_QUANTIZING = ("QuantizeLinear", "DequantizeLinear")
_IN_CODES = ("QLinear", "QGemm", "ConvInteger", "MatMulInteger")
"""Prefixes of the names of operations on quantized values."""
_ELEMENTS = {"float": "float32", "double": "float64"}


def quantized_file(
    path: Path,
    data: sampling.Data,
    target: Path,
    form: str,
    sizes: Sizes | None,
    progress: Progress | None,
    scheme: str = "int8",
) -> Quantized:
    """Write a float ONNX file quantized: static, weights by channel, activations and weights signed.

    form: "qdq", or "qoperator". scheme: "int8", or "int16x8" for int16 activations, which QDQ has only.

    Raises NpusimError where ONNX Runtime is not installed, or refuses the model.
    """
    if scheme != "int8" and form != "qdq":
        raise NpusimError(
            f"form {form}: ONNX has no QOperator with int16 values; --scheme {scheme} takes qdq"
        )
    for package in ("onnx", "onnxruntime"):
        if find_spec(package) is None:
            raise extras.missing("quantizing an ONNX file", "onnx")
    with user_file.opened(path, user_file.MODEL, FormatError):
        pass
    with TemporaryDirectory(prefix="npusim-quantize-") as name, _quietly():
        floats = _session(path)
        drawn = sampling.read(data, _placements(path, floats, sizes))
        keys = [value.name for value in floats.get_inputs()]
        feeds = [dict(zip(keys, sample, strict=True)) for sample in drawn]
        quantized = _quantized(path, Path(name), form, feeds, scheme)
        codes, outputs = _session(quantized), [value.name for value in floats.get_outputs()]
        results: list[list[Array]] = []
        wanted: list[list[Array]] = []
        for done, feed in enumerate(feeds, 1):
            wanted.append(floats.run(None, feed))
            results.append(codes.run(None, feed))
            if progress is not None:
                progress(done, len(feeds))
        before, after = _network(path), _network(quantized)
        content = user_file.contents(quantized, user_file.MODEL, FormatError)
    files.write(target, lambda file: file.write(content))
    nodes = [node for node in after.graph.node if node.op_type not in _QUANTIZING]
    return Quantized(
        model=path.stem,
        form=f"ONNX ({'QDQ' if form == 'qdq' else 'QOperator'})",
        samples=len(drawn),
        layers=len(nodes),
        in_floats=tuple(_in_floats(after, form)),
        losses=losses(outputs, wanted, results),
        constant_bytes=(_constant_bytes(before), _constant_bytes(after)),
        file_bytes=len(content),
    )


def _quantized(
    path: Path, folder: Path, form: str, feeds: Sequence[Mapping[str, Array]], scheme: str
) -> Path:
    """Return the file that ONNX Runtime's quantizer writes. Raises NpusimError if it refuses the model."""
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._feeds = iter(feeds)

        def get_next(self) -> Mapping[str, Array] | None:
            return next(self._feeds, None)

    ready, target = folder / "ready.onnx", folder / "made.onnx"
    try:
        quantization.shape_inference.quant_pre_process(str(path), str(ready), skip_symbolic_shape=True)
        quantization.quantize_static(
            str(ready),
            str(target),
            Reader(),
            quant_format=quantization.QuantFormat.QDQ
            if form == "qdq"
            else quantization.QuantFormat.QOperator,
            per_channel=True,
            activation_type=quantization.QuantType.QInt8
            if scheme == "int8"
            else quantization.QuantType.QInt16,
            weight_type=quantization.QuantType.QInt8,
            calibrate_method=quantization.CalibrationMethod.MinMax,
            extra_options={} if scheme == "int8" else {"ActivationSymmetric": True},
        )
    except Exception as fault:  # ONNX Runtime's quantizer has no exception class of its own
        raise NpusimError(f"{path}: ONNX Runtime does not quantize it: {one_line(fault)}") from None
    return target


def _session(path: Path) -> Any:
    """Open a file in ONNX Runtime without graph optimizations, so that its operations are computed as they are."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as fault:  # ONNX Runtime raises exceptions of many classes
        raise NpusimError(f"{path}: ONNX Runtime refuses the model: {one_line(fault)}") from None


def _placements(path: Path, session: Any, sizes: Sizes | None) -> list[Placement]:
    """Return the inputs with all sizes. Raises NpusimError for a size that is not given."""
    builder = GraphBuilder(path.stem, sizes)
    placements = []
    try:
        for given in session.get_inputs():
            word = given.type.removeprefix("tensor(").removesuffix(")")
            dtype = _ELEMENTS.get(word, word)
            if dtype not in element_names():
                raise NpusimError(f'input "{given.name}" holds {given.type}, which npusim lacks')
            shape = tuple(size if isinstance(size, int) else UNKNOWN for size in given.shape)
            names = [size or "" for size in given.shape if not isinstance(size, int)]
            number = builder.input(given.name, TensorType(dtype, shape), names)
            placements.append(Placement(given.name, builder.type(number), number))
        builder.check_sizes()
    except NpusimError as fault:
        raise type(fault)(f"{path}: {fault}") from None
    return placements


def _in_floats(model: Any, form: str) -> Iterator[InFloats]:
    """Yield the nodes that compute in floats."""
    writer = {output: node.op_type for node in model.graph.node for output in node.output}
    readers: dict[str, list[str]] = {}
    for node in model.graph.node:
        for operand in node.input:
            readers.setdefault(operand, []).append(node.op_type)
    for node in model.graph.node:
        if node.op_type in _QUANTIZING or node.op_type.startswith(_IN_CODES):
            continue
        sources = {writer.get(operand, "") for operand in node.input}
        results = {reader for output in node.output for reader in readers.get(output, [])}
        if form == "qdq":
            grouped = "DequantizeLinear" in sources and results == {"QuantizeLinear"}
        else:  # operations that only move data accept quantized values unchanged
            grouped = "DequantizeLinear" not in sources and "QuantizeLinear" not in results
        if not grouped:
            yield InFloats(node.name or node.output[0], node.op_type, "ONNX Runtime's quantizer leaves it")


def _network(path: Path) -> Any:
    import onnx

    return onnx.load(str(path))


def _constant_bytes(model: Any) -> int:
    from onnx import numpy_helper

    return sum(int(np.asarray(numpy_helper.to_array(tensor)).nbytes) for tensor in model.graph.initializer)


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence the log messages of the quantizer, which are for its developers."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
