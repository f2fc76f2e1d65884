"""Image networks after published families, small enough to compile in a second."""

from __future__ import annotations

from benchmarks.silicon.zoo.layers import Layers


def resnet20() -> bytes:
    """Of CIFAR: three stages of three basic blocks."""
    n = Layers("resnet20", seed=1)
    x = n.conv(n.input(32, 32, 3), 16)
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        for block in range(3):
            step = stride if block == 0 else 1
            y = n.conv(n.conv(x, channels, 3, step), channels, activation="none")
            x = n.add(x if n.shape(x) == n.shape(y) else n.conv(x, channels, 1, step), y, "relu")
    return n.classes(n.global_pool(x), 10)


def bottleneck() -> bytes:
    """Residual bottlenecks behind a 7 x 7 stem with a 3 x 3 pool."""
    n = Layers("bottleneck", seed=2)
    x = n.max_pool(n.conv(n.input(96, 96, 3), 32, 7, 2), 3, 2, "same")
    for channels, stride in ((32, 1), (48, 2), (80, 2)):
        y = n.conv(n.conv(n.conv(x, channels, 1), channels, 3, stride), 4 * channels, 1, activation="none")
        x = n.add(n.conv(x, 4 * channels, 1, stride, activation="none"), y, "relu")
        y = n.conv(n.conv(n.conv(x, channels, 1), channels), 4 * channels, 1, activation="none")
        x = n.add(x, y, "relu")
    return n.classes(n.mean(x), 100)


def preactivated() -> bytes:
    """Wide residual blocks in which a LEAKY_RELU comes before each convolution."""
    n = Layers("preactivated", seed=3, tail=1.0)
    x = n.conv(n.input(40, 40, 3), 24, activation="none")
    for channels, stride in ((24, 1), (48, 2), (96, 2)):
        y = n.conv(n.leaky_relu(x), channels, 3, stride, activation="none")
        y = n.conv(n.leaky_relu(y), channels, activation="none")
        x = n.add(n.conv(x, channels, 1, stride, activation="none"), y)
    return n.classes(n.global_pool(x), 10)


def vgg() -> bytes:
    """Pairs of 3 x 3 convolutions and large fully connected layers."""
    n = Layers("vgg", seed=4)
    x = n.input(64, 64, 3)
    for channels in (16, 32, 64, 128):
        x = n.max_pool(n.conv(n.conv(x, channels), channels))
    x = n.fully_connected(n.fully_connected(x, 512, "relu"), 256, "relu")
    return n.classes(x, 100)


def alexnet() -> bytes:
    """An 11 x 11 stem of stride 4, 3 x 3 pools that overlap, three fully connected layers."""
    n = Layers("alexnet", seed=5, zeros=0.3)
    x = n.max_pool(n.conv(n.input(127, 127, 3), 48, 11, 4, padding="valid"), 3, 2)
    x = n.max_pool(n.conv(x, 96, 5), 3, 2)
    x = n.conv(n.conv(n.conv(x, 128), 128), 96)
    x = n.max_pool(x, 3, 2)
    return n.classes(n.fully_connected(n.fully_connected(x, 512, "relu"), 512, "relu"), 200)


