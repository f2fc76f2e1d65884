"""Trains and quantizes the built-in model digits_cnn: `python -m npusim.models.digits --output FOLDER`.

The data are the 1797 images of 8x8 pixels that come with scikit-learn (E. Alpaydin and C. Kaynak, Optical
Recognition of Handwritten Digits, UCI Machine Learning Repository, CC BY 4.0). 200 of them, drawn at random,
are the test set: they are used neither in training nor in calibration, nor to choose the settings below
(which were compared on parts of the training set left out for that).

Training takes about 20 s on one core. Everything random is seeded: the same numpy and BLAS on the same kind
of processor write the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from npusim.base.extras import missing
from npusim.isa.base.tensor import Float32Array, Quantization, TensorType
from npusim.models.training import (
    Adam,
    AveragePool2x2,
    Conv2D,
    Dense,
    DepthwiseConv2D,
    Layer,
    MaxPool2x2,
    Relu,
    cross_entropy,
)
from npusim.models.writer import ModelWriter, affine, per_channel, per_tensor

Labels = NDArray[np.int64]

TEST_IMAGES = 200
SEED = 0

_CHANNELS = (24, 48)
_EPOCHS = 40
_BATCH = 64
_LEARNING_RATE = 0.006
_WEIGHT_DECAY = 0.01
_LABEL_SMOOTHING = 0.05

# Standard deviations of the random distortions of training images: radians, relative size, pixels.
_ROTATION, _SCALING, _SHIFT = 0.15, 0.1, 0.4

INPUT_QUANTIZATION = affine(0.0, 1.0)


class DigitsNetwork:
    """A stem, a depthwise separable block with a shortcut, a second convolution, and the classifier."""

    def __init__(self, rng: np.random.Generator) -> None:
        few, many = _CHANNELS
        self.stem, self.stem_relu = Conv2D(rng, 3, 1, few), Relu()
        self.depthwise, self.depthwise_relu = DepthwiseConv2D(rng, 3, few), Relu()
        self.pointwise, self.add_relu, self.max_pool = Conv2D(rng, 1, few, few), Relu(), MaxPool2x2()
        self.conv, self.conv_relu, self.average_pool = Conv2D(rng, 3, few, many), Relu(), AveragePool2x2()
        self.classifier = Dense(rng, 2 * 2 * many, 10)

    @property
    def layers(self) -> list[Layer]:
        """The layers with parameters."""
        return [self.stem, self.depthwise, self.pointwise, self.conv, self.classifier]

    def forward(self, images: Float32Array) -> dict[str, Float32Array]:
        """Return all activations of a batch [N, 8, 8, 1] by name, "logits" among them."""
        y = {"stem": self.stem_relu.forward(self.stem.forward(images))}
        y["depthwise"] = self.depthwise_relu.forward(self.depthwise.forward(y["stem"]))
        y["pointwise"] = self.pointwise.forward(y["depthwise"])
        y["add"] = self.add_relu.forward(y["stem"] + y["pointwise"])
        y["conv"] = self.conv_relu.forward(self.conv.forward(self.max_pool.forward(y["add"])))
        y["logits"] = self.classifier.forward(self.average_pool.forward(y["conv"]))
        return y

    def backward(self, gradient: Float32Array) -> Float32Array:
        """Set the gradients of all layers from the gradient by the logits; return the gradient by the images."""
        gradient = self.average_pool.backward(self.classifier.backward(gradient))
        gradient = self.max_pool.backward(self.conv.backward(self.conv_relu.backward(gradient)))
        shortcut = self.add_relu.backward(gradient)
        branch = self.depthwise_relu.backward(self.pointwise.backward(shortcut))
        return self.stem.backward(self.stem_relu.backward(shortcut + self.depthwise.backward(branch)))


def load_data() -> tuple[Float32Array, Labels, Float32Array, Labels]:
    """Return training images and labels, test images and labels; images [N, 8, 8, 1] from 0 to 1."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = (data.images[..., None] / 16).astype(np.float32)
    labels = data.target.astype(np.int64)
    order = np.random.default_rng(SEED).permutation(len(images))
    test, training = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return images[training], labels[training], images[test], labels[test]


