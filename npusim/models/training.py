"""Layers with gradients, and the Adam optimizer, in numpy: what the training of digits_cnn needs.

Tensors are float32, NHWC; weights have the layouts of TensorFlow Lite. Convolutions have stride 1 and "same"
padding. A layer keeps from `forward` what the following `backward` needs.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Float32Array


class Layer(Protocol):
    """A differentiable function with parameters; `gradients` are those of the last `backward`."""

    parameters: list[Float32Array]
    gradients: list[Float32Array]

    def forward(self, x: Float32Array) -> Float32Array:
        """Return the output for a batch."""

    def backward(self, gradient: Float32Array) -> Float32Array:
        """Return the gradient by the last input, given that by the output."""


class Conv2D:
    """Convolution with weights [output channel, kernel, kernel, input channel] and a bias."""

    def __init__(self, rng: np.random.Generator, kernel: int, depth: int, channels: int) -> None:
        shape = (channels, kernel, kernel, depth)
        self.parameters = [_he_normal(rng, shape, kernel * kernel * depth), np.zeros(channels, np.float32)]
        self.gradients = [np.zeros_like(parameter) for parameter in self.parameters]

    def forward(self, x: Float32Array) -> Float32Array:
        weights, bias = self.parameters
        self._shape = x.shape
        self._patches = _patches(x, weights.shape[1]).reshape(-1, weights[0].size)
        y = self._patches @ weights.reshape(len(weights), -1).T + bias
        return y.reshape(*x.shape[:3], -1)

    def backward(self, gradient: Float32Array) -> Float32Array:
        weights, _ = self.parameters
        rows = gradient.reshape(-1, len(weights))
        self.gradients = [(rows.T @ self._patches).reshape(weights.shape), rows.sum(axis=0)]
        kernel = weights.shape[1]
        patches = (rows @ weights.reshape(len(weights), -1)).reshape(*self._shape[:3], kernel, kernel, -1)
        return _sum_of_patches(patches)


class DepthwiseConv2D:
    """Depthwise convolution with weights [1, kernel, kernel, channel] and a bias."""

    def __init__(self, rng: np.random.Generator, kernel: int, channels: int) -> None:
        shape = (1, kernel, kernel, channels)
        self.parameters = [_he_normal(rng, shape, kernel * kernel), np.zeros(channels, np.float32)]
        self.gradients = [np.zeros_like(parameter) for parameter in self.parameters]

    def forward(self, x: Float32Array) -> Float32Array:
        weights, bias = self.parameters
        self._patches = _patches(x, weights.shape[1])
        y: Float32Array = np.einsum("nhwijc,ijc->nhwc", self._patches, weights[0]) + bias
        return y

    def backward(self, gradient: Float32Array) -> Float32Array:
        weights, _ = self.parameters
        by_weights = np.einsum("nhwijc,nhwc->ijc", self._patches, gradient)
        self.gradients = [by_weights[None], gradient.sum(axis=(0, 1, 2))]
        return _sum_of_patches(gradient[:, :, :, None, None, :] * weights[0])


class Dense:
    """Fully connected layer on flattened input, with weights [output, input] and a bias."""

    def __init__(self, rng: np.random.Generator, depth: int, channels: int) -> None:
        self.parameters = [_he_normal(rng, (channels, depth), depth), np.zeros(channels, np.float32)]
        self.gradients = [np.zeros_like(parameter) for parameter in self.parameters]

    def forward(self, x: Float32Array) -> Float32Array:
        weights, bias = self.parameters
        self._x = x
        y: Float32Array = x.reshape(len(x), -1) @ weights.T + bias
        return y

    def backward(self, gradient: Float32Array) -> Float32Array:
        weights, _ = self.parameters
        self.gradients = [gradient.T @ self._x.reshape(len(gradient), -1), gradient.sum(axis=0)]
        return (gradient @ weights).reshape(self._x.shape)


class Relu:
    """max(x, 0)."""

    def __init__(self) -> None:
        self.parameters: list[Float32Array] = []
        self.gradients: list[Float32Array] = []

    def forward(self, x: Float32Array) -> Float32Array:
        self._positive = x > 0
        return x * self._positive

    def backward(self, gradient: Float32Array) -> Float32Array:
        return gradient * self._positive


class MaxPool2x2:
    """Maximum of windows of 2x2, stride 2."""

    def __init__(self) -> None:
        self.parameters: list[Float32Array] = []
        self.gradients: list[Float32Array] = []

    def forward(self, x: Float32Array) -> Float32Array:
        windows = _windows(x)
        y: Float32Array = windows.max(axis=(2, 4))
        largest = windows == y[:, :, None, :, None, :]
        # A gradient goes to all positions of the maximum in equal parts.
        self._share = largest / largest.sum(axis=(2, 4), keepdims=True, dtype=np.float32)
        return y

    def backward(self, gradient: Float32Array) -> Float32Array:
        return _image(self._share * gradient[:, :, None, :, None, :])


class AveragePool2x2:
    """Mean of windows of 2x2, stride 2."""

    def __init__(self) -> None:
        self.parameters: list[Float32Array] = []
        self.gradients: list[Float32Array] = []

    def forward(self, x: Float32Array) -> Float32Array:
        y: Float32Array = _windows(x).mean(axis=(2, 4))
        return y

    def backward(self, gradient: Float32Array) -> Float32Array:
        return (gradient / np.float32(4)).repeat(2, axis=1).repeat(2, axis=2)


class Adam:
    """Adam (arXiv 1412.6980) with weight decay apart from the gradient (AdamW, arXiv 1711.05101)."""

    def __init__(self, layers: list[Layer], weight_decay: float) -> None:
        self._layers = layers
        self._weight_decay = weight_decay
        self._moments = [[(np.zeros_like(p), np.zeros_like(p)) for p in layer.parameters] for layer in layers]
        self._steps = 0

    def step(self, learning_rate: float) -> None:
        """Move every parameter of the layers against its gradient."""
        self._steps += 1
        rate = learning_rate * np.sqrt(1 - 0.999**self._steps) / (1 - 0.9**self._steps)
        for layer, moments in zip(self._layers, self._moments, strict=True):
            rows = zip(layer.parameters, layer.gradients, moments, strict=True)
            for parameter, gradient, (first, second) in rows:
                first += (gradient - first) * np.float32(0.1)
                second += (gradient * gradient - second) * np.float32(0.001)
                if parameter.ndim > 1:  # biases do not decay
                    parameter *= np.float32(1 - learning_rate * self._weight_decay)
                parameter -= np.float32(rate) * first / (np.sqrt(second) + np.float32(1e-8))


def cross_entropy(
    logits: Float32Array, labels: NDArray[np.int64], smoothing: float
) -> tuple[float, Float32Array]:
    """Return the mean cross entropy with softmax and smoothed labels, and its gradient by the logits."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    classes = logits.shape[1]
    targets = np.full(logits.shape, smoothing / classes, np.float32)
    targets[np.arange(len(labels)), labels] += np.float32(1 - smoothing)
    loss = -(targets * log_probabilities).sum() / len(labels)
    return float(loss), (np.exp(log_probabilities) - targets) / np.float32(len(labels))


