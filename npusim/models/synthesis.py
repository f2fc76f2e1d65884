"""Networks with seeded random weights whose activations use the int8 range as those of trained networks do.

Trained networks keep their activations in range by batch normalization. The same is done here without running
the network: for every channel a few samples of its distribution are carried from layer to layer, and each
convolution is scaled and biased such that its output channels have the distribution that is wanted of them:

1. Weights are random and independent of the activations. Then the variance of a sum over inputs k is, on
   average over the output channels, sum(w_k^2 * variance_k), whatever the inputs have to do with each other.
2. Sums over many inputs are normally distributed; their samples go through activations, sums and pooling.
3. Padding is ignored.

A test compares this with what LiteRT computes. Errors do not build up: with centred channels, a difference
between the expected and the real mean of a channel shrinks from one relu layer to the next.
"""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Float64Array, Quantization, TensorType
from npusim.models.writer import ModelWriter, Pair, Shape, affine, per_channel, per_tensor

Codes = NDArray[np.int8]

SAMPLES = 32
"""Samples per channel; with these, mean and variance of a relu are right to 0.2 % (`_standard_samples`)."""

# A range covers this many standard deviations around the centre of each channel: 6 values in 100,000
# saturate, about what calibration on a hundred images gives.
_DEVIATIONS = 4.0

# Spread of the scale and offset of channels (batch normalization's gamma and beta), relative to the layer's.
_GAMMA_SPREAD = 0.2
_BETA_SPREAD = 0.25

# Variance of an average over the whole image, beyond that of independent positions: what neighbours share,
# and what the propagated mean of a channel misses. Measured with LiteRT on the `topologies`: 0.02 to 0.08.
_COMMON_VARIANCE = 0.06


@dataclass(frozen=True, slots=True)
class Signal:
    """A tensor and, per channel, samples of its elements [C, SAMPLES]: equally probable, in random order."""

    tensor: int
    samples: Float64Array

    @property
    def channels(self) -> int:
        """Length of the last axis."""
        return len(self.samples)

    def moments(self) -> tuple[Float64Array, Float64Array]:
        """Return mean and variance per channel."""
        mean = self.samples.mean(axis=1)
        return mean, np.square(self.samples).mean(axis=1) - mean * mean


