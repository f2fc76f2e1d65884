"""A network of int8 layers under construction: random weights that look like trained ones, one scale per tensor.

Only shapes and the distribution of weights matter here, for a timing and a size; results mean nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.models.options import window_fields
from npusim.models.writer import SOFTMAX_INT8, ModelWriter, Pair, Shape, per_channel

SCALE = Quantization((0.05,), (-3,))
_WEIGHT_SCALE = 0.01


class Layers:
    """A model writer whose methods take a tensor and give one; kernels and strides are a number or a pair.

    tail: weights are drawn from a normal distribution to this power, so above 1 most of them are small.
    zeros: the share of weights that are zero.
    """

    def __init__(self, name: str, *, seed: int = 0, tail: float = 1.5, zeros: float = 0.0) -> None:
        self.writer = ModelWriter(name)
        self._random = np.random.default_rng(seed)
        self._tail, self._zeros = tail, zeros

    def input(self, *shape: int) -> int:
        """An input of one image or vector."""
        return self.writer.input("input", TensorType("int8", (1, *shape), SCALE))

    def shape(self, x: int) -> Shape:
        """The shape of a tensor."""
        return self.writer.type(x).shape

    def conv(
        self,
        x: int,
        channels: int,
        kernel: int | Pair = 3,
        stride: int | Pair = 1,
        *,
        dilation: int = 1,
        padding: str = "same",
        activation: str = "relu",
    ) -> int:
        """A convolution."""
        weights = self._weights((channels, *_pair(kernel), self.shape(x)[-1]), 0)
        return self.writer.conv_2d(
            x, weights, self._bias(channels), SCALE, strides=_pair(stride), dilations=_pair(dilation),
            padding=padding, activation=activation,
        )  # fmt: skip

    def depthwise(
        self,
        x: int,
        kernel: int | Pair = 3,
        stride: int = 1,
        *,
        multiplier: int = 1,
        dilation: int = 1,
        activation: str = "relu6",
    ) -> int:
        """A depthwise convolution."""
        channels = self.shape(x)[-1] * multiplier
        weights = self._weights((1, *_pair(kernel), channels), 3)
        return self.writer.depthwise_conv_2d(
            x, weights, self._bias(channels), SCALE, strides=_pair(stride), dilations=_pair(dilation),
            activation=activation,
        )  # fmt: skip

    def transpose_conv(self, x: int, channels: int, kernel: int = 2, stride: int = 2) -> int:
        """A transposed convolution that multiplies height and width by its stride."""
        _, height, width, depth = self.shape(x)
        shape = (1, height * stride, width * stride, channels)
        weights = self._weights((channels, kernel, kernel, depth), 0)
        return self.writer.operator(
            "TRANSPOSE_CONV", (self._sizes(shape), weights, x, self._bias(channels)), _like(shape), version=3,
            options="TransposeConvOptions", fields=window_fields((stride, stride), "same", "none"),
        )  # fmt: skip

    def fully_connected(self, x: int, units: int, activation: str = "none") -> int:
        """A matrix product with all elements of a tensor."""
        depth = prod(self.shape(x))
        weights, bias = self._weights((units, depth), None), self._bias(units, one_scale=True)
        return self.writer.fully_connected(x, weights, bias, SCALE, activation=activation)

    def add(self, a: int, b: int, activation: str = "none") -> int:
        """A sum."""
        return self.writer.add(a, b, SCALE, activation=activation)

    def sub(self, a: int, b: int) -> int:
        """A difference."""
        return self.writer.sub(a, b, SCALE)

    def mul(self, a: int, b: int) -> int:
        """A product; either may have one element along an axis."""
        return self.writer.mul(a, b, SCALE)

    def extreme(self, code: str, a: int, b: int) -> int:
        """MAXIMUM or MINIMUM of two tensors."""
        return self.writer.operator(code, (a, b), _like(self.shape(a)), options="MaximumMinimumOptions")

    def unary(self, code: str, x: int) -> int:
        """An operator of one tensor without options, such as HARD_SWISH or LOGISTIC."""
        scale = {"LOGISTIC": SOFTMAX_INT8, "TANH": Quantization((1 / 128,), (0,))}.get(code, SCALE)
        options = "HardSwishOptions" if code == "HARD_SWISH" else ""
        return self.writer.operator(code, (x,), _like(self.shape(x), scale), options=options)

    def leaky_relu(self, x: int) -> int:
        """A tenth of what is negative."""
        return self.writer.operator(
            "LEAKY_RELU", (x,), _like(self.shape(x)), options="LeakyReluOptions", fields={"Alpha": 0.1}
        )

    def prelu(self, x: int) -> int:
        """A share of what is negative, of its own for each channel."""
        codes = self._codes((1, 1, self.shape(x)[-1]))
        slopes = self.writer.constant(self._name("slopes"), codes, Quantization((_WEIGHT_SCALE,), (0,)))
        return self.writer.operator("PRELU", (x, slopes), _like(self.shape(x)))

    def max_pool(self, x: int, size: int | Pair = 2, stride: int | Pair = 2, padding: str = "valid") -> int:
        """The maximum of windows."""
        return self.writer.max_pool_2d(x, _pair(size), strides=_pair(stride), padding=padding)

    def average_pool(
        self, x: int, size: int | Pair = 2, stride: int | Pair = 2, padding: str = "valid"
    ) -> int:
        """The mean of windows."""
        return self.writer.average_pool_2d(x, _pair(size), strides=_pair(stride), padding=padding)

    def global_pool(self, x: int) -> int:
        """AVERAGE_POOL_2D over the plane."""
        height, width = self.shape(x)[1:3]
        return self.writer.average_pool_2d(x, (height, width))

    def mean(self, x: int) -> int:
        """MEAN over the plane, which stays as one pixel."""
        return self.writer.mean(x, (1, 2), SCALE, keep_dims=True)

    def concat(self, *parts: int) -> int:
        """Channels behind each other."""
        return self.writer.concatenation(parts, 3)

    def split(self, x: int, parts: int) -> tuple[int, ...]:
        """Channels in equal parts."""
        *plane, channels = self.shape(x)
        axis = self.writer.constant(self._name("axis"), np.array(3, np.int32))
        outputs = [_like((*plane, channels // parts))] * parts
        return self.writer.operator_of_many(
            "SPLIT", (axis, x), outputs, options="SplitOptions", fields={"NumSplits": parts}
        )

    def channels(self, x: int, first: int, last: int) -> int:
        """STRIDED_SLICE of some channels."""
        *plane, _ = self.shape(x)
        ends = [(0, 0, 0, first), (*plane, last), (1, 1, 1, 1)]
        return self.writer.operator(
            "STRIDED_SLICE", (x, *map(self._sizes, ends)), _like((*plane, last - first)),
            options="StridedSliceOptions",
        )  # fmt: skip

    def resize(self, x: int, code: str = "RESIZE_NEAREST_NEIGHBOR", factor: int = 2) -> int:
        """An image that is larger by a factor."""
        batch, height, width, channels = self.shape(x)
        size = (height * factor, width * factor)
        options = "ResizeBilinearOptions" if code == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
        return self.writer.operator(
            code, (x, self._sizes(size)), _like((batch, *size, channels)), options=options
        )

    def pad(self, x: int, margin: int) -> int:
        """Zeros around an image."""
        return self.writer.pad(x, ((0, 0), (margin, margin), (margin, margin), (0, 0)))

    def reshape(self, x: int, *shape: int) -> int:
        """The same elements in another shape."""
        return self.writer.reshape(x, shape)

    def transpose(self, x: int, *order: int) -> int:
        """Axes in another order."""
        shape = tuple(self.shape(x)[axis] for axis in order)
        return self.writer.operator(
            "TRANSPOSE", (x, self._sizes(order)), _like(shape), options="TransposeOptions"
        )

    def softmax(self, x: int) -> int:
        """Probabilities of the last axis."""
        return self.writer.softmax(x)

    def classes(self, x: int, count: int) -> bytes:
        """Probabilities of classes as the output, and the file."""
        return self.finish(self.softmax(self.fully_connected(x, count)))

    def finish(self, *outputs: int) -> bytes:
        """The file."""
        return self.writer.finish(outputs)

    def _codes(self, shape: Shape) -> Array:
        drawn = self._random.standard_normal(shape)
        values = np.sign(drawn) * np.abs(drawn) ** self._tail
        codes = np.clip(np.rint(values * (127 / 4**self._tail)), -127, 127).astype(np.int8)
        if self._zeros:
            codes[self._random.random(shape) < self._zeros] = 0
        return codes

    def _weights(self, shape: Shape, axis: int | None) -> int:
        scales = Quantization((_WEIGHT_SCALE,), (0,))
        if axis is not None:
            scales = per_channel(np.full(shape[axis], _WEIGHT_SCALE), axis)
        return self.writer.constant(self._name("weights"), self._codes(shape), scales)

    def _bias(self, channels: int, one_scale: bool = False) -> int:
        scale = _WEIGHT_SCALE * SCALE.scale
        scales = Quantization((scale,), (0,)) if one_scale else per_channel(np.full(channels, scale), 0)
        codes = self._random.integers(-500, 500, channels).astype(np.int32)
        return self.writer.constant(self._name("bias"), codes, scales)

    def _sizes(self, sizes: Sequence[int]) -> int:
        return self.writer.constant(self._name("sizes"), np.array(sizes, np.int32))

    def _name(self, what: str) -> str:
        self._names = getattr(self, "_names", 0) + 1
        return f"{what}_{self._names}"


def _pair(value: int | Pair) -> Pair:
    return (value, value) if isinstance(value, int) else value


def _like(shape: Shape, scale: Quantization = SCALE) -> TensorType:
    return TensorType("int8", tuple(shape), scale)
