"""Models that other doors read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from npusim.frontends.nn_hal import file as hal_file
from npusim.frontends.nn_hal.reader import graph_of
from npusim.frontends.nnadapter.errors import FeatureNotSupported, InvalidParameter
from npusim.isa.base.errors import NpusimError
from npusim.kernels.graph.bind import Sizes, bind
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.check import check
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.unknown import require_known
from npusim.nnadapter.model import Model
from npusim.session.opening import is_program, open_model


def from_file(path: str | Path, sizes: Sizes | None = None) -> Model:
    """The finished model of a file of any format that npusim reads, or of a built-in model by its name.

    sizes: of inputs whose sizes the file leaves open, as for `npusim.kernels.graph.bind.bind`.

    Raises InvalidParameter for a file that is none, FeatureNotSupported for a model that decides (IF, WHILE) or has
    operators that npusim does not have.
    """
    try:
        if is_program(path):
            raise InvalidParameter(f"{path}: is a compiled program, not a model")
        graph = open_model(path)
        assert isinstance(graph, Graph)
    except NpusimError as fault:
        raise InvalidParameter(str(fault)) from None
    return from_graph(graph, sizes)


def from_tflite(path: str | Path, sizes: Sizes | None = None) -> Model:
    """The finished model of a TensorFlow Lite file. Raises as `from_file`."""
    return from_file(path, sizes)


def from_nn_hal(model: Any) -> Model:
    """The finished model of an `npusim.hal.Model`, or of a `.hal` file by its path. Raises as `from_file`."""
    try:
        if isinstance(model, str | Path):
            model = hal_file.load(model)
        graph = check(graph_of(model, GraphBuilder("model")))
    except NpusimError as fault:
        raise InvalidParameter(str(fault)) from None
    return from_graph(graph)


def from_graph(graph: Graph, sizes: Sizes | None = None) -> Model:
    """The finished model of a graph. Raises as `from_file`."""
    try:
        bound = bind(graph, sizes or {})
    except NpusimError as fault:
        raise InvalidParameter(str(fault)) from None
    if bound.decides:
        raise FeatureNotSupported(
            f"{bound.name}: decides (IF, WHILE), NNAdapter has no such operation; npusim.run runs it"
        )
    try:
        require_known(bound)
    except NpusimError as fault:
        raise FeatureNotSupported(str(fault)) from None
    return Model.of(bound)


def from_onnx(path: str | Path) -> Model:
    """Raises FeatureNotSupported: npusim does not read ONNX files yet."""
    raise FeatureNotSupported(f"{path}: npusim reads no ONNX files; from_file reads .tflite and .hal")


def from_nnef(path: str | Path) -> Model:
    """Raises FeatureNotSupported: npusim does not read NNEF folders yet."""
    raise FeatureNotSupported(f"{path}: npusim reads no NNEF models; from_file reads .tflite and .hal")
