"""Worker of the benchmark `points`: design points one after the other in one process, on one core.

    python points.py [MODEL=FILE ...]

Prints a JSON object: {"reuse MODEL" or "compile MODEL": CPU seconds per point, ...}. Every machine is new to the
process, as in a sweep.

reuse:   one program on machines whose DRAM differs, as a sweep over timing parameters does it.
compile: compilation and timing on machines that differ in scratchpad, array or DMA; the graph is loaded once.

    python points.py --transformers

measures "compile" of a layer of BERT-base and of a decode step of Llama 3.2 1B instead, on machines of which each
differs from `mobile-4096` in one key.
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
BERT_LAYER = {
    "model_type": "bert",
    "hidden_size": 768,
    "num_hidden_layers": 1,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "vocab_size": 64,  # so that the table of the embedding does not count
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
}
ONE_KEY: tuple[dict[str, Any], ...] = (
    {"clock_mhz": 800.0},
    {"dram": {"bandwidth_gb_per_s": 25.0}},
    {"dram": {"latency_ns": 100.0}},
    {"scratchpad": {"size_kib": 4096}},
    {"scratchpad": {"size_kib": 6144}},
    {"mac_array": {"rows": 32}},
    {"mac_array": {"columns": 32}},
    {"vector": {"lanes": 64}},
    {"dma": {"channels": 1}},
    {"front_end": {"queue_depth": 8}},
)
"""What the machines for transformers change."""
Point = Callable[[], object]


def transformers() -> None:
    """Measure a layer of BERT-base and a decode step of Llama 3.2 1B."""
    base = npusim.hardware("mobile-4096")
    graphs = {
        "bert_layer": npusim.models.transformer(BERT_LAYER, tokens=128),
        "llama3.2_1b": npusim.models.transformer("llama3.2_1b", tokens=1, past=2047),
    }
    taken = {}
    for name, graph in graphs.items():
        _anew(graph, base)()
        taken[f"compile {name}"] = _per_point([_anew(graph, _changed(base, **keys)) for keys in ONE_KEY])
    print(json.dumps(taken))


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


def _changed(base: npusim.Hardware, **keys: Any) -> npusim.Hardware:
    update = {
        name: getattr(base, name).model_copy(update=value) if isinstance(value, dict) else value
        for name, value in keys.items()
    }
    return base.model_copy(update=update)


def _per_point(points: Sequence[Point]) -> float:
    begin = time.process_time()
    for point in points:
        point()
    return (time.process_time() - begin) / len(points)


if __name__ == "__main__":
    if sys.argv[1:] == ["--transformers"]:
        transformers()
    else:
        main(dict(argument.split("=", 1) for argument in sys.argv[1:]))
