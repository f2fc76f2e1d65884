"""Operators that a machine lacks though its units could compute them: its host runs them, and nothing else changes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import npusim
from npusim.isa.base.errors import HardwareError
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.graph.graph import call_of
from npusim.kernels.graph.rewrite import expand
from npusim.kernels.table import operator
from npusim.reports.run import run_data

from ..graphs import Sketch
from .test_lstm_parts import quantized_lstm

EDGE = hardware("edge-128")


def lacking(*names: str) -> Hardware:
    return change(EDGE, {"lacks_operators": list(names)})


def network() -> npusim.Graph:
    sketch = Sketch("net", seed=3)
    first = sketch.conv(sketch.input(1, 8, 8, 4), 4, padding=((1, 1), (1, 1)))
    sketch.fully_connected(sketch.pool("max_pool_2d", first, (2, 2), strides=(2, 2)), 10)
    return sketch.graph()


def test_the_host_computes_what_the_npu_lacks() -> None:
    whole, parted = (npusim.simulate(npusim.compile(network(), hw)) for hw in (EDGE, lacking("max_pool_2d")))
    np.testing.assert_array_equal(whole.outputs[0], parted.outputs[0])
    assert [layer.unit for layer in whole.layers] == ["mac", "vector", "mac"]
    assert [layer.unit for layer in parted.layers] == ["mac", "host", "mac"]
    assert parted.layers[1].reason == "edge-128 lacks the operator (lacks_operators)"


def test_what_a_network_does_not_have_costs_nothing() -> None:
    cycles = {
        npusim.simulate(npusim.compile(network(), hw), timing_only=True).cycles
        for hw in (EDGE, lacking("softmax", "depthwise_conv_2d"))
    }
    assert len(cycles) == 1


def test_what_moves_nothing_is_no_work_for_anybody() -> None:
    sketch = Sketch("flat", seed=3)
    sketch.conv(sketch.reshape(sketch.input(1, 4, 4, 4), 1, 2, 8, 4), 4, (1, 1))
    result = npusim.simulate(npusim.compile(sketch.graph(), lacking("reshape")), timing_only=True)
    assert [layer.unit for layer in result.layers] == ["none", "mac"]


def test_a_whole_that_is_lacking_is_not_done_in_parts() -> None:
    graph = quantized_lstm(lambda low, high: low)
    assert expand(graph, lacking(graph.nodes[0].op)) is graph
    assert expand(graph, EDGE) is not graph


def test_an_operator_that_npusim_does_not_have_is_said_with_the_nearest() -> None:
    text = (
        "edge-128: lacks_operators: softmaxx is not an operator that npusim has, did you mean softmax?; "
        "qqq is not an operator that npusim has; `npusim ops` lists them"
    )
    with pytest.raises(HardwareError, match=re.escape(text)):
        npusim.compile(network(), lacking("softmaxx", "conv_2d", "qqq"))


def test_the_reason_goes_before_those_of_the_ways() -> None:
    graph = network()
    conv, entry = call_of(graph, graph.nodes[0]), operator("conv_2d")
    assert entry.lowering(conv, EDGE) is not None
    assert entry.lowering(conv, lacking("conv_2d")) is None
    assert (
        entry.host_reason(conv, lacking("conv_2d")).words == "edge-128 lacks the operator (lacks_operators)"
    )


def test_a_machine_may_lack_all_of_them() -> None:
    """And is then a host with an NPU that stands by: the same bytes, and nothing is taken apart for an NPU."""
    whole, alone = (npusim.simulate(npusim.compile(network(), hw)) for hw in (EDGE, lacking("all")))
    np.testing.assert_array_equal(whole.outputs[0], alone.outputs[0])
    assert {layer.unit for layer in alone.layers} == {"host"}
    assert lacking("all").is_host_alone
    assert not lacking("softmax").is_host_alone
    assert run_data.lines(alone)[0] == "cortex-m7 at 280 MHz; its machine stands by:"
    graph = quantized_lstm(lambda low, high: low)
    assert expand(graph, lacking("all")) is graph
