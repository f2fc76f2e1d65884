"""The table of front ends: one package and one row per model format.

A front end turns what it reads into calls of a builder (`npusim.kernels.graph.builder`), which names layers and infers
shapes. Checks, the layout of images and the sizes that a user gives are applied afterwards, for all formats alike.
"""

from __future__ import annotations

import os
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from npusim.isa.base import user_file
from npusim.isa.base.errors import FormatError, NpusimError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import SIZE_ONLY
from npusim.kernels.graph.bind import Offered, Sizes
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.check import check
from npusim.kernels.graph.graph import NCHW, NHWC, Graph, Layout
from npusim.kernels.operator.registered import any_registered

if TYPE_CHECKING:
    from npusim.frontends.transformer.sizes import TransformerConfig

HEAD_BYTES = 64
"""Number of bytes at the start of a file by which front ends recognise their format."""

BY_SIZE = "size"
"""The suffix of a model name for a graph without the data of its weights, as in "llama3_8b:size": it can be timed."""

_MOST_READ, _MOST_READ_BYTES = 4, 1 << 24
"""Graphs of files that are remembered, and the most bytes of such a file. Many programs run one model many times."""

MOST_NOTES_PRINTED = 8
"""Notes of one model that are printed; the result of a run has all of them."""


class ModelWarning(UserWarning):
    """A note of a model's reader to the user."""


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """A model file format: its name, suffixes, the module that reads it, how it stores images and filters, its limit.

    The module is imported when a file is opened. It has the two functions that are properties here.

    alone: True if a graph follows from the bytes of one file, and from no other file.
    """

    name: str
    suffixes: tuple[str, ...]
    module: str
    layout: Layout = NHWC
    kind: user_file.Kind = user_file.MODEL
    alone: bool = False

    @property
    def recognises(self) -> Callable[[Path, bytes], bool]:
        """The function (path, first bytes of the file, empty for a folder) -> True if it is surely of this format."""
        recognises: Callable[[Path, bytes], bool] = import_module(self.module).recognises
        return recognises

    @property
    def read(self) -> Callable[[Path, GraphBuilder], Graph]:
        """The function (path, empty builder) -> graph, whose check as a whole comes afterwards.

        It raises FormatError or GraphError with a text that does not repeat the path.
        """
        read: Callable[[Path, GraphBuilder], Graph] = import_module(self.module).read
        return read


FRONT_ENDS: tuple[FrontEnd, ...] = (
    FrontEnd("TensorFlow Lite", (".tflite", ".lite"), "npusim.frontends.tflite.reader", alone=True),
    FrontEnd("NN HAL", (".hal",), "npusim.frontends.nn_hal.reader"),
    FrontEnd("NNEF", (".nnef", ".tgz", ".tar.gz", ".tar"), "npusim.frontends.nnef.nnef_reader", NCHW),
    FrontEnd("ONNX", (".onnx",), "npusim.frontends.onnx.onnx_reader", NCHW),
    FrontEnd("Paddle", (".pdmodel",), "npusim.frontends.paddle.paddle_reader", NCHW),
    FrontEnd("Hugging Face configuration", (".json",), "npusim.frontends.transformer.network"),
    FrontEnd("GGUF", (".gguf",), "npusim.frontends.transformer.gguf", kind=user_file.GGUF),
)


def read(path: str | Path, sizes: Sizes | None = None, offered: Offered | None = None) -> Graph:
    """Read a model file into a graph; its content tells the format or, failing that, its suffix.

    `sizes` settle the input sizes that the file leaves open, as for `npusim.kernels.graph.bind.bind`; `offered` settles
    those that `sizes` do not give. A first axis that is still open becomes 1, with a note.

    Raises FormatError for a file that is missing, damaged or of no known format, GraphError for a model whose parts do
    not fit together; both messages begin with the path. Each note of the reader is a ModelWarning.
    """
    path = Path(path)
    key = None if sizes else _key(path, {} if offered is None else offered.shapes)
    graph = _READ.pop(key, None)
    if graph is None:

        def made() -> tuple[Graph, GraphBuilder]:
            nonlocal key
            front_end = front_end_of(path)
            builder = builder_for(path.stem, front_end.layout, sizes)
            builder.offered = offered or builder.offered
            made = front_end.read(path, builder), builder
            if builder.offered.taken or not front_end.alone:
                key = None
            return made

        graph = _checked(str(path), made)
    if key is not None:
        _READ[key] = graph
        if len(_READ) > _MOST_READ:
            _READ.popitem(last=False)
    _print_notes(str(path), graph.notes)
    return graph


_READ: OrderedDict[Hashable, Graph] = OrderedDict()
"""Graphs of files that have not changed since, the last ones used at the end."""