class RandomNetwork:
    """A network under construction: each method adds an operator and returns its output."""

    def __init__(self, name: str, seed: int) -> None:
        description = f"{name}: published topology, random weights (seed {seed}), by npusim."
        self._writer = ModelWriter(name, description)
        # The raw stream of a bit generator is the only one that numpy promises never to change.
        self._bits = np.random.PCG64(seed)

    def input(self, shape: Shape, low: float, high: float) -> Signal:
        """Add the input, NHWC; its elements are assumed to be uniform over all quantized values."""
        quantization = affine(low, high)
        tensor = self._writer.input("input", TensorType("int8", shape, quantization))
        codes = (np.arange(SAMPLES) + 0.5) * (256 / SAMPLES) - 128.5
        values = (codes - quantization.zero_point) * quantization.scale
        return Signal(tensor, np.tile(values, (shape[-1], 1)))

    def conv_2d(
        self,
        x: Signal,
        channels: int,
        kernel: Pair,
        name: str,
        *,
        stride: int = 1,
        padding: str = "same",
        activation: str = "none",
        spread: float = 1.0,
    ) -> Signal:
        """Add a convolution with bias; `spread` is the standard deviation of its output before the activation."""
        codes = self._codes((channels, *kernel, x.channels))
        mean, variance = _dot_moments(codes, x)
        center, deviation = self._targets(channels, spread)
        weights, bias = self._filters(x, codes, deviation / np.sqrt(variance), 0, center, mean, name)
        tensor = self._writer.conv_2d(
            x.tensor, weights, bias, _range(center, deviation, activation),
            strides=(stride, stride), padding=padding, activation=activation, name=name,
        )  # fmt: skip
        return Signal(tensor, _activate(self._normal(center, deviation), activation))

    def depthwise_conv_2d(
        self,
        x: Signal,
        kernel: Pair,
        name: str,
        *,
        stride: int = 1,
        activation: str = "none",
        spread: float = 1.0,
    ) -> Signal:
        """Add a depthwise convolution with bias and "same" padding; see `conv_2d`."""
        codes = self._codes((1, *kernel, x.channels))
        taps = codes.reshape(-1, x.channels).astype(np.float64)
        mean, variance = x.moments()
        mean, variance = mean * taps.sum(axis=0), variance * np.square(taps).sum(axis=0)
        center, deviation = self._targets(x.channels, spread)
        weights, bias = self._filters(x, codes, deviation / np.sqrt(variance), 3, center, mean, name)
        tensor = self._writer.depthwise_conv_2d(
            x.tensor, weights, bias, _range(center, deviation, activation),
            strides=(stride, stride), activation=activation, name=name,
        )  # fmt: skip
        return Signal(tensor, _activate(self._normal(center, deviation), activation))

    def fully_connected(self, x: Signal, channels: int, name: str, *, spread: float) -> Signal:
        """Add a matrix product with bias; weights per tensor, as the specification of TFLite int8 wants them."""
        codes = self._codes((channels, x.channels))
        mean, variance = _dot_moments(codes, x)
        center, deviation = self._targets(channels, spread)
        # One scale for all channels, so the deviations are reached on average only.
        scale = np.sqrt(np.mean(deviation**2) / np.mean(variance))
        weights, bias = self._filters(x, codes, scale, None, center, mean, name)
        deviation = scale * np.sqrt(variance)
        tensor = self._writer.fully_connected(x.tensor, weights, bias, _range(center, deviation), name=name)
        return Signal(tensor, self._normal(center, deviation))

    def add(self, a: Signal, b: Signal, name: str, *, activation: str = "none") -> Signal:
        """Return the sum of two signals that are taken as independent."""
        total = Signal(-1, a.samples + b.samples)
        mean, variance = total.moments()
        quantization = _range(mean, np.sqrt(variance), activation)
        tensor = self._writer.add(a.tensor, b.tensor, quantization, activation=activation, name=name)
        return Signal(tensor, _activate(total.samples, activation))

    def pad(self, x: Signal, margin: int, name: str) -> Signal:
        """Add zeros on all four sides of the image."""
        tensor = self._writer.pad(x.tensor, ((0, 0), (margin, margin), (margin, margin), (0, 0)), name=name)
        return Signal(tensor, x.samples)

    def max_pool_2d(self, x: Signal, size: int, stride: int, name: str) -> Signal:
        """Add the maximum over square windows, without padding."""
        tensor = self._writer.max_pool_2d(x.tensor, (size, size), strides=(stride, stride), name=name)
        candidates = [self._shuffled(x.samples) for _ in range(size * size)]
        return Signal(tensor, np.maximum.reduce(candidates))

    def global_average_pool(self, x: Signal, name: str) -> Signal:
        """Return the mean over the whole image, as AVERAGE_POOL_2D: [N, 1, 1, C] with the scale of the input."""
        tensor = self._writer.average_pool_2d(x.tensor, self._image_size(x), name=name)
        return Signal(tensor, self._normal(*self._average(x)))

    def global_mean(self, x: Signal, name: str) -> Signal:
        """Return the mean over the whole image, as MEAN: [N, C] with a scale of its own."""
        center, deviation = self._average(x)
        tensor = self._writer.mean(x.tensor, (1, 2), _range(center, deviation), name=name)
        return Signal(tensor, self._normal(center, deviation))

    def reshape(self, x: Signal, shape: Shape, name: str) -> Signal:
        """Return the same elements in another shape; the last axis stays."""
        return Signal(self._writer.reshape(x.tensor, shape, name=name), x.samples)

    def finish(self, logits: Signal) -> bytes:
        """Add a softmax as the output, and return the file."""
        return self._writer.finish([self._writer.softmax(logits.tensor, name="probabilities")])

    def _average(self, x: Signal) -> tuple[Float64Array, Float64Array]:
        """Return centre and deviation per channel of the mean over the image."""
        mean, variance = x.moments()
        return mean, np.sqrt(variance * (1 / prod(self._image_size(x)) + _COMMON_VARIANCE))

    def _targets(self, channels: int, spread: float) -> tuple[Float64Array, Float64Array]:
        """Return the centre and deviation wanted of each output channel of a layer."""
        draws = np.frombuffer(self._random_bytes(2 * channels), np.uint8).reshape(2, channels)
        center, exponent = _normal_quantiles(256)[draws]
        return spread * _BETA_SPREAD * center, spread * np.exp(_GAMMA_SPREAD * exponent)

    def _filters(
        self,
        x: Signal,
        codes: Codes,
        scales: Float64Array | np.float64,
        axis: int | None,
        center: Float64Array,
        mean: Float64Array,
        name: str,
    ) -> tuple[int, int]:
        """Add weights, and the bias that moves the mean of their product with x to the wanted centre."""
        ifm = self._writer.type(x.tensor).quantization
        assert ifm is not None
        quantization = per_tensor(float(scales), 0) if axis is None else per_channel(scales, axis)
        bias_scales = np.array(quantization.scales) * ifm.scale
        bias_quantization = per_tensor(bias_scales[0], 0) if axis is None else per_channel(bias_scales, 0)
        bias_codes = np.rint(center / bias_scales - mean / ifm.scale).astype(np.int32)
        weights = self._writer.constant(f"{name}/weights", codes, quantization)
        return weights, self._writer.constant(f"{name}/bias", bias_codes, bias_quantization)

    def _image_size(self, x: Signal) -> Pair:
        _, height, width, _ = self._writer.type(x.tensor).shape
        return height, width

    def _normal(self, center: Float64Array, deviation: Float64Array) -> Float64Array:
        """Return samples of normal distributions, one per row."""
        samples = np.tile(_standard_samples(), (len(center), 1))
        return center[:, None] + deviation[:, None] * self._shuffled(samples)

    def _shuffled(self, samples: Float64Array) -> Float64Array:
        """Return every row rotated by its own random distance: on average, rows of two results are uncorrelated."""
        starts = np.frombuffer(self._random_bytes(len(samples)), np.uint8).astype(np.int64)
        columns = (starts[:, None] + np.arange(SAMPLES)) % SAMPLES
        return np.take_along_axis(samples, columns, axis=1)

    def _random_bytes(self, count: int) -> bytes:
        return np.asarray(self._bits.random_raw(-(-count // 8))).astype("<u8").tobytes()[:count]

    def _codes(self, shape: Shape) -> Codes:
        """Return normally distributed int8 weights over the whole range."""
        return np.frombuffer(self._random_bytes(prod(shape)).translate(_code_table()), np.int8).reshape(shape)


def _range(center: Float64Array, deviation: Float64Array, activation: str = "none") -> Quantization:
    """Return the quantization of the output of `activation` on channels with these distributions."""
    if activation == "relu6":
        # The bound of the activation is the bound of the codes, as converters choose it.
        return affine(0.0, 6.0)
    low = 0.0 if activation == "relu" else float((center - _DEVIATIONS * deviation).min())
    return affine(low, float((center + _DEVIATIONS * deviation).max()))


def _activate(samples: Float64Array, activation: str) -> Float64Array:
    if activation == "none":
        return samples
    return np.clip(samples, 0.0, 6.0 if activation == "relu6" else None)


def _dot_moments(codes: Codes, x: Signal) -> tuple[Float64Array, Float64Array]:
    """Return mean and variance of the dot product of each row of int8 weights [O, ..., I] with the elements of x."""
    # In float64, so that sums in another order on another machine still round to the same float32 scales.
    rows = codes.reshape(len(codes), -1).astype(np.float64)
    mean, variance = (np.tile(moment, rows.shape[1] // x.channels) for moment in x.moments())
    dot_mean = rows @ mean
    return dot_mean, np.square(rows, out=rows) @ variance


@cache
def _normal_quantiles(count: int) -> Float64Array:
    """Return the middles of `count` equally probable intervals of the standard normal distribution."""
    from statistics import NormalDist

    return np.array([NormalDist().inv_cdf((i + 0.5) / count) for i in range(count)])


@cache
def _standard_samples() -> Float64Array:
    """Return SAMPLES values that stand for the standard normal distribution: mean 0, variance 1, in no order."""
    samples = _normal_quantiles(SAMPLES).copy()
    # The middles of the outer intervals leave out the tails: they take over the missing variance.
    samples[-1] = np.sqrt(samples[-1] ** 2 + SAMPLES / 2 * (1 - np.mean(samples**2)))
    samples[0] = -samples[-1]
    return samples[np.arange(SAMPLES) * 13 % SAMPLES]


@cache
def _code_table() -> bytes:
    """Return for each value of a random byte a normally distributed int8 weight; the largest is 127."""
    quantiles = _normal_quantiles(256)
    codes: Codes = np.rint(quantiles * (127 / quantiles[-1])).astype(np.int8)
    return codes.tobytes()
