"""What the scheduler remembers between compilations: a program is the same as in a process that remembers nothing."""

from __future__ import annotations

import gc
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import npusim
from npusim.isa import engines
from npusim.isa.base.errors import GraphError
from npusim.isa.hardware.file import change, hardware
from npusim.kernels.graph.graph import Graph
from npusim.kernels.lowering import mac_work
from npusim.kernels.operator.operator import Call
from npusim.kernels.table import operator
from npusim.scheduler import compile_graph
from npusim.scheduler.fit import costs, tiling
from npusim.scheduler.network import network

from ..graphs import Sketch

pytestmark = pytest.mark.slow

SAME = ((1, 1), (1, 1))

CHANGES: tuple[dict[str, Any], ...] = (
    {"mac_array.rows": 8},
    {"mac_array.columns": 16},
    {"mac_array.dataflow": "output_stationary"},
    {"mac_array.shadow_weights": False},
    {"mac_array.accumulator_kib": 4},
    {"mac_array.output_lanes": 2},
    {"mac_array.ifm_bytes_per_cycle": 4},
    {"mac_array.int16_passes": 4},
    {"vector.lanes": 2},
    {"vector.mul_cycles": 3},
    {"vector.fused_lookup": True},
    {"vector.brick_channels": 16},
    {"float32_rescale": False},
    {"overlap": "loads"},
    {"overlap": "reloads"},
    {"overlap": "none"},
    {"scratchpad.size_kib": 32},
    {"scratchpad.size_kib": 24},
    {"scratchpad.size_kib": 12},
    {"scratchpad.bank_ports": 2},
    {"dma.channels": 1},
    {"dma.setup_cycles": 100},
    {"dma.views": True},
    {"dma.port_bytes_per_cycle": 4},
    {"dma.decoder_bytes_per_cycle": 0},
    {"dma.decoder_bytes_per_cycle": 4},
    {"dram.bandwidth_gb_per_s": 0.125},
    {"dram.latency_ns": 500.0},
    {"dram.burst_bytes": 64},
    {"dram.row_miss_ns": 100.0},
    {"dram.outstanding_requests": 1},
    {"clock_mhz": 250},
    {"front_end.decode_cycles": 4},
)


def convolutions() -> Graph:
    """Layers that differ in one thing each, so that a key that leaves it out takes one for the other."""
    sketch = Sketch("convolutions", seed=3)
    x = sketch.input(1, 16, 16, 16)
    for per_channel in (False, True, True, False):
        x = sketch.conv(x, 16, padding=SAME, per_channel=per_channel)
    for bias in (True, False, True):
        x = sketch.conv(x, 16, (1, 1), bias=bias)
    for per_channel in (False, True, False):
        x = sketch.depthwise(x, padding=SAME, per_channel=per_channel)
    y = sketch.softmax(sketch.fully_connected(sketch.pool("average_pool_2d", x, (4, 4), strides=(4, 4)), 64))
    sketch.fully_connected(sketch.fully_connected(y, 64), 64)
    return sketch.graph()


def sums() -> Graph:
    """Fused pairs of a convolution and a sum, and a chain where room is short."""
    sketch = Sketch("sums", seed=4)
    x = sketch.conv(sketch.input(1, 40, 40, 4), 16, padding=SAME)
    for _ in range(3):
        x = sketch.add(x, sketch.conv(sketch.conv(x, 16, padding=SAME), 16, padding=SAME))
    sketch.conv(x, 8)
    return sketch.graph()


@pytest.mark.parametrize("make", [convolutions, sums, lambda: npusim.load("ds_cnn")])
def test_programs_do_not_depend_on_what_was_compiled_before(make: Callable[[], Graph]) -> None:
    graph, base = make(), hardware("edge-128")
    machines = [base, *(change(base, each) for each in CHANGES)]
    # The changes in turn, then from the end, so that each machine comes after others that share most with it.
    warm = [compile_graph(graph, each) for each in machines]
    again = [compile_graph(graph, each) for each in reversed(machines)][::-1]
    for machine, first, second in zip(machines, warm, again, strict=True):
        for table in (costs._tables, costs.numbered, tiling._found):
            table.cache_clear()
        cold = compile_graph(graph, machine)
        for program in (first, second):
            assert program.code.tobytes() == cold.code.tobytes()
            assert program.buffers == cold.buffers
            assert bytes(program.constants) == bytes(cold.constants)


def test_a_graph_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = sums()
    first = compile_graph(graph, hardware("edge-128"))
    monkeypatch.setattr(network, "check_bound", lambda _: pytest.fail("checked again"))
    monkeypatch.setattr(network, "_checked", lambda *_: pytest.fail("asked for its rules again"))
    monkeypatch.setattr(mac_work, "output_stage", lambda *_: pytest.fail("computed again"))
    assert compile_graph(graph, hardware("edge-128")).code.tobytes() == first.code.tobytes()
    with pytest.raises(pytest.fail.Exception, match="checked again"):
        compile_graph(replace(graph), hardware("edge-128"))


def test_an_operator_that_changed_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = sums()
    compile_graph(graph, hardware("edge-128"))

    def never(call: Call) -> bool:
        """it never runs"""
        return False

    refused = replace(operator("add"), rules=(never,))
    monkeypatch.setattr(network, "operator", lambda name: refused if name == "add" else operator(name))
    with pytest.raises(GraphError, match="breaks a rule: it never runs"):
        compile_graph(graph, hardware("edge-128"))


def test_graphs_and_what_is_known_of_them_are_freed() -> None:
    gc.collect()
    caches = (network._CHECKED, mac_work._STAGES, costs._LENGTHS)
    before = [len(cache) for cache in caches]
    graph = sums()
    compile_graph(graph, hardware("edge-128"))
    assert all(len(cache) > count for cache, count in zip(caches, before, strict=True))
    del graph
    gc.collect()
    assert [len(cache) for cache in caches] == before


def test_what_is_remembered_is_bounded() -> None:
    sketch = Sketch("net")
    sketch.fully_connected(sketch.fully_connected(sketch.input(1, 64), 64), 32)
    graph, base = sketch.graph(), hardware("edge-128")
    for rows in range(1, 1200):
        array = base.mac_array.model_copy(update={"rows": rows})
        compile_graph(graph, base.model_copy(update={"mac_array": array}))
    for table in (costs._tables, costs.numbered, tiling._found):
        info = table.cache_info()
        assert info.maxsize is not None
        assert info.currsize <= info.maxsize < info.misses


def test_engines_remember_no_more_than_a_few_networks_need() -> None:
    """ResNet-50 has 341 shapes. With 65,536 each, a study grew by 20 MiB per 1,000 points."""
    caches = [
        value
        for module in pkgutil.walk_packages(engines.__path__, engines.__name__ + ".")
        for value in vars(importlib.import_module(module.name)).values()
        if hasattr(value, "cache_parameters") and value.__module__ == module.name
    ]
    assert len(caches) > 10
    assert all((cache.cache_parameters()["maxsize"] or 0) in range(1, 4097) for cache in caches)