def train(images: Float32Array, labels: Labels, epochs: int = _EPOCHS, seed: int = SEED) -> DigitsNetwork:
    """Return a trained network; the learning rate falls to zero along a cosine."""
    rng = np.random.default_rng(seed)
    network = DigitsNetwork(rng)
    optimizer = Adam(network.layers, _WEIGHT_DECAY)
    steps = epochs * (len(images) // _BATCH)
    batches = (batch for _ in range(epochs) for batch in _batches(images, labels, rng))
    for step, (batch, batch_labels) in enumerate(batches):
        logits = network.forward(batch)["logits"]
        _, gradient = cross_entropy(logits, batch_labels, _LABEL_SMOOTHING)
        network.backward(gradient)
        optimizer.step(_LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * step / steps)))
    return network


def _batches(
    images: Float32Array, labels: Labels, rng: np.random.Generator
) -> Iterator[tuple[Float32Array, Labels]]:
    """Yield all images once, distorted, in random order; a last, incomplete batch is left out."""
    order = rng.permutation(len(images))
    distorted = distort(images[order], rng)
    for start in range(0, len(order) - _BATCH + 1, _BATCH):
        yield distorted[start : start + _BATCH], labels[order[start : start + _BATCH]]


def distort(images: Float32Array, rng: np.random.Generator) -> Float32Array:
    """Return every image [8, 8, 1] rotated, scaled and shifted by its own small random amounts."""
    count, size = len(images), images.shape[1]
    angle = rng.normal(0, _ROTATION, (count, 1, 1))
    zoom = np.exp(rng.normal(0, _SCALING, (2, count, 1, 1)))
    shift = rng.normal(0, _SHIFT, (2, count, 1, 1))
    center = (size - 1) / 2
    y, x = np.mgrid[:size, :size] - center
    rows = (np.cos(angle) * y - np.sin(angle) * x) * zoom[0] + shift[0] + center
    columns = (np.sin(angle) * y + np.cos(angle) * x) * zoom[1] + shift[1] + center
    return _sample(images, rows, columns)


def _sample(images: Float32Array, rows: NDArray[np.float64], columns: NDArray[np.float64]) -> Float32Array:
    """Return bilinear samples of each image at its positions [N, H, W], with zeros outside of the image."""
    size = images.shape[1]
    padded = np.pad(images[..., 0], ((0, 0), (1, 2), (1, 2)))
    rows, columns = np.clip(rows, -1, size) + 1, np.clip(columns, -1, size) + 1
    top, left = rows.astype(np.int64), columns.astype(np.int64)
    down, right = rows - top, columns - left
    image = np.arange(len(images))[:, None, None]
    upper = padded[image, top, left] * (1 - right) + padded[image, top, left + 1] * right
    lower = padded[image, top + 1, left] * (1 - right) + padded[image, top + 1, left + 1] * right
    sampled: Float32Array = (upper * (1 - down) + lower * down).astype(np.float32)[..., None]
    return sampled


def quantize_images(images: Float32Array) -> NDArray[np.int8]:
    """Return images from 0 to 1 as the quantized values that the model takes."""
    codes = np.rint(images / INPUT_QUANTIZATION.scale) + INPUT_QUANTIZATION.zero_point
    clipped: NDArray[np.int8] = np.clip(codes, -128, 127).astype(np.int8)
    return clipped


