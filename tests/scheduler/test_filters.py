"""Convolutions in groups, transposed ones, and filters and biases that are no constants: random ones, on the NPU."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from npusim.isa.base.tensor import SIZE_ONLY, TensorType
from npusim.isa.hardware.file import hardware
from npusim.isa.instructions.mac import Convolve, Depthwise
from npusim.isa.instructions.table import decode_all
from npusim.kernels.graph.graph import Graph
from npusim.kernels.lowering.work import Work
from npusim.kernels.operator.geometry import positions
from npusim.machine.system import execute
from npusim.scheduler import compile_graph
from npusim.scheduler.network.network import prepare

from ..examples import examples
from ..graphs import Sketch, with_all_outputs
from ..random_graphs import ACTIVATIONS, Pick
from .test_random_graphs import check, graphs, machines

EDGE = hardware("edge-128")


def random_filters(pick: Pick) -> Graph:
    """A layer with weights of any kind, between others or alone; its weights, bias or both may be computed."""
    sketch = Sketch("random", ("int8", "uint8")[pick(0, 1)], pick(0, 2**20))
    batch, size = pick(1, 2), (pick(1, 12), pick(1, 12))
    kind = ("grouped", "depthwise", "transposed", "matrix")[pick(0, 3)]
    constant, per_channel = bool(pick(0, 1)), bool(pick(0, 1))
    groups = pick(1, 6) if kind == "grouped" else pick(0, 1) * pick(0, 3) + 1 if kind == "transposed" else 1
    depth, channels = groups * pick(1, 5), groups * pick(1, 6)
    source = sketch.input(batch, *size, depth)
    if pick(0, 1):
        source = sketch.logistic(source)
    kernel = pick(1, 4), pick(1, 4)
    most = pick(0, 1) * 6  # beyond the kernel: windows that see nothing but padding
    padding = tuple((pick(0, side - 1 + most), pick(0, side - 1 + most)) for side in kernel)
    window: dict[str, Any] = {"strides": (pick(1, 3), pick(1, 3)), "padding": padding}
    axis, shape = 0, (channels, *kernel, depth // groups)
    match kind:
        case "depthwise":
            channels = depth * pick(1, 2)
            axis, shape = 3, (1, *kernel, channels)
            window["depth_multiplier"] = channels // depth
        case "matrix":
            shape, window = (channels, depth), {}
        case "transposed":
            window["strides"] = (pick(1, 5), pick(1, 5))
            window["size"] = (pick(1, 24), pick(1, 24))
            window["dilations"] = (pick(1, 3), pick(1, 3)) if constant else (1, 1)
    if kind in ("grouped", "depthwise"):
        window["padding"] = [
            pads if positions(side, taps, step, 1, pads) > 0 else (taps - 1, 0)
            for side, taps, step, pads in zip(size, kernel, window["strides"], padding, strict=True)
        ]
    op = {"grouped": "conv_2d", "depthwise": "depthwise_conv_2d", "transposed": "transpose_conv"}.get(
        kind, "fully_connected"
    )
    weights = sketch.weights(shape, axis, per_channel, constant)
    if not constant and not per_channel and pick(0, 1):
        weights = sketch.quantize(weights)
    bias: bool | int = bool(pick(0, 1))
    if pick(0, 2) == 0:
        bias = sketch.builder.as_input(sketch.add_tensor(TensorType("int32", (channels,))))
    activation = ACTIVATIONS[max(0, pick(-2, 3))]
    last = sketch.weighted(
        op, source, weights, channels, prod(shape) // channels, bias, activation=activation, **window
    )
    if pick(0, 1):
        last = sketch.quantize(last)
    graph = sketch.graph([last])
    return with_all_outputs(graph) if pick(0, 1) else graph


@pytest.mark.slow
@given(graphs(random_filters), machines((64, 1, 2, 3, 4, 6, 10)))
@examples(150)
def test_random_filters(graph: Graph, chosen: object) -> None:
    assert not [layer for layer in prepare(graph, EDGE).items if not isinstance(layer.body, Work)]
    check(graph, chosen)  # type: ignore[arg-type]


def instructions(graph: Graph) -> list[Any]:
    code = decode_all(compile_graph(graph, EDGE).code)
    return [each for each in code if isinstance(each, Convolve | Depthwise)]


def grouped(groups: int, depth: int, channels: int, kernel: int = 1, constant: bool = True) -> Graph:
    sketch = Sketch()
    source = sketch.input(1, 8, 8, groups * depth)
    weights = sketch.weights((groups * channels, kernel, kernel, depth), 0, False, constant)
    sums = sketch.weighted("conv_2d", source, weights, groups * channels, kernel * kernel * depth, True)
    return sketch.graph([sums])


def test_each_group_is_an_instruction_on_its_channels_of_the_map() -> None:
    """Two groups of 32 channels and 16 filters fill the 16 x 8 array each by itself."""
    first, second, last = instructions(grouped(2, 32, 16))  # the last tile of a network is a smaller one
    assert (first.ifm_depth, first.ifm_pixel_stride) == (32, 64)
    assert (first.ofm_depth, first.ofm_pixel_stride) == (16, 32)
    assert (second.ifm - first.ifm, second.ofm - first.ofm) == (32, 16)
    assert (last.ifm, last.ofm_depth, last.ofm - second.ofm) == (second.ifm, 8, 8)


def test_small_groups_fill_the_array_together() -> None:
    """8 groups of 2 channels and 2 filters: 4 of them are 8 columns, as many as the array has."""
    found = instructions(grouped(8, 2, 2))
    assert [(each.ifm_depth, each.ofm_depth) for each in found] == [(8, 8)] * 2


def test_filters_that_are_computed_stay_as_they_are() -> None:
    assert len(instructions(grouped(8, 2, 2, constant=False))) == 8


def test_groups_of_one_channel_are_depthwise() -> None:
    for constant in (True, False):
        (found,) = instructions(grouped(16, 1, 2, 3, constant))
        assert isinstance(found, Depthwise)


def transposed(stride: int, kernel: int, size: int) -> Graph:
    sketch = Sketch()
    weights = sketch.weights((4, kernel, kernel, 8), 0, False)
    source = sketch.input(1, 4, 4, 8)
    window = {"strides": (stride, stride), "size": (size, size)}
    return sketch.graph(
        [sketch.weighted("transpose_conv", source, weights, 4, kernel**2 * 8, True, **window)]
    )


def test_a_transposed_convolution_multiplies_each_value_by_each_weight_once() -> None:
    """Stride 2, kernel 4: four phases of 2 x 2 taps; the whole output of 10 x 10 sees 4 x 4 x 8 values 16 x 4 times."""
    found = instructions(transposed(2, 4, 10))
    assert [(each.kernel_height, each.kernel_width, each.ofm_pixel_stride) for each in found] == [
        (2, 2, 8)
    ] * 4
    # 5 x 5 pixels of 4 taps of 8 values by 4 filters in each: with the padding around, which costs as much
    assert sum(each._problem.macs for each in found) == 4 * 25 * 4 * 8 * 4


def test_pixels_that_see_nothing_get_the_bias_first() -> None:
    """Stride 5, kernel 2: 4 of 25 phases have a tap, one instruction writes the bias everywhere before them."""
    bias, *phases = instructions(transposed(5, 2, 20))
    assert (bias.ofm_height, bias.ofm_width, bias._problem.inner) == (20, 20, 1)
    assert [(each.ofm_height, each._problem.inner) for each in phases] == [(4, 8)] * 4


@pytest.mark.parametrize("graph", [grouped(2, 8, 8, 3), transposed(2, 3, 9), transposed(3, 2, 12)])
def test_weights_known_by_their_size_take_the_same_time(graph: Graph) -> None:
    tensors = [replace(each, data=SIZE_ONLY) if each.constant else each for each in graph.tensors]
    unknown = replace(graph, tensors=tuple(tensors))
    cycles = [execute(compile_graph(each, EDGE), data=False).cycles for each in (graph, unknown)]
    assert cycles[0] == cycles[1]


def test_computed_weights_arrive_tap_by_tap_in_the_order_of_the_phases() -> None:
    """A copy walks forward only: kernel 4 and stride 2 have 4 phases of 4 taps, a copy for each."""
    sketch = Sketch()
    source, weights = sketch.input(1, 3, 3, 8), sketch.weights((4, 4, 4, 8), 0, False, False)
    window = {"strides": (2, 2), "size": (8, 8)}
    graph = sketch.graph([sketch.weighted("transpose_conv", source, weights, 4, 128, False, **window)])
    code = decode_all(compile_graph(graph, EDGE).code)
    loads = [each for each in code if each.mnemonic == "dma.copy" and each.size == 8 and each.count2 == 3]
    assert len(loads) == 16
    assert np.all([each.source_stride2 == 4 * 4 * 8 for each in loads])
