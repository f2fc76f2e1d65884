"""Worker of the benchmark `exact`: npusim and LiteRT by turns in one warm process.

    python warm_exact.py MODEL ROUNDS

Prints a JSON object: {"ours": [[wall s, cpu s], ...], "compiled": [...], "peer": [...]}, one pair per round; "compiled"
is the simulation alone, of a program that was compiled before. It runs in a process of its own, so that what measures
peak memory stays small.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import TypeVar

import npusim

Result = TypeVar("Result")


def main(model: str, rounds: int) -> None:
    """Measure load + compile + exact simulation against one inference of the LiteRT reference kernels."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    peer = Interpreter(
        model_path=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1
    )
    peer.allocate_tensors()
    entry = peer.get_input_details()[0]
    values = np.random.default_rng(0).integers(0, 256, entry["shape"]).astype(entry["dtype"])
    peer.set_tensor(entry["index"], values)

    program = npusim.compile(npusim.load(model), "edge-128")
    taken: dict[str, list[tuple[float, float]]] = {"ours": [], "compiled": [], "peer": []}
    for turn in range(rounds + 1):
        result, mine = _timed(lambda: npusim.run(model, hw="edge-128", inputs=[values]))
        again, simulated = _timed(lambda: npusim.simulate(program, inputs=[values]))
        _, other = _timed(peer.invoke)
        expected = peer.get_tensor(peer.get_output_details()[0]["index"])
        if not all(np.array_equal(each.outputs[0], expected) for each in (result, again)):
            raise SystemExit("the outputs differ: the speed of a wrong answer is not measured")
        if turn:  # the first round warms both up
            for side, sample in zip(taken, (mine, simulated, other), strict=True):
                taken[side].append(sample)
    print(json.dumps(taken))


def _timed(work: Callable[[], Result]) -> tuple[Result, tuple[float, float]]:
    wall, cpu = time.perf_counter(), time.process_time()
    done = work()
    return done, (time.perf_counter() - wall, time.process_time() - cpu)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
