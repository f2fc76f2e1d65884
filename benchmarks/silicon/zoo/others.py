"""Networks that put an image out, sounds, vectors, and shapes that are odd on purpose."""

from __future__ import annotations

from benchmarks.silicon.zoo.layers import Layers


def unet() -> bytes:
    """Transposed convolutions up, joined with the way down."""
    n = Layers("unet", seed=30)
    x, ways = n.input(64, 64, 3), []
    for channels in (16, 32, 64):
        x = n.conv(n.conv(x, channels), channels)
        ways.append(x)
        x = n.max_pool(x)
    x = n.conv(x, 128)
    for way in reversed(ways):
        channels = n.shape(way)[3]
        x = n.conv(n.concat(n.transpose_conv(x, channels), way), channels)
    return n.finish(n.conv(x, 2, 1, activation="none"))


def unet_resized() -> bytes:
    """RESIZE_NEAREST_NEIGHBOR up, sums in place of joins."""
    n = Layers("unet_resized", seed=31)
    x, ways = n.conv(n.input(80, 80, 3), 16), []
    for channels in (24, 48):
        ways.append(x)
        x = n.conv(x, channels, 3, 2)
    for way in reversed(ways):
        x = n.add(n.resize(n.conv(x, n.shape(way)[3], 1)), way, "relu")
        x = n.conv(x, n.shape(x)[3])
    return n.finish(n.conv(x, 4, 1, activation="none"))


def bilinear() -> bytes:
    """A decoder of RESIZE_BILINEAR."""
    n = Layers("bilinear", seed=32)
    x = n.conv(n.conv(n.conv(n.input(64, 64, 3), 24, 3, 2), 48, 3, 2), 64)
    x = n.conv(n.resize(x, "RESIZE_BILINEAR"), 24)
    return n.finish(n.conv(n.resize(x, "RESIZE_BILINEAR"), 8, activation="none"))


def deeplab() -> bytes:
    """Dilated convolutions side by side."""
    n = Layers("deeplab", seed=33)
    x = n.conv(n.conv(n.input(96, 96, 3), 32, 3, 2), 64, 3, 2)
    x = n.conv(n.conv(x, 64, dilation=2), 64, dilation=2)
    parts = [n.conv(x, 32, 1), *(n.conv(x, 32, dilation=rate) for rate in (2, 4))]
    x = n.depthwise(n.conv(n.concat(*parts), 64, 1), 3, dilation=2)
    return n.finish(n.conv(x, 21, 1, activation="none"))


def yolo() -> bytes:
    """Leaky convolutions, two heads, the smaller map enlarged and joined."""
    n = Layers("yolo", seed=34)

    def leaky(x: int, channels: int, kernel: int = 3) -> int:
        return n.leaky_relu(n.conv(x, channels, kernel, activation="none"))

    x = n.input(128, 128, 3)
    for channels in (16, 32, 64):
        x = n.max_pool(leaky(x, channels))
    middle = leaky(x, 96)
    x = leaky(n.max_pool(middle), 128)
    first = n.conv(leaky(x, 128), 45, 1, activation="none")
    x = n.concat(n.resize(leaky(x, 48, 1)), middle)
    second = n.conv(leaky(x, 96), 45, 1, activation="none")
    return n.finish(n.unary("LOGISTIC", first), n.unary("LOGISTIC", second))


def ssd() -> bytes:
    """Heads on three maps of a depthwise backbone, joined as vectors of boxes."""
    n = Layers("ssd", seed=35)
    x, heads = n.conv(n.input(120, 160, 3), 16, 3, 2), []
    for channels in (32, 48, 64, 96, 96):
        x = n.conv(n.depthwise(x, 3, 2), channels, 1)
        if n.shape(x)[1] < 16:
            head = n.conv(n.depthwise(x), 12, 1, activation="none")
            heads.append(n.reshape(head, 1, n.shape(head)[1] * n.shape(head)[2] * 3, 4))
    return n.finish(n.writer.concatenation(heads, 1))


