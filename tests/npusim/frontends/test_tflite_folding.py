"""Operands that follow from shapes and constants: TFLite files as converters write them, beside LiteRT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.frontends.tflite.reader import parse
from npusim.isa.base.errors import GraphError
from npusim.kernels.graph.check import check

from ...litert.live import by_litert, difference, needs_litert
from .tflite_builder import Builder, int32, table

PLAIN: dict[str, Any] = {"scales": None, "zero_points": None}
REAL = {"kind": "FLOAT32", **PLAIN}


class Written(Builder):
    """A file whose shapes are computed from the shape of "z", which is x + x."""

    def begin(self) -> tuple[int, int]:
        x = self.tensor("x", [1, 4, 6, 2], ShapeSignature=int32(-1, 4, 6, 2))
        z = self.tensor("z", [1, 4, 6, 2])
        self.operator("ADD", [x, x], [z], table("AddOptions"), version=2)
        return x, z

    def whole(self, name: str, shape: list[int], kind: str = "INT32", data: Any = None) -> int:
        return self.tensor(name, shape, kind, data, **PLAIN)

    def size(self, tensor: int, axis: int, name: str) -> int:
        """SHAPE, STRIDED_SLICE: one size as a scalar."""
        shape, size = self.whole(f"{name}/shape", [4]), self.whole(name, [])
        self.operator("SHAPE", [tensor], [shape], table("ShapeOptions", OutType=2))
        ends = [self.constant(axis), self.constant(axis + 1), self.constant(1)]
        options = table("StridedSliceOptions", ShrinkAxisMask=1)
        self.operator("STRIDED_SLICE", [shape, *ends], [size], options)
        return size

    def packed(self, name: str, *sizes: int) -> int:
        made = self.whole(name, [len(sizes)])
        self.operator("PACK", list(sizes), [made], table("PackOptions", ValuesCount=len(sizes), Axis=0))
        return made

    def scalar(self, value: int) -> int:
        return self.whole(f"scalar_{value}", [], "INT32", int32(value)[0])


def tile(f: Written) -> tuple[list[int], list[int]]:
    """The anchors of an SSD, as often as there are images, beside its boxes."""
    x, z = f.begin()
    anchors = f.tensor("anchors", [1, 6, 2], data=np.arange(12, dtype=np.int8))
    multiples = f.packed("multiples", f.size(z, 0, "batch"), f.scalar(4), f.scalar(1))
    tiled, boxes, y = f.tensor("tiled", [1, 24, 2]), f.tensor("boxes", [1, 24, 2]), f.tensor("y", [1, 24, 2])
    f.operator("TILE", [anchors, multiples], [tiled])
    wanted = f.packed("wanted", f.size(z, 0, "batch_2"), f.scalar(-1), f.scalar(2))
    f.operator("RESHAPE", [z, wanted], [boxes])
    f.operator("ADD", [boxes, tiled], [y], table("AddOptions"), version=2)
    return [x], [y]


def sizes(f: Written) -> tuple[list[int], list[int]]:
    """RESIZE to twice the size that the image has: MUL on sizes."""
    x, z = f.begin()
    size, twice = f.packed("size", f.size(z, 1, "height"), f.size(z, 2, "width")), f.whole("twice", [2])
    f.operator("MUL", [size, f.scalar(2)], [twice], table("MulOptions"))
    y = f.tensor("y", [1, 8, 12, 2])
    f.operator("RESIZE_NEAREST_NEIGHBOR", [z, twice], [y], table("ResizeNearestNeighborOptions"), version=2)
    return [x], [y]


def fill(f: Written) -> tuple[list[int], list[int]]:
    """FILL, RANGE, RANK, CAST: a ramp that is added to what is computed."""
    x, z = f.begin()
    width, ramp, real = f.size(z, 2, "width"), f.whole("ramp", [6]), f.tensor("real", [6], **REAL)
    f.operator("RANGE", [f.scalar(0), width, f.scalar(1)], [ramp], table("RangeOptions"))
    f.operator("CAST", [ramp], [real], table("CastOptions", InDataType=2, OutDataType=0))
    column, rank = f.tensor("column", [6, 1], **REAL), f.whole("rank", [])
    f.operator("EXPAND_DIMS", [real, f.scalar(1)], [column], table("ExpandDimsOptions"))
    f.operator("RANK", [z], [rank], table("RankOptions"))
    filled, ranks = f.tensor("filled", [6, 2], **REAL), f.tensor("ranks", [], **REAL)
    f.operator("CAST", [rank], [ranks], table("CastOptions", InDataType=2, OutDataType=0))
    shape = f.packed("shape", width, f.size(z, 3, "channels"))
    f.operator("FILL", [shape, ranks], [filled], table("FillOptions"), version=1)
    both, y = f.tensor("both", [6, 2], **REAL), f.tensor("y", [1, 4, 6, 2], **REAL)
    f.operator("ADD", [filled, column], [both], table("AddOptions"))
    reals = f.tensor("reals", [1, 4, 6, 2], **REAL)
    f.operator("DEQUANTIZE", [z], [reals], table("DequantizeOptions"), version=2)
    f.operator("ADD", [reals, both], [y], table("AddOptions"))
    return [x], [y]


def broadcast(f: Written) -> tuple[list[int], list[int]]:
    """BROADCAST_ARGS of two shapes, for BROADCAST_TO; CONCATENATION, SLICE and GATHER of sizes before."""
    x, z = f.begin()
    shape, last = f.whole("shape", [4]), f.whole("last", [2])
    f.operator("SHAPE", [z], [shape], table("ShapeOptions", OutType=2))
    f.operator("SLICE", [shape, f.constant(2), f.constant(2)], [last], table("SliceOptions"))
    heights = f.whole("heights", [2])
    f.operator("GATHER", [shape, f.constant(0, 1)], [heights], table("GatherOptions"))
    joined, common = f.whole("joined", [4]), f.whole("common", [4])
    f.operator("CONCATENATION", [heights, last], [joined], table("ConcatenationOptions"))
    f.operator("BROADCAST_ARGS", [joined, f.constant(6, 1)], [common])
    row, wide, y = (
        f.tensor("row", [2], data=np.array([3, -5], np.int8)),
        f.tensor("wide", [1, 4, 6, 2]),
        f.tensor("y", [1, 4, 6, 2]),
    )
    f.operator("BROADCAST_TO", [row, common], [wide], table("BroadcastToOptions"), version=2)
    f.operator("ADD", [z, wide], [y], table("AddOptions"), version=2)
    return [x], [y]


def given(f: Written) -> tuple[list[int], list[int]]:
    """A shape that is an output itself, and one that is used in sums."""
    x, z = f.begin()
    shape = f.whole("shape", [4])
    f.operator("SHAPE", [z], [shape], table("ShapeOptions", OutType=2))
    zeros, y = f.whole("zeros", [4]), f.whole("y", [4])
    f.operator("ZEROS_LIKE", [shape], [zeros], table("ZerosLikeOptions"))
    f.operator("ADD", [zeros, shape], [y], table("AddOptions"))
    return [x], [z, shape, y]


FILES = (tile, sizes, fill, broadcast, given)


def data_of(write: Callable[[Written], tuple[list[int], list[int]]]) -> bytes:
    file = Written()
    return file.file(*write(file))


@needs_litert
@pytest.mark.parametrize("write", FILES)
def test_outputs_are_those_of_litert(write: Any, tmp_path: Path) -> None:
    data = data_of(write)
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    values = np.random.default_rng(0).integers(-128, 128, (1, 4, 6, 2), np.int8)
    result = npusim.run(path, inputs=[values])
    assert difference(result.outputs, by_litert(data, [values])) is None


@pytest.mark.parametrize("write", FILES)
@pytest.mark.parametrize("batch", [1, 3])
def test_nothing_that_follows_from_shapes_is_left_to_a_run(write: Any, batch: int) -> None:
    graph = check(parse(data_of(write), "m", {"x": (batch, 4, 6, 2)}))
    computed = {"add", "reshape", "dequantize", "resize_nearest_neighbor"}
    assert {node.op for node in graph.nodes} <= computed
    for node in graph.nodes:
        assert node.op == "reshape" or any(not graph.tensors[i or 0].constant for i in node.inputs)


def test_a_shape_that_follows_from_values_is_named() -> None:
    file = Written()
    x, z = file.begin()
    most, tiled = file.whole("most", []), file.tensor("tiled", [1, 4, 6, 2])
    flat, multiples = file.tensor("flat", [48]), file.whole("multiples", [4])
    file.operator("RESHAPE", [z, file.constant(48)], [flat])
    file.operator("ARG_MAX", [flat, file.scalar(0)], [most], table("ArgMaxOptions", OutputType=2))
    file.operator("PACK", [most] * 4, [multiples], table("PackOptions", ValuesCount=4, Axis=0))
    file.operator("TILE", [z, multiples], [tiled])
    with pytest.raises(GraphError, match=r"\(multiples\) is computed while running, must be constant"):
        parse(file.file([x], [tiled]), "m")
