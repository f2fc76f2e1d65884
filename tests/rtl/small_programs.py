"""Small networks for scratchpads that are smaller still, compiled: tiles, double buffers, streamed weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from npusim.isa.hardware.hardware import Dma, FrontEnd, Hardware, MacArray, Vector
from npusim.isa.hardware.memories import Dram, Scratchpad
from npusim.isa.program.program import Program
from npusim.kernels.graph.builder import unshaped
from npusim.kernels.graph.graph import Graph
from npusim.scheduler.compile import compile_graph

from ..graphs import Sketch
from .mac_referee import Shape

Dataflow = Literal["weight_stationary", "output_stationary", "both"]
SAME = ((1, 1), (1, 1))


class Setup(NamedTuple):
    """What is chosen of an array whose shape is built."""

    dataflow: Dataflow
    shadow_weights: bool


SETUPS = tuple(
    Setup(dataflow, shadow)
    for dataflow in ("weight_stationary", "output_stationary", "both")
    for shadow in (False, True)
)  # fmt: skip


def _conv() -> Graph:
    sketch = Sketch("conv")
    sketch.conv(sketch.input(1, 14, 12, 10), 22, padding=SAME, activation="relu", per_channel=True)
    return sketch.graph()


def _strided_conv() -> Graph:
    sketch = Sketch("strided_conv", "uint8", 1)
    sketch.conv(sketch.input(1, 25, 21, 6), 18, (3, 3), strides=(2, 2), padding=((0, 1), (1, 1)))
    return sketch.graph()


def _pointwise() -> Graph:
    sketch = Sketch("pointwise", seed=2)
    sketch.conv(sketch.input(1, 9, 13, 40), 44, (1, 1), activation="relu6", per_channel=True)
    return sketch.graph()


def _depthwise() -> Graph:
    sketch = Sketch("depthwise", seed=3)
    sketch.depthwise(sketch.input(1, 19, 16, 24), padding=SAME, activation="relu6", per_channel=True)
    return sketch.graph()


def _strided_depthwise() -> Graph:
    sketch = Sketch("strided_depthwise", "uint8", 4)
    sketch.depthwise(sketch.input(1, 24, 20, 14), (5, 3), strides=(2, 2), padding=((2, 2), (1, 0)))
    return sketch.graph()


def _fully_connected() -> Graph:
    sketch = Sketch("fully_connected", seed=5)
    sketch.fully_connected(sketch.input(1, 180), 90, activation="relu")
    return sketch.graph()


def _separable() -> Graph:
    sketch = Sketch("separable", seed=6)
    wide = sketch.conv(sketch.input(1, 16, 16, 8), 24, (1, 1), activation="relu6")
    deep = sketch.depthwise(wide, padding=SAME, activation="relu6", per_channel=True)
    sketch.conv(deep, 12, (1, 1))
    return sketch.graph()


def _classifier() -> Graph:
    sketch = Sketch("classifier", seed=7)
    features = sketch.conv(sketch.input(1, 12, 12, 3), 12, strides=(2, 2), padding=SAME, activation="relu")
    features = sketch.conv(features, 16, strides=(2, 2), padding=SAME, activation="relu", per_channel=True)
    sketch.fully_connected(sketch.reshape(features, 1, 144), 60)
    return sketch.graph()


def _residual() -> Graph:
    """Elementwise functions between convolutions, and a rescale at the end."""
    sketch = Sketch("residual", seed=8)
    image = sketch.input(1, 14, 14, 12)
    left = sketch.conv(image, 12, padding=SAME, activation="relu", per_channel=True)
    right = sketch.depthwise(image, padding=SAME)
    total = sketch.binary("add", left, right, activation="relu")
    sketch.quantize(sketch.binary("mul", total, image), "uint8")
    return sketch.graph()


def _pooled() -> Graph:
    """Pools, a mean, a look-up."""
    sketch = Sketch("pooled", "uint8", 9)
    features = sketch.conv(sketch.input(1, 20, 18, 4), 16, padding=SAME, activation="relu6")
    features = sketch.pool("max_pool_2d", features, (2, 2), strides=(2, 2))
    features = sketch.logistic(sketch.pool("average_pool_2d", features, (3, 3), padding=SAME))
    sketch.fully_connected(sketch.mean(features, (1, 2)), 10)
    return sketch.graph()


def _in_float32() -> Graph:
    """Convolutions rescaled in float32, with results of the other sign, and a product whose sums stay as they are."""
    sketch = Sketch("in_float32", "uint8", 10)
    image = sketch.input(1, 12, 12, 10)
    kind = unshaped("int8", sketch.quantization(2.0, "int8"))
    weights = sketch.weights((20, 3, 3, 10), 0, True)
    features = sketch.node("conv_2d", (image, weights), kind, padding=SAME, rescale="float32")
    kind = unshaped("uint8", sketch.quantization(3.0, "uint8"))
    weights = sketch.weights((1, 3, 3, 20), 3, False)
    how = {"strides": (2, 2), "padding": SAME, "rescale": "float32"}
    features = sketch.node("depthwise_conv_2d", (features, weights), kind, **how)
    weights = sketch.weights((24, 20), 0, True)
    sketch.node("fully_connected", (features, weights), unshaped("int32"), rescale="float32")
    return sketch.graph()


NETWORKS: tuple[Callable[[], Graph], ...] = (
    _conv,
    _strided_conv,
    _pointwise,
    _depthwise,
    _strided_depthwise,
    _fully_connected,
    _separable,
    _classifier,
    _residual,
    _pooled,
    _in_float32,
)


def small_machine(shape: Shape, setup: Setup) -> Hardware:
    """4 KiB of scratchpad, two channels, a DRAM that keeps neither side waiting all the time."""
    return Hardware(
        name=f"rtl-{shape.rows}x{shape.columns}",
        clock_mhz=1000.0,
        front_end=FrontEnd(queue_depth=4),
        dma=Dma(channels=2, setup_cycles=16, port_bytes_per_cycle=8),
        dram=Dram(bandwidth_gb_per_s=3.0, latency_ns=60.0, row_miss_ns=20.0, row_bytes=1024, banks=2),
        scratchpad=Scratchpad(size_kib=4, banks=4, bank_ports=2, port_bytes=16),
        vector=Vector(lanes=shape.lanes),
        mac_array=MacArray(
            rows=shape.rows,
            columns=shape.columns,
            dataflow=setup.dataflow,
            shadow_weights=setup.shadow_weights,
            accumulator_kib=1,
            ifm_bytes_per_cycle=shape.ifm_port,
            weight_bytes_per_cycle=shape.weight_port,
            output_lanes=shape.lanes,
        ),
    )


def small_program(network: Callable[[], Graph], shape: Shape, setup: Setup) -> Program:
    """A network compiled for its small machine."""
    return compile_graph(network(), small_machine(shape, setup))