def face() -> bytes:
    """BlazeFace: depthwise kernels of 5 x 5, channels padded by a PAD, pools beside."""
    n = Layers("face", seed=36)
    x = n.conv(n.input(96, 96, 3), 24, 5, 2)
    for channels, stride in ((24, 1), (48, 2), (48, 1), (96, 2), (96, 1)):
        y = n.conv(n.depthwise(x, 5, stride, activation="none"), channels, 1, activation="none")
        side = n.max_pool(x) if stride == 2 else x
        more = channels - n.shape(side)[3]
        if more:
            side = n.writer.pad(side, ((0, 0), (0, 0), (0, 0), (0, more)))
        x = n.add(side, y, "relu")
    return n.finish(n.conv(x, 18, 1, activation="none"))


def super_resolution() -> bytes:
    """Convolutions on a whole image, a global residual."""
    n = Layers("super_resolution", seed=37)
    x = n.conv(n.input(64, 64, 1), 32, 5)
    y = x
    for _ in range(3):
        y = n.prelu(n.conv(y, 32, activation="none"))
    return n.finish(n.conv(n.add(x, y), 4, activation="none"))


def autoencoder() -> bytes:
    """Fully connected layers, 256 to 16 to 256."""
    n = Layers("autoencoder", seed=38)
    x = n.input(256)
    for units in (128, 64, 16, 64, 128):
        x = n.fully_connected(x, units, "relu")
    return n.finish(n.fully_connected(x, 256))


def convolutional_autoencoder() -> bytes:
    """Strides down, transposed convolutions of 3 x 3 up."""
    n = Layers("convolutional_autoencoder", seed=39)
    x = n.input(64, 64, 1)
    for channels in (16, 32, 64):
        x = n.conv(x, channels, 3, 2)
    for channels in (32, 16):
        x = n.transpose_conv(x, channels, 3)
    return n.finish(n.transpose_conv(x, 1, 3))


def perceptron() -> bytes:
    """Three large fully connected layers, sparse weights."""
    n = Layers("perceptron", seed=40, zeros=0.6)
    x = n.fully_connected(n.fully_connected(n.input(784), 512, "relu"), 256, "relu")
    return n.classes(x, 10)


def kws_cnn() -> bytes:
    """Keywords by two convolutions of odd kernels."""
    n = Layers("kws_cnn", seed=41)
    x = n.conv(n.input(49, 40, 1), 28, (10, 4), 1, padding="valid")
    x = n.conv(x, 30, (10, 4), (2, 1), padding="valid")
    return n.classes(n.fully_connected(n.fully_connected(x, 16), 128, "relu"), 12)


def tc_resnet() -> bytes:
    """Frequencies are channels, kernels of 9 along time, residuals."""
    n = Layers("tc_resnet", seed=42)
    x = n.conv(n.input(1, 98, 40), 16, (1, 3))
    for channels in (24, 32, 48):
        y = n.conv(n.conv(x, channels, (1, 9), (1, 2)), channels, (1, 9), activation="none")
        x = n.add(n.conv(x, channels, 1, (1, 2)), y, "relu")
    return n.classes(n.global_pool(x), 12)


def conv_1d() -> bytes:
    """An electrocardiogram: one channel, kernels of 1 x 16 and 1 x 7, pools along time."""
    n = Layers("conv_1d", seed=43)
    x = n.max_pool(n.conv(n.input(1, 720, 1), 32, (1, 16), (1, 2)), (1, 2), (1, 2))
    x = n.max_pool(n.conv(x, 64, (1, 7)), (1, 2), (1, 2))
    x = n.conv(n.conv(x, 64, (1, 5)), 96, (1, 3))
    return n.classes(n.global_pool(x), 5)