def quantize(network: DigitsNetwork, calibration_images: Float32Array) -> bytes:
    """Return the network as an int8 `.tflite` file; activations have the ranges that they have on these images."""
    activations = network.forward(calibration_images)
    ranges = {name: affine(float(y.min()), float(y.max())) for name, y in activations.items()}
    writer = ModelWriter("digits_cnn", "digits_cnn: handwritten digits, trained by npusim.models.digits.")
    image = writer.input("image", TensorType("int8", (1, 8, 8, 1), INPUT_QUANTIZATION))

    operands = _operands(writer, network.stem, image, "stem", axis=0)
    stem = writer.conv_2d(image, *operands, ranges["stem"], activation="relu", name="stem")
    operands = _operands(writer, network.depthwise, stem, "depthwise", axis=3)
    x = writer.depthwise_conv_2d(stem, *operands, ranges["depthwise"], activation="relu", name="depthwise")
    operands = _operands(writer, network.pointwise, x, "pointwise", axis=0)
    x = writer.conv_2d(x, *operands, ranges["pointwise"], name="pointwise")
    x = writer.add(stem, x, ranges["add"], activation="relu", name="add")
    x = writer.max_pool_2d(x, (2, 2), name="max_pool")
    operands = _operands(writer, network.conv, x, "conv", axis=0)
    x = writer.conv_2d(x, *operands, ranges["conv"], activation="relu", name="conv")
    x = writer.average_pool_2d(x, (2, 2), name="average_pool")
    x = writer.reshape(x, (1, writer.type(x).elements), name="features")
    operands = _operands(writer, network.classifier, x, "logits", axis=None)
    x = writer.fully_connected(x, *operands, ranges["logits"], name="logits")
    return writer.finish([writer.softmax(x, name="probabilities")])


def _operands(writer: ModelWriter, layer: Layer, ifm: int, name: str, axis: int | None) -> tuple[int, int]:
    """Add constants for weights (symmetric, one scale per index of `axis`) and bias of a layer."""
    weights, bias = layer.parameters
    others = tuple(i for i in range(weights.ndim) if i != axis)
    largest = np.abs(weights).max(axis=None if axis is None else others)
    scales = np.maximum(largest, np.finfo(np.float32).tiny).astype(np.float32) / np.float32(127)
    shape = [-1 if i == axis else 1 for i in range(weights.ndim)]
    codes = np.rint(weights / scales.reshape(shape)).astype(np.int8)
    ifm_quantization = writer.type(ifm).quantization
    assert ifm_quantization is not None
    # Products of code and code have the product of both scales: so must the bias.
    bias_scales = scales.astype(np.float64) * ifm_quantization.scale
    bias_codes = np.rint(bias / bias_scales).astype(np.int32)
    return (
        writer.constant(f"{name}/weights", codes, _quantization(scales, axis)),
        writer.constant(f"{name}/bias", bias_codes, _quantization(bias_scales, None if axis is None else 0)),
    )


def _quantization(scales: NDArray[np.floating], axis: int | None) -> Quantization:
    return per_tensor(float(scales), 0) if axis is None else per_channel(scales, axis)


def main(arguments: list[str] | None = None) -> int:
    """Train, quantize and write digits_cnn.tflite and digits_test.npz, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m npusim.models.digits", description="Train digits_cnn.")
    parser.add_argument("--output", type=Path, default=Path(), help="folder to write to (here)")
    parser.add_argument(
        "--epochs", type=int, default=_EPOCHS, help="passes over the training set (%(default)s)"
    )
    options = parser.parse_args(arguments)
    try:
        images, labels, test_images, test_labels = load_data()
    except ImportError:
        print(missing("training digits_cnn, on data of scikit-learn,", "train"), file=sys.stderr)
        return 2
    options.output.mkdir(parents=True, exist_ok=True)
    network = train(images, labels, options.epochs)
    for what, x, truth in (("training", images, labels), ("test", test_images, test_labels)):
        right = network.forward(x)["logits"].argmax(axis=1) == truth
        print(f"float accuracy on {len(truth)} {what} images: {right.mean():.2%}")
    model = options.output / "digits_cnn.tflite"
    model.write_bytes(quantize(network, images))
    test_set = options.output / "digits_test.npz"
    np.savez_compressed(test_set, images=quantize_images(test_images), labels=test_labels)
    print(f"wrote {model} ({model.stat().st_size} bytes) and {test_set} ({test_set.stat().st_size} bytes)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
