"""Operations of NNAdapter on codes, live: NCHW models on the machine against LiteRT's kernels on the same in NHWC.

Zero points are 0, as NNAdapter has them; a seed is a model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import npusim
from npusim.frontends.nnadapter.model_building import Model
from npusim.frontends.nnadapter.nnadapter_codes import FuseCode, Precision
from npusim.frontends.nnadapter.operand import Operand
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.models.writer import ModelWriter, per_channel, per_tensor
from tests.examples import tried

from .live import by_litert, difference, needs_litert

SEEDS = range(tried(2, 6))
ACTIVATIONS = ("none", "relu", "relu_n1_to_1", "relu6")
SCHEMES = {"same": 1, "valid": 2}
X, W, Y = 0.02, 0.005, 0.04
"""Scales of inputs, weights, results."""

Codes = NDArray[np.int8]


def one(scale: float) -> Quantization:
    """Codes of one scale, and of zero point 0."""
    return per_tensor(scale, 0)


class Twins(NamedTuple):
    """One operation as a model of NNAdapter and as a file, and what goes in: NCHW and NHWC where it is an image."""

    ours: Model
    theirs: bytes
    given: list[Array]
    given_there: list[Array]


class Draw:
    """Random numbers of a model, and both models under construction."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.model, self.writer = Model(), ModelWriter("twin")
        self.given: list[Array] = []
        self.there: list[Array] = []
        self.inputs: list[Operand] = []

    def pick(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def pair(self, low: int, high: int) -> tuple[int, int]:
        return self.pick(low, high), self.pick(low, high)

    def codes(self, *shape: int) -> Codes:
        return self.rng.integers(-128, 128, shape, np.int8)

    def input(self, *shape: int, scale: float = X) -> tuple[Operand, int]:
        """An input of both; images of four sizes lie in NHWC there."""
        values = self.codes(*shape)
        kind = OperandType(Precision.QUANT_INT8_SYMM_PER_LAYER, shape, scale=scale)
        self.inputs.append(self.model.add_operand(kind))
        self.given.append(values)
        self.there.append(nhwc(values) if len(shape) == 4 else values)
        kind_there = TensorType("int8", self.there[-1].shape, one(scale))
        return self.inputs[-1], self.writer.input(f"x{len(self.inputs)}", kind_there)

    def weights(
        self, values: Codes, there: Codes, channels: int, axes: tuple[int, int]
    ) -> tuple[Operand, int, Any]:
        """A filter, with one scale or one per channel of an axis here and there, and its scales."""
        if self.pick(0, 1):
            kind = OperandType(Precision.QUANT_INT8_SYMM_PER_LAYER, values.shape, scale=W)
            return self.model.add_constant(values, kind), self.writer.constant("w", there, one(W)), [W]
        scales = [float(np.float32(scale)) for scale in self.rng.uniform(W / 2, 2 * W, channels)]
        kind = OperandType(
            Precision.QUANT_INT8_SYMM_PER_CHANNEL, values.shape, scales=scales, channel_dim=axes[0]
        )
        return (
            self.model.add_constant(values, kind),
            self.writer.constant("w", there, per_channel(scales, axes[1])),
            scales,
        )

    def bias(self, channels: int, scales: Any) -> tuple[Operand, int]:
        values = self.rng.integers(-2000, 2000, channels, np.int32)
        products = [float(np.float32(np.float32(X) * np.float32(scale))) for scale in scales]
        if len(products) == 1:
            kind = OperandType(Precision.QUANT_INT32_SYMM_PER_LAYER, (channels,), scale=products[0])
            return self.model.add_constant(values, kind), self.writer.constant("b", values, one(products[0]))
        kind = OperandType(
            Precision.QUANT_INT32_SYMM_PER_CHANNEL, (channels,), scales=products, channel_dim=0
        )
        return self.model.add_constant(values, kind), self.writer.constant(
            "b", values, per_channel(products, 0)
        )

    def result(self, scale: float = Y) -> list[Operand]:
        return [self.model.add_operand(OperandType(Precision.QUANT_INT8_SYMM_PER_LAYER, scale=scale))]

    def twins(self, output: Operand, there: int) -> Twins:
        self.model.identify(self.inputs, [output])
        self.model.finish()
        return Twins(self.model, self.writer.finish([there]), self.given, self.there)


def nhwc(values: Array) -> Array:
    return np.ascontiguousarray(values.transpose(0, 2, 3, 1))


def activation(draw: Draw) -> tuple[str, FuseCode]:
    number = draw.pick(0, 3)
    return ACTIVATIONS[number], FuseCode(number)


def convolution(draw: Draw) -> Twins:
    group, depth, filters = draw.pick(1, 3), draw.pick(1, 5), draw.pick(1, 4)
    kernel, strides = draw.pair(1, 3), draw.pair(1, 3)
    padding = ("same", "valid")[draw.pick(0, 1)]
    dilations = draw.pair(1, 2) if padding == "valid" else (1, 1)
    x, there = draw.input(draw.pick(1, 2), group * depth, *draw.pair(5, 9))
    values = draw.codes(group * filters, depth, *kernel)
    w, w_there, scales = draw.weights(values, nhwc(values), group * filters, (0, 0))
    b, b_there = draw.bias(group * filters, scales)
    name, fuse = activation(draw)
    y = draw.model.conv_2d(
        x, w, b, SCHEMES[padding], None, strides, group, dilations, fuse, outputs=draw.result()
    )
    window = {"strides": strides, "dilations": dilations, "padding": padding, "activation": name}
    if depth == 1 and group > 1:  # depthwise there
        turned = np.ascontiguousarray(values.transpose(1, 2, 3, 0))
        scaling = one(W) if len(scales) == 1 else per_channel(scales, 3)
        w_there = draw.writer.constant("depthwise", turned, scaling)
        return draw.twins(y, draw.writer.depthwise_conv_2d(there, w_there, b_there, one(Y), **window))
    return draw.twins(y, draw.writer.conv_2d(there, w_there, b_there, one(Y), **window))


def transposed(draw: Draw) -> Twins:
    """VALID there: as many pixels as windows cover, and maybe more."""
    depth, filters, kernel, strides = draw.pick(1, 5), draw.pick(1, 5), draw.pair(1, 4), draw.pair(1, 3)
    x, there = draw.input(draw.pick(1, 2), depth, *draw.pair(1, 5))
    values = draw.codes(depth, filters, *kernel)
    turned = np.ascontiguousarray(values.transpose(1, 2, 3, 0))
    w, w_there, scales = draw.weights(values, turned, filters, (1, 0))
    b, b_there = draw.bias(filters, scales)
    sizes = draw.given[0].shape[2:]
    size = [(side - 1) * step + taps for side, step, taps in zip(sizes, strides, kernel, strict=True)]
    y = draw.model.conv_2d_transpose(x, w, b, 2, None, strides, fuse_code=0, outputs=draw.result())
    shape = (draw.given[0].shape[0], *size, filters)
    operands = [draw.writer.constant("shape", np.array(shape, np.int32)), w_there, there, b_there]
    fields = {"Padding": 1, "StrideH": strides[0], "StrideW": strides[1]}
    kind = TensorType("int8", shape, one(Y))
    found = draw.writer.operator(
        "TRANSPOSE_CONV", operands, kind, version=3, options="TransposeConvOptions", fields=fields
    )
    return draw.twins(y, found)


def pool(draw: Draw) -> Twins:
    image, what = draw.pair(4, 9), ("average", "max")[draw.pick(0, 1)]
    x, there = draw.input(draw.pick(1, 2), draw.pick(1, 5), *image)
    kernel, strides = image if draw.pick(0, 3) == 0 else draw.pair(1, 3), draw.pair(1, 3)
    padding = "valid" if kernel == image else ("same", "valid")[draw.pick(0, 1)]
    name, fuse = activation(draw)
    method = getattr(draw.model, f"{what}_pool_2d")
    shared = {"kernel_shape": kernel, "strides": strides, "fuse_code": fuse, "outputs": draw.result(X)}
    y = method(x, SCHEMES[padding], **shared)
    method_there = getattr(draw.writer, f"{what}_pool_2d")
    return draw.twins(y, method_there(there, kernel, strides=strides, padding=padding, activation=name))


def matrix(draw: Draw) -> Twins:
    depth, units = draw.pick(1, 40), draw.pick(1, 12)
    x, there = draw.input(draw.pick(1, 4), depth)
    values = draw.codes(units, depth)
    w, w_there, scales = draw.weights(values, values, units, (0, 0))
    b, b_there = draw.bias(units, scales)
    name, fuse = activation(draw)
    y = draw.model.fully_connected(x, w, b, fuse, outputs=draw.result())
    return draw.twins(y, draw.writer.fully_connected(there, w_there, b_there, one(Y), activation=name))


def product(draw: Draw) -> Twins:
    rows, inner, columns, batch = (draw.pick(1, 9) for _ in range(4))
    swapped = bool(draw.pick(0, 1)), bool(draw.pick(0, 1))
    first = (batch, inner, rows) if swapped[0] else (batch, rows, inner)
    second = (batch, columns, inner) if swapped[1] else (batch, inner, columns)
    (x, x_there), (z, z_there) = draw.input(*first), draw.input(*second, scale=0.03)
    y = draw.model.mat_mul(x, z, *swapped, outputs=draw.result())
    fields = {"AdjX": swapped[0], "AdjY": swapped[1]}
    kind = TensorType("int8", (batch, rows, columns), one(Y))
    found = draw.writer.operator(
        "BATCH_MATMUL", [x_there, z_there], kind, version=4, options="BatchMatMulOptions", fields=fields
    )
    return draw.twins(y, found)


def resize(draw: Draw) -> Twins:
    linear, corners, halves = (bool(draw.pick(0, 1)) for _ in range(3))
    x, there = draw.input(draw.pick(1, 2), draw.pick(1, 4), *draw.pair(2, 8))
    size = draw.pair(1, 12)
    method = draw.model.resize_linear if linear else draw.model.resize_nearest
    modes = [1 - halves] if linear else []
    y = method(x, size, None, corners, *modes, outputs=draw.result(X))
    shape = (draw.given[0].shape[0], *size, draw.given[0].shape[1])
    name = "Bilinear" if linear else "NearestNeighbor"
    fields = {"AlignCorners": corners, "HalfPixelCenters": linear and halves and not corners}
    operands = [there, draw.writer.constant("size", np.array(size, np.int32))]
    code = "RESIZE_BILINEAR" if linear else "RESIZE_NEAREST_NEIGHBOR"
    kind = TensorType("int8", shape, one(X))
    found = draw.writer.operator(
        code, operands, kind, version=3, options=f"Resize{name}Options", fields=fields
    )
    return draw.twins(y, found)


MAKERS: tuple[Callable[[Draw], Twins], ...] = (convolution, transposed, pool, matrix, product, resize)


@needs_litert
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: str(make.__name__))
def test_both_give_the_same_codes(make: Callable[[Draw], Twins], seed: int) -> None:
    twins = make(Draw(seed))
    network = twins.ours.network()
    graph = network.piece(range(len(network.steps))).graph
    outputs = npusim.simulate(npusim.compile(graph), twins.given).outputs
    ours = [nhwc(output) if output.ndim == 4 else output for output in map(np.asarray, outputs)]
    assert difference(ours, by_litert(twins.theirs, twins.given_there)) is None