def wavenet() -> bytes:
    """Dilated kernels along time with gates of TANH and LOGISTIC."""
    n = Layers("wavenet", seed=44)
    x = n.conv(n.input(1, 128, 24), 32, 1)
    for rate in (1, 2, 4, 8):
        y = n.conv(x, 64, (1, 3), dilation=rate, activation="none")
        a, b = n.split(y, 2)
        x = n.add(x, n.conv(n.mul(n.unary("TANH", a), n.unary("LOGISTIC", b)), 32, 1, activation="none"))
    return n.finish(n.conv(x, 29, 1, activation="none"))


def odd_sizes() -> bytes:
    """Odd channels and sides, stride 3, kernels of 7 x 7 and 2 x 5, pools of 5 x 5 and 3 x 2."""
    n = Layers("odd_sizes", seed=45)
    x = n.conv(n.input(101, 67, 5), 19, 7, 3)
    x = n.max_pool(n.conv(x, 37, (2, 5)), 5, 1, "same")
    x = n.average_pool(n.depthwise(x, 5, 1), (3, 2), (3, 2))
    return n.classes(n.conv(n.conv(x, 51, 5), 67, 3, 3), 7)


def multipliers() -> bytes:
    """Depth multipliers of one channel and of several, depthwise kernels of 7 x 7."""
    n = Layers("multipliers", seed=46)
    x = n.depthwise(n.input(48, 48, 1), 3, 2, multiplier=16)
    x = n.conv(n.depthwise(x, 7), 48, 1)
    x = n.conv(n.depthwise(x, 5, 2), 96, 1)
    return n.classes(n.global_pool(n.depthwise(x, 7)), 10)


def elementwise() -> bytes:
    """MINIMUM, MAXIMUM, SUB and MUL of whole maps and of one pixel between convolutions."""
    n = Layers("elementwise", seed=47)
    x = n.conv(n.input(48, 48, 3), 32)
    y = n.conv(x, 32)
    z = n.extreme("MAXIMUM", n.sub(x, y), n.extreme("MINIMUM", x, y))
    z = n.add(n.mul(z, n.mean(z)), n.conv(z, 1, 1))
    return n.classes(n.global_pool(n.conv(z, 64, 3, 2)), 10)


def pools() -> bytes:
    """Pools of several sizes, their maps joined."""
    n = Layers("pools", seed=48)
    x = n.conv(n.input(64, 64, 3), 48, 3, 2)
    parts = [n.max_pool(x, size, 1, "same") for size in (3, 5, 9)]
    x = n.conv(n.concat(x, *parts), 64, 1)
    x = n.average_pool(n.max_pool(n.conv(x, 64), 3, 2), 3, 2, "same")
    return n.classes(n.global_pool(n.conv(x, 128)), 30)


def sparse() -> bytes:
    """Nine of ten weights are zero."""
    n = Layers("sparse", seed=49, zeros=0.9)
    x = n.conv(n.input(32, 32, 3), 64)
    for channels in (96, 128, 192):
        x = n.conv(x, channels, 3, 2)
    return n.classes(n.global_pool(n.conv(x, 256, 1)), 100)


def narrow_weights() -> bytes:
    """Weights that take few values, as where a few large ones set the scale."""
    n = Layers("narrow_weights", seed=50, tail=3.5)
    x = n.conv(n.input(32, 32, 3), 64)
    for channels in (96, 128, 192):
        x = n.conv(x, channels, 3, 2)
    return n.classes(n.global_pool(n.conv(x, 256, 1)), 100)


def many_classes() -> bytes:
    """A softmax for each pixel of a map."""
    n = Layers("many_classes", seed=51)
    x = n.conv(n.conv(n.input(64, 64, 3), 32, 3, 2), 64)
    return n.finish(n.softmax(n.conv(n.conv(x, 64, 3, 2), 21, 1, activation="none")))


def padded() -> bytes:
    """PAD before every convolution with a stride, as a converter writes it for other frameworks' padding."""
    n = Layers("padded", seed=52)
    x = n.input(64, 64, 3)
    for channels in (24, 48, 96):
        x = n.conv(n.pad(x, 1), channels, 3, 2, padding="valid")
        x = n.conv(x, channels)
    return n.classes(n.global_pool(x), 10)
