"""Worker of the table `reach`: CPU seconds of large things, each in a process of its own.

    python sizes.py edsr      EDSR f64b5 of MLPerf Mobile, timed without data on mobile-1024
    python sizes.py chain     compilation of 20,000 operators of two kinds for edge-128

Prints a JSON object: {"cpu_s": ..., "cycles": ...}. What is measured begins after the model is loaded.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

import npusim
from npusim.frontends.tflite import reader
from npusim.isa.base.tensor import TensorType
from npusim.models.writer import ModelWriter, affine, per_channel

CODES = affine(-1, 1)
CHAIN = 20_000


def edsr(width: int = 64, blocks: int = 5, size: tuple[int, int] = (540, 960), factor: int = 2) -> bytes:
    """The super-resolution network EDSR with random weights: 64 channels and 5 residual blocks, 960 x 540 pixels."""
    network = ModelWriter("edsr_f64b5")
    head = _convolution(
        network, network.input("image", TensorType("int8", (1, *size, 3), CODES)), width, "head"
    )
    values = head
    for block in range(blocks):
        inner = _convolution(network, values, width, f"{block}/first", "relu")
        inner = _convolution(network, inner, width, f"{block}/second")
        values = network.add(values, inner, CODES, name=f"{block}/add")
    values = network.add(_convolution(network, values, width, "last"), head, CODES, name="skip")
    values = _convolution(network, values, 3 * factor**2, "colours")
    image = TensorType("int8", (1, factor * size[0], factor * size[1], 3), CODES)
    fields = {"BlockSize": factor}
    return network.finish(
        [network.operator("DEPTH_TO_SPACE", (values,), image, options="DepthToSpaceOptions", fields=fields)]
    )


def chain(operators: int = CHAIN) -> bytes:
    """Convolutions and additions in turn, each of which reads the result before it."""
    network = ModelWriter("chain")
    values = start = network.input("image", TensorType("int8", (1, 8, 8, 16), CODES))
    for number in range(operators // 2):
        values = _convolution(network, values, 16, f"conv{number}", taps=1)
        values = network.add(values, start, CODES, name=f"add{number}")
    return network.finish([values])


def _convolution(
    network: ModelWriter, values: int, channels: int, name: str, activation: str = "none", taps: int = 3
) -> int:
    depth, rng = network.type(values).shape[3], np.random.default_rng(channels)
    filters = rng.integers(-127, 128, (channels, taps, taps, depth)).astype(np.int8)
    weights = network.constant(f"{name} weights", filters, per_channel(np.full(channels, 0.01), 0))
    scales = per_channel(np.full(channels, 0.01 * network.type(values).quantization.scales[0]), 0)
    bias = network.constant(f"{name} bias", np.zeros(channels, np.int32), scales)
    return network.conv_2d(values, weights, bias, CODES, activation=activation, name=name)


def main(name: str) -> None:
    """Measure one of them."""
    graph = reader.parse(edsr() if name == "edsr" else chain(), name)
    hardware = npusim.hardware("mobile-1024" if name == "edsr" else "edge-128")
    if name == "edsr":
        program = npusim.compile(graph, hardware)
        begin = time.process_time()
        cycles = int(npusim.simulate(program, timing_only=True).cycles)
    else:
        begin, cycles = time.process_time(), 0
        npusim.compile(graph, hardware)
    print(json.dumps({"cpu_s": time.process_time() - begin, "cycles": cycles}))


if __name__ == "__main__":
    main(sys.argv[1])
