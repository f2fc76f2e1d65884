"""The matrix products of one token of Llama 3.2 1B, and what it takes to time them, for a process of its own."""

from __future__ import annotations

import json
import resource
from functools import cache
from pathlib import Path

from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.hardware.file import hardware
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import Graph
from npusim.kernels.operators.convolution.fully_connected import Parameters
from npusim.machine.system import execute
from npusim.scheduler import compile_graph


def decode_step() -> Graph:
    """16 layers: q, o 2048 x 2048, k, v 2048 x 512, gate, up 2048 x 8192, down 8192 x 2048; head 2048 x 128256.

    int8 with a scale per channel, one token. What lies between the products is left out; each reads a vector of its
    length.
    """
    codes = Quantization((0.05,), (0,))
    builder = GraphBuilder("llama_3.2_1b_decode")

    @cache
    def matrix(units: int, inner: int) -> TensorType:
        scales = tuple(0.001 + 1e-8 * unit for unit in range(units))
        return TensorType("int8", (units, inner), Quantization(scales, (0,) * units, 0))

    def product(name: str, vector: int, units: int) -> int:
        weights = builder.sized(f"{name} weights", matrix(units, builder.shape(vector)[1]))
        (result,) = builder.node(
            "fully_connected", (vector, weights), [unshaped("int8", codes)], Parameters(), name=name
        )
        return result

    token = builder.input("token", TensorType("int8", (1, 2048), codes))
    results = []
    for layer in range(16):
        query = product(f"{layer}/q", token, 2048)
        results += [product(f"{layer}/{name}", token, 512) for name in "kv"]
        attended = product(f"{layer}/o", query, 2048)
        gate = product(f"{layer}/gate", attended, 8192)
        results.append(product(f"{layer}/up", attended, 8192))
        token = product(f"{layer}/down", gate, 2048)
    results.append(product("head", token, 128256))
    return builder.graph(results)


WEIGHTS = 16 * (2 * 2048 * 2048 + 2 * 2048 * 512 + 3 * 2048 * 8192) + 2048 * 128256


def _peak_bytes(most_kib: int) -> float:
    """The most memory of this process. `ru_maxrss` begins, on Linux, with that of whoever started it."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        most_kib = int(line.split()[1])
    return most_kib * 1024


def measure() -> None:
    """Compile and time it; print what came of it, and what the process took, as JSON."""
    program = compile_graph(decode_step(), hardware("mobile-4096"))
    execution = execute(program, data=False)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    found = {
        "constants": len(program.constants),
        "cycles": execution.cycles,
        "dram_read_bytes": execution.dram_read_bytes,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mb": _peak_bytes(usage.ru_maxrss) / 1e6,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    measure()