def _he_normal(rng: np.random.Generator, shape: tuple[int, ...], fan_in: int) -> Float32Array:
    """Return initial weights that keep the variance through a relu (arXiv 1502.01852)."""
    return rng.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / fan_in))


def _patches(x: Float32Array, kernel: int) -> Float32Array:
    """Return the surroundings of every pixel, zeros outside: [N, H, W, kernel, kernel, C]."""
    margin = kernel // 2
    padded = np.pad(x, ((0, 0), (margin, margin), (margin, margin), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(1, 2))
    return np.ascontiguousarray(windows.transpose(0, 1, 2, 4, 5, 3))


def _sum_of_patches(patches: Float32Array) -> Float32Array:
    """Return the transpose of `_patches`: every patch added where it was taken from."""
    count, height, width, kernel, _, depth = patches.shape
    margin = kernel // 2
    padded = np.zeros((count, height + 2 * margin, width + 2 * margin, depth), patches.dtype)
    for row in range(kernel):
        for column in range(kernel):
            padded[:, row : row + height, column : column + width] += patches[:, :, :, row, column]
    return padded[:, margin : margin + height, margin : margin + width]


def _windows(x: Float32Array) -> Float32Array:
    """Return [N, H, W, C] as windows of 2x2: [N, H/2, 2, W/2, 2, C]."""
    count, height, width, depth = x.shape
    return x.reshape(count, height // 2, 2, width // 2, 2, depth)


def _image(windows: Float32Array) -> Float32Array:
    """Return the inverse of `_windows`."""
    count, rows, _, columns, _, depth = windows.shape
    return windows.reshape(count, 2 * rows, 2 * columns, depth)
