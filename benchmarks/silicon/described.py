"""Networks as lists of what each operator asks of a processor, from papers and public sources that describe them.

They stand in for model files that may not be redistributed, and for those that are not at hand. All are 8-bit networks
as the TFLite converter makes them, with codes of the image taken to other ones first and results to reals at the end
where `deployed` says so.
"""

from __future__ import annotations

from itertools import pairwise

from npusim.isa.base.elements import Workload

Network = list[Workload]


def convolution(
    size: int, inputs: int, outputs: int, kernel: int, stride: int = 1, width: int = 0
) -> Workload:
    """A padded convolution of a size x (width or size) feature map; `kernel` counts window elements."""
    width = width or size
    pixels = -(-size // stride) * -(-width // stride)
    return Workload(
        "gemm",
        macs=pixels * outputs * kernel * inputs,
        inner_k=kernel * inputs,
        weight_bytes=outputs * (kernel * inputs + 4),
        input_bytes=size * width * inputs,
        output_bytes=pixels * outputs,
    )


def depthwise(size: int, channels: int, stride: int = 1, width: int = 0, kernel: int = 9) -> Workload:
    """A padded depthwise convolution, likewise."""
    width = width or size
    pixels = -(-size // stride) * -(-width // stride)
    return Workload(
        "depthwise",
        macs=pixels * channels * kernel,
        inner_k=kernel,
        weight_bytes=channels * (kernel + 4),
        input_bytes=size * width * channels,
        output_bytes=pixels * channels,
    )


def dense(inputs: int, outputs: int) -> Workload:
    """A fully connected layer."""
    return convolution(1, inputs, outputs, 1)


def elementwise(elements: int, inputs: int = 1, rescaled: bool = True) -> Workload:
    """A function of one or more values to one, of another scale unless it is not `rescaled`."""
    return Workload(
        "elementwise",
        elements=elements,
        rescaled=elements if rescaled else 0,
        input_bytes=inputs * elements,
        output_bytes=elements,
    )


def mean(size: int, channels: int) -> Workload:
    """A global average."""
    elements = size * size * channels
    return Workload("elementwise", elements=elements, input_bytes=elements, output_bytes=channels)


def pool(size: int, channels: int, window: int) -> Workload:
    """A pool with stride 1; `window` counts its elements."""
    values = size * size * channels
    return Workload("elementwise", elements=window * values, input_bytes=values, output_bytes=values)


def deployed(network: Network, pixels: int, results: int) -> Network:
    """With the image in other codes first, and the results as reals at the end."""
    reals = Workload("elementwise", elements=results, input_bytes=results, output_bytes=4 * results)
    return [elementwise(pixels, rescaled=False), *network, reals]


def mobilenet_v1(alpha: float = 1.0, size: int = 224, classes: int = 1001, inputs: int = 3) -> Network:
    """Howard et al. 2017, table 1."""
    channels = int(32 * alpha)
    network = [convolution(size, inputs, channels, 9, 2)]
    size = -(-size // 2)
    blocks = [
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        *[(512, 1)] * 5,
        (1024, 2),
        (1024, 1),
    ]
    for wide, stride in blocks:
        outputs = int(wide * alpha)
        network += _separable(size, channels, outputs, stride)
        size, channels = -(-size // stride), outputs
    return [*network, mean(size, channels), dense(channels, classes), elementwise(classes)]


def _separable(size: int, channels: int, outputs: int, stride: int = 1) -> Network:
    return [
        depthwise(size, channels, stride),
        convolution(-(-size // stride), channels, outputs, 1),
    ]


def wide(channels: int, alpha: float) -> int:
    """A multiple of 8 near a fraction of the channels, not below 90 % of it."""
    least = channels * alpha
    multiple = max(8, int(least + 4) // 8 * 8)
    return multiple if multiple >= 0.9 * least else multiple + 8


def mobilenet_v2(alpha: float = 1.0, size: int = 224, classes: int = 1001) -> Network:
    """Sandler et al. 2018, table 2."""
    last = wide(1280, max(alpha, 1.0))
    body = mobilenet_v2_body(alpha, size)
    return [*body, mean(-(-size // 32), last), dense(last, classes), elementwise(classes)]


def mobilenet_v2_body(alpha: float, size: int) -> Network:
    """Up to the last convolution."""
    channels = wide(32, alpha)
    network, size = [convolution(size, 3, channels, 9, 2)], -(-size // 2)
    blocks = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    for expansion, width, count, first_stride in blocks:
        outputs = wide(width, alpha)
        for index in range(count):
            stride = first_stride if index == 0 else 1
            inner = channels * expansion
            if expansion > 1:
                network.append(convolution(size, channels, inner, 1))
            network += _separable(size, inner, outputs, stride)
            size = -(-size // stride)
            if index > 0:
                network.append(elementwise(size * size * outputs, 2))
            channels = outputs
    return [*network, convolution(size, channels, wide(1280, max(alpha, 1.0)), 1)]


def ssd_mobilenet_v2(size: int, alpha: float = 0.35) -> Network:
    """SSD with a pyramid of 128 channels (FPN-lite) on MobileNet v2: STMicroelectronics/stm32ai-modelzoo,
    object_detection/src/models/ssd_mobilenet_v2_fpnlite.py; six anchors at each place, assumed.
    """
    network = mobilenet_v2_body(alpha, size)
    sides = [-(-size // scale) for scale in (8, 16, 32, 64, 128)]
    for side, channels in zip(sides[:3], (wide(32, alpha), wide(96, alpha), 1280), strict=True):
        network.append(convolution(side, channels, 128, 1))
    for side in (sides[2], sides[1]):
        values = 4 * side * side * 128
        network.append(Workload("elementwise", elements=values, input_bytes=values // 4, output_bytes=values))
        network += [elementwise(values, 2), *_separable(2 * side, 128, 128)]
    network += [*_separable(sides[2], 128, 128, 2), *_separable(sides[3], 128, 128, 2)]
    for side in sides:
        for outputs in (128, 128, 128, 128, 12, 24):
            network += _separable(side, 128, outputs)
    anchors = 6 * sum([side * side for side in sides])
    return [*network, elementwise(2 * anchors)]


def resnet_8() -> Network:
    """MLPerf Tiny image classification, 32 x 32 x 3."""
    network, size, channels = [convolution(32, 3, 16, 9)], 32, 16
    for outputs, stride in ((16, 1), (32, 2), (64, 2)):
        network += _residual(size, channels, outputs, stride)
        size, channels = size // stride, outputs
    return [*network, elementwise(4096), dense(64, 10), elementwise(10)]


def resnet_32() -> Network:
    """He et al. 2015, section 4.2, n = 5, 100 classes; shortcuts are convolutions as those of ResNet-8."""
    network, size, channels = [convolution(32, 3, 16, 9)], 32, 16
    for outputs, first_stride in ((16, 1), (32, 2), (64, 2)):
        for stride in (first_stride, 1, 1, 1, 1):
            network += _residual(size, channels, outputs, stride)
            size, channels = size // stride, outputs
    return [*network, mean(8, 64), dense(64, 100), elementwise(100)]


def _residual(size: int, channels: int, outputs: int, stride: int) -> Network:
    shortcut = [convolution(size, channels, outputs, 1, 2)] if stride == 2 else []
    small = size // stride
    return [
        *shortcut,
        convolution(size, channels, outputs, 9, stride),
        convolution(small, outputs, outputs, 9),
        elementwise(small * small * outputs, 2),
    ]


def ds_cnn() -> Network:
    """MLPerf Tiny keyword spotting, 49 x 10 features."""
    network = [convolution(49, 1, 64, 40, 2, width=10)]
    for _ in range(4):
        network += [depthwise(25, 64, width=5), convolution(25, 64, 64, 1, width=5)]
    return [*network, elementwise(125 * 64), dense(64, 12), elementwise(12)]


def autoencoder() -> Network:
    """MLPerf Tiny anomaly detection."""
    widths = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)
    return [dense(inputs, outputs) for inputs, outputs in pairwise(widths)]


def st_fdmobilenet(size: int) -> Network:
    """STMicroelectronics/stm32ai-modelzoo, image_classification: st_fdmobilenet_v1, five classes."""
    network, channels, size = [convolution(size, 3, 16, 9, 2)], 16, -(-size // 2)
    rows = ((48, 2), (80, 2), (64, 1), (96, 2), (64, 1), (128, 2), *[(128, 1)] * 4, (256, 1))
    for outputs, stride in rows:
        network += _separable(size, channels, outputs, stride)
        size, channels = -(-size // stride), outputs
    return [*network, mean(size, channels), dense(channels, 5), elementwise(5)]


def st_mnist() -> Network:
    """STMicroelectronics/stm32ai-modelzoo, image_classification: st_mnist_v1, 28 x 28, 36 classes."""
    return [
        convolution(28, 1, 16, 9, 2),
        depthwise(14, 16),
        convolution(14, 16, 32, 9),
        depthwise(14, 32, 2),
        convolution(7, 32, 64, 1),
        mean(7, 64),
        dense(64, 36),
        elementwise(36),
    ]


def st_yolo(size: int) -> Network:
    """STMicroelectronics/stm32ai-modelzoo, object_detection: st_yolo_lc_v1, five anchors and one class."""
    network, channels = [], 3
    for outputs in (16, 32, 64, 128):
        network.append(convolution(size, channels, outputs, 9, 2))
        size, channels = -(-size // 2), outputs
    network += [*_separable(size, 128, 256), *_separable(size, 256, 256), pool(size, 256, 4)]
    network += [*_separable(size, 256, 128), *_separable(size, 128, 256)]
    return [*network, convolution(size, 256, 30, 1)]


def st_efficientnet(size: int) -> Network:
    """STMicroelectronics/stm32ai-modelzoo, image_classification: st_efficientnet_lc_v1, width 0.45, expansion 3, with
    a gate of two convolutions, clip and sigmoid in each block; five classes.
    """
    channels, expansion = wide(32, 0.45), 1
    network, size = [convolution(size, 3, channels, 9, 2)], -(-size // 2)
    blocks = (
        (16, 1, 1, 9),
        (24, 2, 2, 9),
        (40, 2, 2, 25),
        (80, 3, 2, 9),
        (112, 3, 1, 25),
        (192, 4, 2, 25),
        (320, 1, 1, 9),
    )
    for width, count, first_stride, kernel in blocks:
        outputs = wide(width, 0.45)
        for index in range(count):
            stride, inner = (first_stride if index == 0 else 1), channels * expansion
            if expansion > 1:
                network.append(convolution(size, channels, inner, 1))
            network.append(depthwise(size, inner, stride, kernel=kernel))
            size = -(-size // stride)
            network += [*_gate(size, inner, channels // 4), convolution(size, inner, outputs, 1)]
            if stride == 1 and channels == outputs:
                network.append(elementwise(size * size * outputs, 2))
            channels = outputs
        expansion = 3
    last = wide(1280, 0.45)
    head = [convolution(size, channels, last, 1), mean(size, last), dense(last, 5)]
    return [*network, *head, elementwise(5)]


def _gate(size: int, channels: int, squeezed: int) -> Network:
    """Squeeze and excitation: means, two convolutions, minimum, maximum, sigmoid, product with every pixel."""
    clip, sigmoid = elementwise(channels, rescaled=False), elementwise(channels)
    return [
        mean(size, channels),
        dense(channels, squeezed),
        dense(squeezed, channels),
        *(clip, clip, sigmoid),
        elementwise(size * size * channels),
    ]
