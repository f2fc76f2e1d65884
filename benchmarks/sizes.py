"""Worker of `reach` and `slopes`: CPU seconds and memory of large things, each in a process of its own.

    python sizes.py edsr             EDSR f64b5 of MLPerf Mobile, timed without data on mobile-1024
    python sizes.py chain 20000      compilation of so many operators of two kinds for edge-128
    python sizes.py run 20000        the same, and its simulation without data
    python sizes.py weights 1024     a matrix product of so many times 1,024 weights on mobile-4096, compiled and timed
    python sizes.py layers 16        so many equal layers of a Llama, compiled and timed on mobile-4096

Prints a JSON object: {"cpu_s": ..., "cycles": ..., "peak_bytes": ...}. What is measured begins after the model is
loaded, but the peak is that of the process.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import npusim
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph
from npusim.kernels.operators.convolution.fully_connected import Parameters as Product
from npusim.models.writer import ModelWriter, affine, per_channel

CODES = affine(-1, 1)
CHAIN = 20_000
MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024


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
    scaling = network.type(values).quantization
    assert scaling is not None
    scales = per_channel(np.full(channels, 0.01 * scaling.scale), 0)
    bias = network.constant(f"{name} bias", np.zeros(channels, np.int32), scales)
    return network.conv_2d(values, weights, bias, CODES, activation=activation, name=name)


def weights(thousands: int) -> Graph:
    """A vector of 16,384 values times a matrix whose size alone is known."""
    codes = Quantization((0.05,), (0,))
    builder = GraphBuilder("weights")
    units = thousands // 16
    vector = builder.input("vector", TensorType("int8", (1, 16_384), codes))
    matrix = builder.sized("matrix", TensorType("int8", (units, 16_384), Quantization((0.001,), (0,))))
    result = TensorType("int8", (1, units), codes)
    return builder.graph(builder.node("fully_connected", (vector, matrix), [result], Product()))


def layers(count: int) -> Graph:
    """The matrix products of equal layers of Llama 3.2 1B, one behind the other, for one token."""
    codes = Quantization((0.05,), (0,))
    builder = GraphBuilder("layers")
    values = builder.input("token", TensorType("int8", (1, 2048), codes))
    for layer in range(count):
        for name, units, inner in (("qkvo", 2048, 2048), ("up", 8192, 2048), ("down", 2048, 8192)):
            kind = TensorType("int8", (units, inner), Quantization((0.001,), (0,)))
            matrix = builder.sized(f"{layer}/{name} weights", kind)
            result = TensorType("int8", (1, units), codes)
            (values,) = builder.node(
                "fully_connected", (values, matrix), [result], Product(), name=f"{layer}/{name}"
            )
    return builder.graph([values])


def _read(network: bytes) -> Graph:
    """Return the graph of a file, as a user has one: the bytes of its weights raise the limit of operations."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.tflite"
        path.write_bytes(network)
        return npusim.load(path)


def main(name: str, size: int) -> None:
    """Measure one of them."""
    graphs = {
        "edsr": lambda: _read(edsr()),
        "chain": lambda: _read(chain(size)),
        "run": lambda: _read(chain(size)),
        "weights": lambda: weights(size),
        "layers": lambda: layers(size),
    }
    presets = {"edsr": "mobile-1024", "chain": "edge-128", "run": "edge-128"}
    graph = graphs[name]()
    hardware = npusim.hardware(presets.get(name, "mobile-4096"))
    cycles, begin = 0, time.process_time()
    program = npusim.compile(graph, hardware)
    if name == "edsr":
        begin = time.process_time()
    if name != "chain":
        cycles = int(npusim.simulate(program, timing_only=True).cycles)
    spent_s = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_BYTES
    print(json.dumps({"cpu_s": spent_s, "cycles": cycles, "peak_bytes": peak}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else CHAIN)
