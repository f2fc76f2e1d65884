"""Other programs that compute a model, which npusim is compared with.

LiteRT computes TFLite files and quantized NNEF, ONNX Runtime ONNX files, and the Khronos runtime NNEF in floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from mmap import mmap
from pathlib import Path

from npusim.frontends import frontend
from npusim.frontends.tflite import reader as tflite
from npusim.isa.base import user_file
from npusim.isa.base.errors import FormatError, NpusimError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.bind import Sizes
from npusim.kernels.graph.graph import Graph
from npusim.session.opening import PROGRAM_SUFFIX
from npusim.verification import khronos, onnx_runtime
from npusim.verification import litert as litert_reference
from npusim.verification.exact import Evaluator, ExactValue

CLOSE = 1e-5
"""How far floats may be from the other's, as a share of the largest magnitude in the tensor."""

CLOSE_IN_FLOAT32_SUMS = 1e-4
"""Likewise where the other adds up in float32, one product after the other."""

CLOSE_IN_HALVES = 2e-3
"""Likewise of float16 where the other computes chains of operators in float32: four roundings of 11 bits, of what goes
in and of what comes out, of which npusim has all."""

Named = Mapping[int, Array] | Mapping[str, Array]
"""Values of tensors by their number in the graph, or by their names in the model."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Another program that computes a model.

    name, version: of it. how: the choice of its kernels, in words.
    run:    what each tensor holds after a run on these inputs, as far as it keeps it.
    close:  how far floats may be from its own; halves: how far float16 may be, if further.
    sums_in_floats: names of tensors that it quantizes from float32 sums, so that some values are one step off.
    exact:  the exact value of a tensor, from its values and the names of the operands; None if nobody knows them.
    saturates: whether this processor makes it saturate sums of products of uint8 by int8.
    """

    name: str
    version: str
    how: str
    run: Callable[[Sequence[Array]], Named]
    close: float = CLOSE
    halves: float = 0.0
    sums_in_floats: frozenset[str] = frozenset()
    exact: Callable[[str, Named, frozenset[str]], ExactValue | None] | None = None
    saturates: Callable[[], bool] = bool


@contextmanager
def opened(path: str | Path, sizes: Sizes | None) -> Iterator[tuple[Graph, Peer]]:
    """Open a model file or built-in model: its graph, and the other program that computes it.

    Raises NpusimError for a file that no other program reads, or if the program is not installed.
    """
    with _OPENED[_format(path)](path, sizes) as pair:
        yield pair


def _format(path: str | Path) -> str:
    from npusim import models

    file = Path(path)
    if not file.exists() and str(path) in models.names():
        return "TensorFlow Lite"
    if file.suffix.lower() == PROGRAM_SUFFIX:
        raise NpusimError(f"{path}: is a compiled program; give the model that it was compiled from")
    try:
        name = frontend.front_end_of(file).name
    except NpusimError as fault:
        from npusim.frontends.transformer.published import BLOCK_BY_NAME, BY_NAME

        if str(path) in (*BY_NAME, *BLOCK_BY_NAME):
            raise NpusimError(f"{path}: has no weights, so there are no values to compare") from None
        raise type(fault)(f"{path}: {fault}") from None
    if name not in _OPENED:
        raise FormatError(f"{path}: is a model of {name}; verify takes those of {', '.join(_OPENED)}")
    return name


@contextmanager
def _beside_litert(path: str | Path, sizes: Sizes | None) -> Iterator[tuple[Graph, Peer]]:
    litert_reference.require()
    data, graph = _model(path, sizes)
    with litert_reference.apart(data, len(graph.tensors)) as litert:
        yield graph, Peer("LiteRT", _version("ai-edge-litert"), "BUILTIN_REF", litert.run)


def _model(path: str | Path, sizes: Sizes | None) -> tuple[bytes | mmap, Graph]:
    """Return the bytes of a TFLite model, read once so that both sides have the same, and its graph."""
    from npusim import models

    file = Path(path)
    data: bytes | mmap
    if not file.exists() and str(path) in models.names():
        data = models.path_or_bytes(str(path))
        return data, tflite.parse(data, str(path), sizes)
    data = user_file.mapped(file, user_file.MODEL, FormatError)
    if not tflite.recognises(file, data[:64]):
        raise FormatError(f"{path}: is not a TensorFlow Lite file, which is what LiteRT reads")
    try:
        return data, tflite.parse(data, file.stem, sizes)
    except NpusimError as fault:
        raise type(fault)(f"{path}: {fault}") from fault


@contextmanager
def _beside_onnx_runtime(path: str | Path, sizes: Sizes | None) -> Iterator[tuple[Graph, Peer]]:
    onnx_runtime.require()
    graph = frontend.read(path, sizes)
    session = onnx_runtime.Session(Path(path))
    settings = "graph optimizations disabled"
    yield (
        graph,
        Peer(
            "ONNX Runtime",
            _version("onnxruntime"),
            settings,
            session.run,
            halves=CLOSE_IN_HALVES,
            sums_in_floats=session.quantized,
            exact=Evaluator(Path(path)).value,
            saturates=onnx_runtime.saturates,
        ),
    )


@contextmanager
def _beside_khronos(path: str | Path, sizes: Sizes | None) -> Iterator[tuple[Graph, Peer]]:
    graph = frontend.read(path, sizes)
    if khronos.has_codes(Path(path)):
        with _litert_of(graph) as pair:
            yield pair
        return
    khronos.require()
    with khronos.apart(Path(path)) as runtime:
        yield (
            graph,
            Peer("the Khronos runtime", _version("nnef"), "float32", runtime.run, CLOSE_IN_FLOAT32_SUMS),
        )


@contextmanager
def _litert_of(graph: Graph) -> Iterator[tuple[Graph, Peer]]:
    """Open a quantized document in LiteRT, as the TFLite file that it converts to; its integers are those of TFLite."""
    from npusim.frontends.tflite import export

    litert_reference.require()
    data = export.written(graph)
    converted = tflite.parse(data, graph.name)
    with litert_reference.apart(data, len(converted.tensors)) as litert:
        yield converted, Peer("LiteRT", _version("ai-edge-litert"), "BUILTIN_REF", litert.run)


_OPENED = {"TensorFlow Lite": _beside_litert, "ONNX": _beside_onnx_runtime, "NNEF": _beside_khronos}
"""By the name of the front end."""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
