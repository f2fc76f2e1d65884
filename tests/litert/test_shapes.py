"""Files that leave the shapes of results out: the reader works them out as they were, and as LiteRT does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import npusim
from npusim import models
from npusim.frontends import frontend
from npusim.frontends.tflite import reader as tflite
from npusim.frontends.tflite.export import written
from npusim.frontends.tflite.records import ModelRecord, decode
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.check import check
from npusim.kernels.graph.graph import Graph
from npusim.models.writer import ModelWriter, per_tensor

from ..random_graphs import random_graph
from .live import by_litert, difference, needs_litert
from .rows import ROWS, model
from .test_graphs import graph_of

Shape = tuple[int, ...]
LOSSES: dict[str, Callable[[Shape], Shape]] = {
    "nothing": lambda shape: (),
    "batch unknown": lambda shape: (-1, *shape[1:]) if shape else (),
    "sizes unknown": lambda shape: (-1,) * len(shape),
}


def without_shapes(data: bytes, loss: str) -> ModelRecord:
    """The records of a file, with less of the shapes of results."""
    record = decode(data)
    results = {number for each in record.operators for number in each.outputs}
    tensors = [
        replace(each, shape=LOSSES[loss](each.shape)) if number in results else each
        for number, each in enumerate(record.tensors)
    ]
    return replace(record, tensors=tuple(tensors))


def read(monkeypatch: pytest.MonkeyPatch, data: bytes, loss: str) -> Graph:
    with monkeypatch.context() as patch:
        patch.setattr(tflite, "decode", lambda data: without_shapes(data, loss))
        return check(tflite.parse(data, "lossy"))


def shapes(graph: Graph) -> list[Shape]:
    return [tensor.type.shape for tensor in graph.tensors]


@pytest.mark.cases(30)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("code", ROWS)
def test_shapes_of_every_operator(code: str, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype in ROWS[code].dtypes:
        for seed in range(4):
            data = model(code, dtype, seed)
            whole = shapes(tflite.parse(data, "whole"))
            assert shapes(read(monkeypatch, data, loss)) == whole, f"{code} {dtype} {seed}"


@pytest.mark.parametrize("loss", LOSSES)
def test_shapes_of_networks(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(12):
        data = written(graph_of(random_graph, seed))
        assert shapes(read(monkeypatch, data, loss)) == shapes(tflite.parse(data, "whole")), seed
    for name in ("mobilenet_v2", "ds_cnn"):
        file = models.path_or_bytes(name)
        data = file if isinstance(file, bytes) else file.read_bytes()
        assert shapes(read(monkeypatch, data, loss)) == shapes(tflite.parse(data, "whole")), name


def stored(*shape: int) -> bytes:
    """x [1, 4, 6] -> relu, whose result is stored with a shape -> reshape to two axes."""
    scale = per_tensor(0.05, 0)
    writer = ModelWriter("stored")
    x = writer.input("x", TensorType("int8", (1, 4, 6), scale))
    y = writer.operator("RELU", (x,), TensorType("int8", shape, scale), name="y")
    operand = writer.constant("shape", np.array([2, -1], np.int32))
    options = {"NewShape": (2, -1)}
    z = writer.operator(
        "RESHAPE", (y, operand), TensorType("int8", (), scale), options="ReshapeOptions", fields=options
    )
    return writer.finish([z])


@needs_litert
def test_a_file_without_shapes_runs_as_in_litert() -> None:
    data = stored()
    values = np.random.default_rng(0).integers(-128, 128, (1, 4, 6)).astype(np.int8)
    result = npusim.simulate(npusim.compile(tflite.parse(data, "stored")), [values])
    assert difference(result.outputs, by_litert(data, [values])) is None
    assert result.outputs[0].shape == (2, 12)


@pytest.mark.parametrize("shape", [(1, 4, 7), (1, 24), (2, -1, 6), (-1, 6)])
def test_a_stored_shape_that_contradicts_is_refused_with_both(shape: Shape) -> None:
    with pytest.raises(GraphError) as fault:
        tflite.parse(stored(*shape), "stored")
    assert str(fault.value) == (
        f'layer "y" (relu): output "y" has shape {list(shape)}, [1, 4, 6] by its operands and parameters'
    )


def test_what_nothing_says_is_refused_by_name() -> None:
    scale = per_tensor(0.05, 0)
    writer = ModelWriter("unknown")
    x = writer.input("x", TensorType("int8", (1, 4), scale))
    y = writer.operator("UNIQUE", (x,), TensorType("int8", (-1, 4), scale), name="y", version=1)
    with pytest.raises(GraphError, match=r'"y" has shape \[-1, 4\], and its operands do not say it either'):
        tflite.parse(writer.finish([y]), "unknown")


def test_an_input_of_unknown_size_is_refused_by_name_unless_it_is_given(tmp_path: Path) -> None:
    writer = ModelWriter("unknown")
    x = writer.input("x", TensorType("int8", (4, -1), per_tensor(0.05, 0)))
    data = writer.finish([writer.unary("RELU", x, per_tensor(0.05, 0))])
    with pytest.raises(
        GraphError, match=r'^input "x": has shape \[4, -1\] with an unknown size; give --shape x=4,N'
    ):
        tflite.parse(data, "unknown")
    path = tmp_path / "unknown.tflite"
    path.write_bytes(data)
    assert [place.type.shape for place in npusim.compile(frontend.read(path, {"x": (4, 2)})).outputs] == [
        (4, 2)
    ]
