"""The published network topologies, as int8 TensorFlow Lite files with random weights.

Operators are those that a converter emits: batch normalization folded into the convolutions, activations
fused, PAD only where the padding is not TFLite's "same". Each function returns the bytes of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from npusim.models.synthesis import RandomNetwork, Signal

CLASSES = 1000

# Standard deviation of the values that enter the activations. relu6 clips at 4 deviations.
_RELU6_SPREAD = 1.5
_LOGITS_SPREAD = 4.0

# Output channels and stride of the depthwise separable convolutions.
_MOBILENET_V1_BLOCKS = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1),
)  # fmt: skip

# Expansion, output channels, number of blocks and stride of the first one.
_MOBILENET_V2_STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


def mobilenet_v1() -> bytes:
    """Return MobileNet v1 1.0 224 (arXiv 1704.04861, table 1), ending in AVERAGE_POOL_2D and a 1x1 convolution."""
    network = RandomNetwork("mobilenet_v1", seed=1)
    x = network.input((1, 224, 224, 3), -1.0, 1.0)
    x = _mobilenet_v1(network, x, 1.0, activation="relu6", spread=_RELU6_SPREAD)
    x = network.conv_2d(x, CLASSES, (1, 1), "logits/conv", spread=_LOGITS_SPREAD)
    return network.finish(network.reshape(x, (1, CLASSES), "logits"))


def vww_mobilenet() -> bytes:
    """Return MobileNet v1 0.25 for visual wake words as in MLPerf Tiny: 96x96 pixels, person or not."""
    network = RandomNetwork("vww_mobilenet", seed=5)
    x = network.input((1, 96, 96, 3), 0.0, 1.0)
    x = _mobilenet_v1(network, x, 0.25, activation="relu")
    x = network.reshape(x, (1, 256), "features")
    return network.finish(network.fully_connected(x, 2, "logits", spread=_LOGITS_SPREAD))


def mobilenet_v2() -> bytes:
    """Return MobileNet v2 1.0 224 (arXiv 1801.04381, table 2), ending in MEAN and FULLY_CONNECTED."""
    network = RandomNetwork("mobilenet_v2", seed=2)
    x = network.input((1, 224, 224, 3), -1.0, 1.0)
    x = network.conv_2d(x, 32, (3, 3), "conv", stride=2, activation="relu6", spread=_RELU6_SPREAD)
    for stage, (expansion, channels, repeats, first_stride) in enumerate(_MOBILENET_V2_STAGES, start=1):
        for block in range(repeats):
            stride = first_stride if block == 0 else 1
            x = _inverted_residual(network, x, f"stage_{stage}/block_{block}", expansion, channels, stride)
    x = network.conv_2d(x, 1280, (1, 1), "conv_last", activation="relu6", spread=_RELU6_SPREAD)
    x = network.global_mean(x, "pool")
    return network.finish(network.fully_connected(x, CLASSES, "logits", spread=_LOGITS_SPREAD))


def resnet18() -> bytes:
    """Return ResNet-18 (arXiv 1512.03385, table 1)."""
    return _resnet(RandomNetwork("resnet18", seed=18), _basic_block, (2, 2, 2, 2))


def resnet50() -> bytes:
    """Return ResNet-50 v1.5: table 1 of arXiv 1512.03385 with the stride in the 3x3 convolution."""
    return _resnet(RandomNetwork("resnet50", seed=50), _bottleneck_block, (3, 4, 6, 3))


def resnet8() -> bytes:
    """Return ResNet-8 for CIFAR-10 as in MLPerf Tiny: 32x32 pixels, three stages of one block each, 10 classes."""
    network = RandomNetwork("resnet8", seed=8)
    x = network.conv_2d(network.input((1, 32, 32, 3), 0.0, 255.0), 16, (3, 3), "conv", activation="relu")
    for stage, (channels, stride) in enumerate([(16, 1), (32, 2), (64, 2)], start=1):
        name = f"stage_{stage}"
        y = network.conv_2d(x, channels, (3, 3), f"{name}/conv_1", stride=stride, activation="relu")
        y = network.conv_2d(y, channels, (3, 3), f"{name}/conv_2")
        x = network.add(_shortcut(network, x, name, channels, stride), y, f"{name}/add", activation="relu")
    x = network.reshape(network.global_average_pool(x, "pool"), (1, 64), "features")
    return network.finish(network.fully_connected(x, 10, "logits", spread=_LOGITS_SPREAD))


def ds_cnn() -> bytes:
    """Return DS-CNN for keyword spotting as in MLPerf Tiny: 49 frames of 10 MFCC features, 12 words."""
    network = RandomNetwork("ds_cnn", seed=4)
    x = network.input((1, 49, 10, 1), -123.0, 26.0)
    x = network.conv_2d(x, 64, (10, 4), "conv", stride=2, activation="relu")
    for block in range(4):
        x = network.depthwise_conv_2d(x, (3, 3), f"block_{block}/depthwise", activation="relu")
        x = network.conv_2d(x, 64, (1, 1), f"block_{block}/pointwise", activation="relu")
    x = network.global_average_pool(x, "pool")
    x = network.reshape(x, (1, 64), "features")
    return network.finish(network.fully_connected(x, 12, "logits", spread=_LOGITS_SPREAD))


def _mobilenet_v1(network: RandomNetwork, x: Signal, width: float, **activated: Any) -> Signal:
    """Return the features of MobileNet v1, averaged over the image. `width` multiplies the number of channels.

    activated: the activation of all layers, and the spread of what enters it (`RandomNetwork.conv_2d`).
    """
    x = network.conv_2d(x, round(32 * width), (3, 3), "conv_0", stride=2, **activated)
    for number, (channels, stride) in enumerate(_MOBILENET_V1_BLOCKS, start=1):
        x = network.depthwise_conv_2d(x, (3, 3), f"conv_{number}/depthwise", stride=stride, **activated)
        x = network.conv_2d(x, round(channels * width), (1, 1), f"conv_{number}/pointwise", **activated)
    return network.global_average_pool(x, "pool")


def _depthwise_relu6(network: RandomNetwork, x: Signal, name: str, stride: int) -> Signal:
    return network.depthwise_conv_2d(x, (3, 3), name, stride=stride, activation="relu6", spread=_RELU6_SPREAD)


def _inverted_residual(
    network: RandomNetwork, x: Signal, name: str, expansion: int, channels: int, stride: int
) -> Signal:
    depth = x.channels
    y = x
    if expansion != 1:
        y = network.conv_2d(
            y, depth * expansion, (1, 1), f"{name}/expand", activation="relu6", spread=_RELU6_SPREAD
        )
    y = _depthwise_relu6(network, y, f"{name}/depthwise", stride)
    y = network.conv_2d(y, channels, (1, 1), f"{name}/project")
    return network.add(x, y, f"{name}/add") if stride == 1 and channels == depth else y


def _resnet(network: RandomNetwork, add_block: Callable[..., Signal], repeats: Sequence[int]) -> bytes:
    """Return a ResNet whose stages repeat a block; the first block of each later stage halves rows and columns."""
    x = _resnet_stem(network)
    for stage, (channels, blocks) in enumerate(zip((64, 128, 256, 512), repeats, strict=True)):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            x = add_block(network, x, f"stage_{stage + 1}/block_{block}", channels, stride)
    x = network.global_mean(x, "pool")
    return network.finish(network.fully_connected(x, CLASSES, "logits", spread=_LOGITS_SPREAD))


def _resnet_stem(network: RandomNetwork) -> Signal:
    # The usual normalization of ImageNet pixels: (pixel / 255 - 0.45) / 0.225, about.
    x = network.input((1, 224, 224, 3), -2.12, 2.64)
    x = network.pad(x, 3, "stem/pad")
    x = network.conv_2d(x, 64, (7, 7), "stem/conv", stride=2, padding="valid", activation="relu")
    # After a relu, zeros around the image do not change a maximum.
    x = network.pad(x, 1, "stem/pool_pad")
    return network.max_pool_2d(x, 3, 2, "stem/pool")


def _conv_3x3(
    network: RandomNetwork, x: Signal, channels: int, name: str, stride: int, activation: str
) -> Signal:
    if stride == 1:
        return network.conv_2d(x, channels, (3, 3), name, activation=activation)
    # One row and column of zeros on every side; TFLite's "same" would pad only below and to the right.
    x = network.pad(x, 1, f"{name}_pad")
    return network.conv_2d(x, channels, (3, 3), name, stride=stride, padding="valid", activation=activation)


def _basic_block(network: RandomNetwork, x: Signal, name: str, channels: int, stride: int) -> Signal:
    y = _conv_3x3(network, x, channels, f"{name}/conv_1", stride, "relu")
    y = _conv_3x3(network, y, channels, f"{name}/conv_2", 1, "none")
    return network.add(_shortcut(network, x, name, channels, stride), y, f"{name}/add", activation="relu")


def _bottleneck_block(network: RandomNetwork, x: Signal, name: str, channels: int, stride: int) -> Signal:
    y = network.conv_2d(x, channels, (1, 1), f"{name}/conv_1", activation="relu")
    y = _conv_3x3(network, y, channels, f"{name}/conv_2", stride, "relu")
    y = network.conv_2d(y, 4 * channels, (1, 1), f"{name}/conv_3")
    return network.add(_shortcut(network, x, name, 4 * channels, stride), y, f"{name}/add", activation="relu")


def _shortcut(network: RandomNetwork, x: Signal, name: str, channels: int, stride: int) -> Signal:
    if stride == 1 and x.channels == channels:
        return x
    return network.conv_2d(x, channels, (1, 1), f"{name}/shortcut", stride=stride)
