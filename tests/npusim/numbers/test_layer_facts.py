"""What each layer is and how it is cut: shapes, kernel, stride, tile, dataflow, time; the same in every form."""

from __future__ import annotations

import csv
import json
from io import StringIO
from math import prod
from pathlib import Path

import pytest

import npusim
from npusim.isa.instructions.table import decode_all
from npusim.kernels.table import operator
from npusim.numbers.layers import sizes_text
from npusim.numbers.run import RunResult
from npusim.reports.run import tables

from ...graphs import Sketch

FIRST = [
    "name", "op", "unit", "input_shapes", "output_shapes", "kernel", "stride", "tile", "dataflow", "cycles", "time_us",
]  # fmt: skip


@pytest.fixture(scope="module")
def result() -> RunResult:
    sketch = Sketch()
    image = sketch.input(1, 12, 16, 8)
    wide = sketch.conv(image, 24, (3, 5), strides=(1, 2))
    deep = sketch.depthwise(wide, kernel=(3, 3))
    both = sketch.add(deep, deep)
    pooled = sketch.pool("max_pool_2d", both, (2, 2), strides=(2, 2))
    sketch.resize(pooled, 8, 4)
    program = npusim.compile(sketch.graph(), host=["resize_bilinear"])  # which the NPU could compute, too
    return npusim.simulate(program, timing_only=True)


def test_layers_say_what_they_are(result: RunResult) -> None:
    conv, depthwise, add, pool, resize = result.layers
    assert (conv.input_shapes, conv.output_shapes) == (((1, 12, 16, 8),), ((1, 10, 6, 24),))
    assert (conv.kernel, conv.stride) == ((3, 5), (1, 2))
    assert (depthwise.kernel, depthwise.stride, depthwise.dataflow) == ((3, 3), (1, 1), "depthwise")
    assert (add.input_shapes, add.kernel, add.stride) == (((1, 8, 4, 24),) * 2, (), ())
    assert (pool.kernel, pool.stride, pool.output_shapes) == ((2, 2), (2, 2), ((1, 4, 2, 24),))
    assert (resize.unit, resize.tile, resize.dataflow) == ("host", (), "")
    for layer in result.layers:
        assert layer.time_us == result.hardware.us_of_cycles(layer.cycles)


def test_tile_and_dataflow_are_those_of_the_instructions(result: RunResult) -> None:
    program = npusim.compile(npusim.load("mobilenet_v2"), "edge-128")
    layers = npusim.simulate(program, timing_only=True).layers
    instructions = decode_all(program.code)
    seen = set()
    for at, layer in enumerate(layers):
        mine = [
            each for each, of in zip(instructions, program.layer_of, strict=True) if of == at and each.tile
        ]
        if layer.unit != "mac":
            continue
        assert prod(layer.tile) == max(prod(each.tile) for each in mine)
        assert layer.dataflow == "+".join(sorted({each.dataflow for each in mine}))
        assert all(
            size <= most for size, most in zip(layer.tile[-1:], layer.output_shapes[0][-1:], strict=True)
        )
        seen.add(layer.dataflow)
    assert {"weight_stationary", "output_stationary", "depthwise"} <= {
        one for each in seen for one in each.split("+")
    }


def test_they_are_the_first_columns_everywhere(result: RunResult) -> None:
    rows = [*csv.DictReader(StringIO(tables.render(result)))]
    assert [*rows[0]][: len(FIRST)] == FIRST
    plain = json.loads(json.dumps(result.to_dict()))["layers"]
    assert [*plain[0]][: len(FIRST)] == FIRST
    for row, layer, kept in zip(rows, result.layers, plain, strict=True):
        assert row["input_shapes"] == " ".join(map(sizes_text, layer.input_shapes))
        assert row["kernel"] == sizes_text(layer.kernel)
        assert row["tile"] == sizes_text(layer.tile)
        assert kept["output_shapes"] == [list(shape) for shape in layer.output_shapes]
        assert kept["stride"] == list(layer.stride)
        assert kept["dataflow"] == layer.dataflow
    assert rows[0]["output_shapes"] == "1x10x6x24"


def test_a_table_of_pandas_has_them(result: RunResult) -> None:
    pytest.importorskip("pandas", reason="to_pandas() needs pandas")
    table = result.to_pandas()
    assert [*table.columns][: len(FIRST)] == FIRST
    assert table["kernel"][0] == "3x5"


def test_a_program_file_says_the_same(result: RunResult, tmp_path: Path) -> None:
    npusim.save_program(result.program, tmp_path / "a.npu")
    loaded = npusim.simulate(npusim.load_program(tmp_path / "a.npu"), timing_only=True)
    assert loaded.layers == result.layers


@pytest.mark.parametrize("name", ["conv_2d", "depthwise_conv_2d", "average_pool_2d", "max_pool_2d"])
def test_windows_over_images_are_known(name: str) -> None:
    assert operator(name).window is not None