def densenet() -> bytes:
    """Dense blocks: each layer's 16 channels are joined to all before it."""
    n = Layers("densenet", seed=6)
    x = n.max_pool(n.conv(n.input(64, 64, 3), 32, 5, 2))
    for layers in (4, 6):
        for _ in range(layers):
            x = n.concat(x, n.conv(n.conv(x, 64, 1), 16))
        x = n.average_pool(n.conv(x, n.shape(x)[3] // 2, 1))
    return n.classes(n.global_pool(x), 50)


def inception() -> bytes:
    """Four branches of 1 x 1, 3 x 3, 5 x 5 and a pool, joined."""
    n = Layers("inception", seed=7)
    x = n.max_pool(n.conv(n.input(80, 80, 3), 32, 7, 2), 3, 2, "same")
    for channels in (32, 48, 64):
        a = n.conv(x, channels, 1)
        b = n.conv(n.conv(x, channels // 2, 1), channels)
        c = n.conv(n.conv(x, channels // 4, 1), channels // 2, 5)
        d = n.conv(n.max_pool(x, 3, 1, "same"), channels // 2, 1)
        x = n.concat(a, b, c, d)
    return n.classes(n.global_pool(n.max_pool(x, 3, 2, "same")), 60)


def inception_v3() -> bytes:
    """Kernels of 1 x 7 and 7 x 1, average pools of 3 x 3, a reduction by a pool beside a convolution."""
    n = Layers("inception_v3", seed=8)
    x = n.conv(n.conv(n.input(75, 75, 3), 32, 3, 2, padding="valid"), 48)
    x = n.max_pool(x, 3, 2)
    for _ in range(2):
        a = n.conv(n.conv(n.conv(x, 32, 1), 40, (1, 7)), 48, (7, 1))
        b = n.conv(n.average_pool(x, 3, 1, "same"), 32, 1)
        x = n.concat(n.conv(x, 48, 1), a, b)
    x = n.concat(n.conv(x, 96, 3, 2, padding="valid"), n.max_pool(x, 3, 2))
    return n.classes(n.global_pool(x), 40)


def squeezenet() -> bytes:
    """Fire modules."""
    n = Layers("squeezenet", seed=9, tail=2.0)
    x = n.max_pool(n.conv(n.input(96, 96, 3), 48, 3, 2), 3, 2)
    for squeeze, channels in ((16, 64), (16, 64), (32, 96), (48, 128)):
        y = n.conv(x, squeeze, 1)
        x = n.concat(n.conv(y, channels, 1), n.conv(y, channels))
    return n.finish(n.softmax(n.reshape(n.global_pool(n.conv(x, 80, 1)), 1, 80)))


def mobilenet_v1() -> bytes:
    """Half as wide, 112 x 112."""
    n = Layers("mobilenet_v1_050_112", seed=10)
    x = n.conv(n.input(112, 112, 3), 16, 3, 2, activation="relu6")
    for channels, stride in ((32, 1), (64, 2), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)):
        x = n.conv(n.depthwise(x, 3, stride), channels, 1, activation="relu6")
    return n.classes(n.global_pool(x), 100)


def _inverted(n: Layers, x: int, factor: int, channels: int, kernel: int, stride: int) -> int:
    y = n.conv(x, factor * n.shape(x)[3], 1, activation="relu6")
    y = n.conv(n.depthwise(y, kernel, stride), channels, 1, activation="none")
    return n.add(x, y) if n.shape(x) == n.shape(y) else y


def mobilenet_v2() -> bytes:
    """0.35, 96 x 96, odd channel numbers, MEAN."""
    n = Layers("mobilenet_v2_035_96", seed=11)
    x = n.conv(n.input(96, 96, 3), 11, 3, 2, activation="relu6")
    for factor, channels, stride in ((1, 7, 1), (6, 9, 2), (6, 9, 1), (6, 13, 2), (6, 13, 1), (6, 21, 2),
                                     (6, 21, 1), (6, 35, 1), (6, 57, 2)):  # fmt: skip
        x = _inverted(n, x, factor, channels, 3, stride)
    return n.classes(n.mean(n.conv(x, 320, 1, activation="relu6")), 20)


def mnasnet() -> bytes:
    """Inverted residuals with kernels of 3 x 3 and 5 x 5."""
    n = Layers("mnasnet", seed=12)
    x = n.conv(n.input(128, 128, 3), 16, 3, 2)
    for factor, channels, kernel, stride in ((3, 16, 3, 2), (3, 16, 3, 1), (3, 24, 5, 2), (3, 24, 5, 1),
                                             (6, 40, 5, 2), (6, 48, 3, 1), (6, 96, 5, 2)):  # fmt: skip
        x = _inverted(n, x, factor, channels, kernel, stride)
    return n.classes(n.global_pool(n.conv(x, 256, 1)), 100)


def _squeezed(n: Layers, x: int, gate: str) -> int:
    """Squeeze-excite: each channel times a gate of all channels."""
    channels = n.shape(x)[3]
    y = n.conv(n.mean(x), max(8, channels // 4), 1)
    y = n.conv(y, channels, 1, activation="none")
    return n.mul(x, n.unary(gate, y))


def mobilenet_v3() -> bytes:
    """HARD_SWISH, squeeze-excite with LOGISTIC gates, kernels of 5 x 5."""
    n = Layers("mobilenet_v3", seed=13)
    x = n.unary("HARD_SWISH", n.conv(n.input(96, 96, 3), 16, 3, 2, activation="none"))
    for factor, channels, kernel, stride, squeeze in (
        (1, 16, 3, 2, True), (4, 24, 3, 2, False), (4, 24, 3, 1, False), (4, 40, 5, 2, True),
        (6, 40, 5, 1, True), (3, 48, 5, 1, True),
    ):  # fmt: skip
        y = n.conv(x, factor * n.shape(x)[3], 1, activation="none")
        y = n.depthwise(n.unary("HARD_SWISH", y), kernel, stride, activation="relu")
        y = n.conv(_squeezed(n, y, "LOGISTIC") if squeeze else y, channels, 1, activation="none")
        x = n.add(x, y) if n.shape(x) == n.shape(y) else y
    return n.classes(n.global_pool(n.unary("HARD_SWISH", n.conv(x, 288, 1, activation="none"))), 50)


def efficientnet() -> bytes:
    """Swish as LOGISTIC and MUL, squeeze-excite."""
    n = Layers("efficientnet", seed=14)

    def swish(x: int) -> int:
        return n.mul(x, n.unary("LOGISTIC", x))

    x = swish(n.conv(n.input(96, 96, 3), 24, 3, 2, activation="none"))
    for factor, channels, kernel, stride in ((1, 16, 3, 1), (6, 24, 3, 2), (6, 40, 5, 2), (6, 80, 3, 2)):
        y = swish(n.conv(x, factor * n.shape(x)[3], 1, activation="none")) if factor > 1 else x
        y = swish(n.depthwise(y, kernel, stride, activation="none"))
        x = n.conv(_squeezed(n, y, "LOGISTIC"), channels, 1, activation="none")
    return n.classes(n.global_pool(n.conv(x, 256, 1)), 50)


def efficientnet_lite() -> bytes:
    """Without gates: relu6, kernels of 3 x 3 and 5 x 5."""
    n = Layers("efficientnet_lite", seed=15)
    x = n.conv(n.input(128, 128, 3), 32, 3, 2, activation="relu6")
    for factor, channels, kernel, stride in ((1, 16, 3, 1), (6, 24, 3, 2), (6, 24, 3, 1), (6, 40, 5, 2),
                                             (6, 40, 5, 1), (6, 80, 3, 2), (6, 112, 5, 1), (6, 192, 5, 2)):  # fmt: skip
        x = _inverted(n, x, factor, channels, kernel, stride)
    return n.classes(n.global_pool(n.conv(x, 640, 1, activation="relu6")), 200)


def shufflenet_v2() -> bytes:
    """Half of the channels pass; halves are joined and shuffled by RESHAPE and TRANSPOSE."""
    n = Layers("shufflenet_v2", seed=16)

    def branch(x: int, channels: int, stride: int) -> int:
        y = n.depthwise(n.conv(x, channels, 1), 3, stride, activation="none")
        return n.conv(y, channels, 1)

    def shuffled(x: int) -> int:
        _, height, width, channels = n.shape(x)
        y = n.transpose(n.reshape(x, 1, height * width, 2, channels // 2), 0, 1, 3, 2)
        return n.reshape(y, 1, height, width, channels)

    x = n.max_pool(n.conv(n.input(112, 112, 3), 24, 3, 2), 3, 2, "same")
    for channels, units in ((48, 2), (96, 3)):
        side = n.conv(n.depthwise(x, 3, 2, activation="none"), channels // 2, 1)
        x = shuffled(n.concat(side, branch(x, channels // 2, 2)))
        for _ in range(units):
            a, b = n.split(x, 2)
            x = shuffled(n.concat(a, branch(b, channels // 2, 1)))
    return n.classes(n.global_pool(n.conv(x, 256, 1)), 100)


def ghostnet() -> bytes:
    """Half of each result are cheap depthwise functions of the other half."""
    n = Layers("ghostnet", seed=17)

    def ghost(x: int, channels: int, activation: str = "relu") -> int:
        y = n.conv(x, channels // 2, 1, activation=activation)
        return n.concat(y, n.depthwise(y, 3, activation=activation))

    x = n.conv(n.input(96, 96, 3), 16, 3, 2)
    for wide, channels, stride in ((48, 24, 2), (72, 24, 1), (72, 40, 2), (120, 40, 1), (240, 80, 2)):
        y = ghost(x, wide)
        y = ghost(n.depthwise(y, 3, 2, activation="none") if stride == 2 else y, channels, "none")
        x = n.add(x, y) if n.shape(x) == n.shape(y) else y
    return n.classes(n.global_pool(x), 100)


def csp() -> bytes:
    """Cross-stage partial blocks: STRIDED_SLICE of channels, residuals, joined again."""
    n = Layers("csp", seed=18)
    x = n.conv(n.conv(n.input(96, 96, 3), 16, 3, 2), 32, 3, 2)
    for channels in (32, 64):
        y = n.conv(x, channels, 1)
        half = channels // 2
        b = n.channels(y, half, channels)
        b = n.add(b, n.conv(n.conv(b, half, 1), half))
        x = n.conv(n.concat(n.channels(y, 0, half), b), 2 * channels, 3, 2)
    return n.classes(n.global_pool(x), 20)
