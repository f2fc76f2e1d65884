"""All of them, one line each; every third is held out."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.silicon.zoo import others, vision

Network = Callable[[], bytes]

NETWORKS: tuple[Network, ...] = (
    vision.resnet20,
    vision.bottleneck,
    vision.preactivated,
    vision.vgg,
    vision.alexnet,
    vision.densenet,
    vision.inception,
    vision.inception_v3,
    vision.squeezenet,
    vision.mobilenet_v1,
    vision.mobilenet_v2,
    vision.mnasnet,
    vision.mobilenet_v3,
    vision.efficientnet,
    vision.efficientnet_lite,
    vision.shufflenet_v2,
    vision.ghostnet,
    vision.csp,
    others.unet,
    others.unet_resized,
    others.bilinear,
    others.deeplab,
    others.yolo,
    others.ssd,
    others.face,
    others.super_resolution,
    others.autoencoder,
    others.convolutional_autoencoder,
    others.perceptron,
    others.kws_cnn,
    others.tc_resnet,
    others.conv_1d,
    others.wavenet,
    others.odd_sizes,
    others.multipliers,
    others.elementwise,
    others.pools,
    others.sparse,
    others.narrow_weights,
    others.many_classes,
    others.padded,
)
