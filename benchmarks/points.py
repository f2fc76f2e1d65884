"""Worker of the benchmark `points`: design points one after the other in one process, on one core.

    python points.py [MODEL=FILE ...]

Prints a JSON object: {"reuse MODEL" or "compile MODEL": CPU seconds per point, ...}. Every machine is new to the
process, as in a sweep.

reuse:   one program on machines whose DRAM differs, as a sweep over timing parameters does it.
compile: compilation and timing on machines that differ in scratchpad, array or DMA; the graph is loaded once.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import npusim

REUSED = ("ds_cnn", "mlperf_kws_int8")
COMPILED = ("ds_cnn", "mlperf_kws_int8", "mlperf_resnet8_int8", "mobilenet_v2")
Point = Callable[[], object]


def main(files: dict[str, str]) -> None:
    """Measure the models; `files` holds the paths of those that are not built in."""
    base = npusim.hardware("edge-128")
    taken: dict[str, float] = {}
    for name in dict.fromkeys((*REUSED, *COMPILED)):
        graph = npusim.load(files.get(name, name))
        program = npusim.compile(graph, base)
        assert isinstance(program, npusim.Program)
        npusim.simulate(program, timing_only=True)
        if name in REUSED:
            taken[f"reuse {name}"] = _per_point([_reuse(program, each) for each in _timings(base)])
        if name in COMPILED:
            taken[f"compile {name}"] = _per_point([_anew(graph, each) for each in _shapes(base)])
    print(json.dumps(taken))


def _reuse(program: npusim.Program, hardware: npusim.Hardware) -> Point:
    return lambda: npusim.simulate(program, hardware=hardware, timing_only=True).energy_uj


def _anew(graph: npusim.Graph, hardware: npusim.Hardware) -> Point:
    return lambda: npusim.simulate(npusim.compile(graph, hardware), timing_only=True).energy_uj


def _timings(base: npusim.Hardware) -> list[npusim.Hardware]:
    """Twenty machines that differ in timing alone."""
    return [
        _changed(base, dram={"latency_ns": 50.0 + 25 * step, "bandwidth_gb_per_s": speed})
        for step in range(10)
        for speed in (0.5, 2.0)
    ]


def _shapes(base: npusim.Hardware) -> list[npusim.Hardware]:
    """Eleven machines; none has the array and the scratchpad of another."""
    return [
        *(_changed(base, scratchpad={"size_kib": size}) for size in (1792, 1536, 1280, 1024)),
        *(_changed(base, mac_array={"rows": rows}) for rows in (8, 12, 24, 32)),
        *(_changed(base, mac_array={"columns": columns}) for columns in (4, 16)),
        _changed(base, dma={"channels": 1}),
    ]


def _changed(base: npusim.Hardware, **sections: dict[str, Any]) -> npusim.Hardware:
    update = {name: getattr(base, name).model_copy(update=values) for name, values in sections.items()}
    return base.model_copy(update=update)


def _per_point(points: Sequence[Point]) -> float:
    begin = time.process_time()
    for point in points:
        point()
    return (time.process_time() - begin) / len(points)


if __name__ == "__main__":
    main(dict(argument.split("=", 1) for argument in sys.argv[1:]))
