"""Worker of `reach`: a step of a transformer in a process of its own.

    python transformers.py llama3.2_1b '{"tokens": 1, "past": 2047}'   compiled for mobile-4096 and timed without data
    python transformers.py bert_base '{"tokens": 128}' --bytes          with drawn weights and tokens, and exact

Prints a JSON object: {"cpu_s": ..., "peak_bytes": ..., "over_bound": ...}. Seconds are those of the process, from its
start; `over_bound` is the latency over its lower bound. With bytes, the outputs must be those of the operators'
references, which are computed after the measurement.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from dataclasses import replace

import numpy as np

import npusim
from npusim.isa.base.tensor import SIZE_ONLY
from npusim.kernels.graph.graph import Tensor
from npusim.kernels.graph.reference import evaluate

MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024
LARGEST = {"int8": 127, "int32": 5000}
"""Largest drawn weight and bias by its type."""


def main(name: str, sizes: dict[str, int], with_bytes: bool) -> None:
    """Compile and simulate a step, and print what it took."""
    warnings.simplefilter("ignore")
    graph = npusim.load(name, sizes=sizes)
    machine = npusim.hardware("mobile-4096", ["dram.size_mib=65536"])
    draw = np.random.default_rng(1)

    def drawn(tensor: Tensor) -> Tensor:
        if tensor.data is not SIZE_ONLY:
            return tensor
        bound = LARGEST[tensor.type.dtype]
        data = draw.integers(-bound, bound + 1, tensor.type.shape, tensor.type.numpy_dtype)
        data.flags.writeable = False
        return replace(tensor, data=data)

    inputs = None
    if with_bytes:
        graph = replace(graph, tensors=tuple(map(drawn, graph.tensors)))
        inputs = [draw.integers(0, 30_000, (1, sizes["tokens"]), np.int32)]
    result = npusim.simulate(npusim.compile(graph, machine), inputs, timing_only=not with_bytes)
    assert isinstance(result, npusim.RunResult)
    taken = {
        "cpu_s": time.process_time(),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_BYTES,
        "over_bound": result.cycles.total / result.lower_bound.cycles,
    }
    if inputs is not None:
        values = evaluate(graph, inputs)
        if not all(map(np.array_equal, result.outputs, (values[number] for number in graph.outputs))):
            raise SystemExit("the outputs differ: the speed of a wrong answer is not measured")
    print(json.dumps(taken))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:] == ["--bytes"])
