"""Models of NNAdapter: built by calls, or read from files of any format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from npusim.frontends.nn_hal import hal_file
from npusim.frontends.nn_hal.reader import graph_of
from npusim.frontends.nnadapter import model_building
from npusim.frontends.nnadapter.nnadapter_codes import (
    FeatureNotSupported,
    InvalidParameter,
    faults_as,
    text_of,
)
from npusim.kernels.graph.bind import Sizes, bind
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.check import check
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.unknown import require_known
from npusim.nnadapter.device_context import Context, Supported
from npusim.nnadapter.gears import Shapes, by_gear, require_shapes
from npusim.session.opening import is_program, open_model


class Model(model_building.Model):
    """A network, built by calls or read from a file.

    graphs: one per gear, for a model that was read with several shapes of its inputs.
    """

    graphs: tuple[Graph, ...] = ()

    @property
    def graph(self) -> Graph:
        """The graph of a model that was read. Raises InvalidParameter for a model built by calls."""
        if self._graph is None:
            raise InvalidParameter(f"{self.name}: is no model that was read")
        return self._graph

    def supported_operations(self, context: Context) -> Supported:
        """Return per operation whether some device of the context can compute it; `.reasons` says which cannot and why.

        Raises InvalidParameter for anything but a context, and for a model that is not finished.
        """
        if not isinstance(context, Context):
            raise InvalidParameter(f"context: is {text_of(context)}, must be a Context")
        return context.supported_operations(self)


def from_file(path: str | Path, sizes: Sizes | None = None, dynamic: Shapes | None = None) -> Model:
    """Return the finished model of a file of any format that npusim reads, or of a built-in model by its name.

    sizes:   of inputs whose sizes the file leaves open, as for `npusim.kernels.graph.bind.bind`.
    dynamic: the shapes that such inputs may take, by name: shape k of each is gear k.

    Raises InvalidParameter for a file that cannot be read, FeatureNotSupported for a model with control flow (IF,
    WHILE) or with operators that npusim does not have.
    """
    if not isinstance(path, str | Path):
        raise InvalidParameter(
            f"model: is {text_of(path)}, must be the path of a file, or the name of a built-in model"
        )
    with faults_as(InvalidParameter):
        program = is_program(path)
    if program:
        raise InvalidParameter(f"{path}: is a compiled program, not a model")
    require_shapes(dynamic or {})
    models = [_read(path, {**(sizes or {}), **gear}) for gear in by_gear(dynamic or {})]
    graphs = [one.graph for one in models]
    models[0].graphs = tuple(graphs) if len(graphs) > 1 else ()
    return models[0]


def _read(path: str | Path, sizes: Sizes) -> Model:
    with faults_as(InvalidParameter):
        graph = open_model(path, sizes)
    assert isinstance(graph, Graph)
    return from_graph(graph)


from_tflite = from_nnef = from_onnx = from_file
"""The format shows in the file itself, so one function reads all formats."""


def from_nn_hal(model: Any) -> Model:
    """Return the finished model of an `npusim.hal.Model`, or of a `.hal` file by its path. Raises as `from_file`."""
    with faults_as(InvalidParameter):
        if isinstance(model, str | Path):
            model = hal_file.load(model)
        graph = check(graph_of(model, GraphBuilder("model")))
    return from_graph(graph)


def from_graph(graph: Graph) -> Model:
    """Return the finished model of a graph. Raises as `from_file`."""
    if not isinstance(graph, Graph):
        raise InvalidParameter(f"graph: is {text_of(graph)}, must be a graph, such as npusim.load gives")
    with faults_as(InvalidParameter):
        bound = bind(graph)
    if bound.decides:
        raise FeatureNotSupported(
            f"{bound.name}: decides (IF, WHILE), NNAdapter has no such operation; npusim.run runs it"
        )
    with faults_as(FeatureNotSupported):
        require_known(bound)
    return Model.of(bound)
