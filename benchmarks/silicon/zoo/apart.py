"""Networks that were run for the first time when the model of the chip was done."""

from __future__ import annotations

from benchmarks.silicon.zoo.layers import Layers


def resnext() -> bytes:
    """Bottlenecks whose middle is split into four parts and joined again."""
    n = Layers("resnext", seed=70)
    x = n.conv(n.input(64, 64, 3), 32, 3, 2)
    for channels, stride in ((64, 1), (96, 2)):
        y = n.conv(x, channels, 1)
        y = n.concat(*(n.conv(part, channels // 4, 3, stride) for part in n.split(y, 4)))
        y = n.conv(y, 2 * channels, 1, activation="none")
        x = n.add(n.conv(x, 2 * channels, 1, stride, activation="none"), y, "relu")
    return n.classes(n.global_pool(x), 40)


def hourglass() -> bytes:
    """Poses: down by pools, up by the nearest pixel, sums across."""
    n = Layers("hourglass", seed=71)
    x = n.conv(n.input(96, 72, 3), 40, 5, 2)
    across = n.conv(x, 40)
    y = n.conv(n.conv(n.max_pool(x), 56), 56)
    across_2 = n.conv(y, 56, 1)
    y = n.conv(n.conv(n.max_pool(y), 72), 56)
    y = n.add(n.resize(y), across_2, "relu")
    y = n.add(n.resize(n.conv(y, 40)), across, "relu")
    return n.finish(n.conv(y, 17, 1, activation="none"))


def fast_segmentation() -> bytes:
    """Depthwise stems, pools of several sizes, a gate of the whole plane."""
    n = Layers("fast_segmentation", seed=72)
    x = n.conv(n.input(128, 96, 3), 24, 3, 2)
    x = n.conv(n.depthwise(x, 3, 2), 48, 1)
    y = n.conv(n.depthwise(x, 3, 2), 64, 1)
    y = n.mul(y, n.unary("LOGISTIC", n.conv(n.mean(y), 64, 1, activation="none")))
    y = n.concat(
        y, n.conv(n.average_pool(y, 3, 1, "same"), 32, 1), n.conv(n.max_pool(y, 5, 1, "same"), 32, 1)
    )
    y = n.conv(n.resize(n.conv(y, 48, 1)), 48, 1, activation="none")
    return n.finish(n.conv(n.add(x, y, "relu"), 19, 1, activation="none"))


def audio_events() -> bytes:
    """Spectrograms: depthwise separable blocks with HARD_SWISH, sigmoids at the end."""
    n = Layers("audio_events", seed=73, tail=1.8)
    x = n.unary("HARD_SWISH", n.conv(n.input(96, 64, 1), 24, 3, 2, activation="none"))
    for channels, stride in ((48, 1), (64, 2), (96, 1), (128, 2)):
        x = n.unary("HARD_SWISH", n.conv(n.depthwise(x, 3, stride), channels, 1, activation="none"))
    return n.finish(n.unary("LOGISTIC", n.fully_connected(n.mean(x), 50)))


def radar() -> bytes:
    """Three by five kernels, strides along one axis, two fully connected layers."""
    n = Layers("radar", seed=74)
    x = n.max_pool(n.conv(n.input(32, 128, 2), 20, (3, 5), (1, 2)), (2, 2), (2, 2))
    x = n.conv(n.conv(x, 40, (3, 5), (1, 2)), 52, 3, 2)
    return n.classes(n.fully_connected(x, 96, "relu"), 6)


def stacked_dense() -> bytes:
    """Small dense blocks with a growth of 12, no bottleneck, transitions by pools."""
    n = Layers("stacked_dense", seed=75)
    x = n.conv(n.input(40, 40, 3), 24)
    for _ in range(3):
        for _ in range(3):
            x = n.concat(x, n.conv(x, 12))
        x = n.average_pool(n.conv(x, n.shape(x)[3], 1))
    return n.classes(n.global_pool(x), 10)


def anchors() -> bytes:
    """A light detector: residual depthwise blocks and heads on two maps."""
    n = Layers("anchors", seed=76)
    x = n.conv(n.input(112, 112, 3), 16, 3, 2, activation="relu6")
    maps = []
    for channels, stride in ((24, 2), (24, 1), (40, 2), (40, 1), (72, 2), (72, 1)):
        y = n.conv(x, 4 * n.shape(x)[3], 1, activation="relu6")
        y = n.conv(n.depthwise(y, 3, stride), channels, 1, activation="none")
        x = n.add(x, y) if n.shape(x) == n.shape(y) else y
        maps.append(x)
    heads = [n.conv(n.depthwise(each), 27, 1, activation="none") for each in (maps[3], maps[5])]
    return n.finish(*heads)


def gated() -> bytes:
    """MUL of two convolutions, one through TANH, between poolings."""
    n = Layers("gated", seed=77)
    x = n.input(56, 56, 3)
    for channels in (24, 48, 80):
        a = n.unary("TANH", n.conv(x, channels, activation="none"))
        x = n.max_pool(n.mul(a, n.conv(x, channels)))
    return n.classes(x, 20)


def wide() -> bytes:
    """Few layers of many channels, half of the weights zero."""
    n = Layers("wide", seed=78, zeros=0.5)
    x = n.conv(n.input(24, 24, 3), 128, 5, 2)
    x = n.conv(n.conv(x, 192), 256, 3, 2)
    return n.classes(n.fully_connected(n.global_pool(x), 512, "relu"), 400)


def narrow() -> bytes:
    """Ten layers of 9 channels."""
    n = Layers("narrow", seed=79)
    x = n.conv(n.input(60, 60, 1), 9)
    for _ in range(4):
        x = n.add(x, n.conv(n.conv(x, 9), 9, activation="none"), "relu")
    return n.finish(n.conv(x, 1, activation="none"))


def time_series() -> bytes:
    """Kernels along time, dilated by 2, 4 and 8, sums, a mean."""
    n = Layers("time_series", seed=80)
    x = n.conv(n.input(1, 256, 6), 32, (1, 5), (1, 2))
    for rate in (2, 4, 8):
        x = n.add(x, n.conv(x, 32, (1, 3), dilation=rate), "relu")
    return n.classes(n.mean(x), 6)


def transformer_stem() -> bytes:
    """Patches of 3 x 3 with stride 3, depthwise 7 x 7, wide 1 x 1 in between, sums."""
    n = Layers("transformer_stem", seed=81)
    x = n.conv(n.input(72, 72, 3), 40, 3, 3, padding="valid", activation="none")
    for _ in range(3):
        y = n.conv(n.depthwise(x, 7, activation="relu"), 120, 1)
        x = n.add(x, n.conv(y, 40, 1, activation="none"))
    return n.classes(n.global_pool(x), 30)