def _key(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> Hashable:
    """Return a key under which the graph of a file can be remembered; None if the graph may follow from more than that.

    The file must not have changed just now, and no operators of the user's may be registered.
    """
    identity = user_file.unchanged(path)
    if identity is None or identity.size_bytes > _MOST_READ_BYTES or any_registered():
        return None
    return str(path), identity, *sorted(shapes.items())


def read_config(config: TransformerConfig, sizes: Sizes | None = None) -> Graph:
    """Return the network of a transformer for `sizes`, with the errors and notes of `read`."""
    from npusim.frontends.transformer.network import of_sizes

    return built(config.name, lambda builder: of_sizes(config, builder), sizes)


def built(name: str, build: Callable[[GraphBuilder], Graph], sizes: Sizes | None = None) -> Graph:
    """Return the network that a function adds to an empty builder, with the errors and notes of `read`."""

    def made() -> tuple[Graph, GraphBuilder]:
        builder = GraphBuilder(name, sizes)
        return build(builder), builder

    graph = _checked(name, made)
    _print_notes(name, graph.notes)
    return graph


def name_and_format(model: str | Path) -> tuple[str, str]:
    """Split "llama3_8b:int4-32" into the name or file of a model and the format of its weights, "" if none follows."""
    name, colon, form = str(model).rpartition(":")
    return (name, form) if colon and not Path(model).exists() else (str(model), "")


def without_data(graph: Graph) -> Graph:
    """Return a graph without the data of its floating-point, quantized and packed constants, which can be timed.

    Integers such as indices and shapes keep their values, because the compiler needs them.
    """
    packed = {number for node in graph.nodes if node.op == "block_product" for number in node.inputs}
    tensors = [
        replace(tensor, data=SIZE_ONLY)
        if tensor.constant and (tensor.type.real or tensor.type.quantization or number in packed)
        else tensor
        for number, tensor in enumerate(graph.tensors)
    ]
    return replace(graph, tensors=tuple(tensors))


def model_file(model: str | Path) -> Path:
    """Return the path of a model's file, without a format of weights that follows it."""
    return Path(name_and_format(model)[0])


def _checked(name: str, make: Callable[[], tuple[Graph, GraphBuilder]]) -> Graph:
    """Return a graph after its check, with the name in front of faults."""
    try:
        unchecked, builder = make()
        graph = check(unchecked)
        builder.check_sizes()
    except OSError as fault:
        raise FormatError(f"{name}: cannot be read: {fault.strerror or fault}") from fault
    except NpusimError as fault:
        raise type(fault)(f"{name}: {fault}") from fault
    return graph


def builder_for(name: str, layout: Layout = NHWC, sizes: Sizes | None = None) -> GraphBuilder:
    """Return a builder for a front end with this layout. NHWC, which operators take, needs no conversions."""
    if layout == NHWC:
        return GraphBuilder(name, sizes)
    from npusim.kernels.graph.layout import LayoutBuilder

    return LayoutBuilder(name, layout, sizes)


def is_model(path: Path) -> bool:
    """True for a file or folder that a front end recognises by its content."""
    try:
        front_end_of(path)
    except FormatError:
        return False
    return True


SUFFIXES = tuple(suffix for front_end in FRONT_ENDS for suffix in front_end.suffixes)
"""The file suffixes of all model formats."""


def models_below(folder: Path) -> list[Path]:
    """Return the model files below a folder by their suffixes, and the folders that are models, sorted by path."""
    from npusim.frontends.transformer.config import is_config  # few commands read folders

    models = []
    for place, inside, files in os.walk(folder):
        if Path(place) != folder and is_model(Path(place)):
            inside.clear()
            models.append(Path(place))
            continue
        inside[:] = [name for name in inside if not name.startswith(".")]
        models += [
            Path(place, name)
            for name in files
            if name.lower().endswith(SUFFIXES)
            and name[0] != "."
            # Most files with the suffix .json are no models.
            and (not name.lower().endswith(".json") or is_config(Path(place, name)))
        ]
    return sorted(models)


def _print_notes(name: str, notes: Sequence[str]) -> None:
    """Issue each note of a reader as a warning, once for each line of a file."""
    more = len(notes) - MOST_NOTES_PRINTED
    lines = list(notes[:MOST_NOTES_PRINTED]) if more > 1 else list(notes)
    if more > 1:
        lines.append(f"and {more} more notes; --json and result.notes have all of them")
    for note in lines:
        warnings.warn(ModelWarning(f"{name}: {note}"), stacklevel=3)


def front_end_of(path: Path) -> FrontEnd:
    """Return the front end of a file, by content or else suffix. Raises FormatError without the path."""
    if not path.exists():
        raise FormatError("no such file")
    head = b""
    by_suffix = [front_end for front_end in FRONT_ENDS if path.suffix.lower() in front_end.suffixes]
    if not path.is_dir():
        kind = by_suffix[0].kind if by_suffix else user_file.MODEL
        with user_file.opened(path, kind, FormatError, "") as file:
            head = file.read(HEAD_BYTES)
    for front_end in dict.fromkeys((*by_suffix, *FRONT_ENDS)):  # the suffix's front end is asked first
        if front_end.recognises(path, head):
            return front_end
    if path.is_dir():
        raise FormatError("is a folder, not a model; npusim run FOLDER tries every model below it")
    if not head:
        raise FormatError("is empty")
    if by_suffix:
        return by_suffix[0]
    known = ", ".join(f"{front_end.name} ({', '.join(front_end.suffixes)})" for front_end in FRONT_ENDS)
    raise FormatError(f"neither content nor suffix {path.suffix!r} is of a known model format: {known}")
