"""Random networks on random machines: the bytes of the numpy references, from the machine and from the interpreter.

Shapes, strides, paddings, dilations, batches, types and activations are drawn, and so are scratchpad, array,
dataflow, accumulators, ports, channels and queues, down to machines on which nothing fits. NPUSIM_EXAMPLES=5000
tries that many new ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from hypothesis import event, given, note
from hypothesis import strategies as st

from npusim.isa.base.errors import CompileError
from npusim.isa.hardware.file import hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.interpreter import interpret
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.reference import evaluate
from npusim.machine.system import execute
from npusim.scheduler import compile_graph
from npusim.session.api import host_functions

from ..examples import examples
from ..graphs import random_inputs
from ..races import races
from ..random_graphs import Pick, deep_graph, random_graph

EDGE = hardware("edge-128")


@st.composite
def graphs(draw: st.DrawFn, grow: Callable[[Pick], Graph]) -> Graph:
    """A graph whose every choice hypothesis makes, so that it can make it smaller."""
    return grow(lambda low, high: draw(st.integers(low, high)))


@st.composite
def machines(draw: st.DrawFn, sizes_kib: tuple[int, ...]) -> Hardware:
    """Variants of edge-128, as small as an array of one multiplier and a scratchpad of 1 KiB.

    Sections are replaced as they are: hardware files may not go that low.
    """

    def one(*options: object) -> object:
        return draw(st.sampled_from(options))

    changes: dict[str, dict[str, object]] = {
        "scratchpad": {"size_kib": one(*sizes_kib), "banks": 1},
        "mac_array": {
            "rows": one(16, 1, 2, 5, 8),
            "columns": one(8, 1, 3, 4, 16),
            "dataflow": one("both", "weight_stationary", "output_stationary"),
            "shadow_weights": one(True, False),
            "accumulator_kib": one(16, 1, 2),
            "output_lanes": one(8, 1, 4),
            "ifm_bytes_per_cycle": one(16, 1, 4),
            "weight_bytes_per_cycle": one(8, 1),
        },
        "dma": {
            "channels": one(2, 1, 3, 4),
            "setup_cycles": one(16, 0, 100),
            "port_bytes_per_cycle": one(8, 1, 16),
            "decoder_bytes_per_cycle": one(0, 1, 8),
            "burst_buffer_kib": one(4, 0, 1),
        },
        "dram": {
            "bandwidth_gb_per_s": one(0.5, 0.1, 8.0),
            "latency_ns": one(128.0, 0.0, 1000.0),
            "burst_bytes": one(32, 8, 64),
            "grant_bytes": one(512, 64, 1024),
            "outstanding_requests": one(16, 1),
        },
        "front_end": {
            "queue_depth": one(8, 1, 2, 64),
            "fetch_instructions": one(4, 1, 16),
            "decode_cycles": one(1, 0, 3),
        },
        "vector": {"lanes": one(8, 1, 16)},
    }
    sections = {name: getattr(EDGE, name).model_copy(update=values) for name, values in changes.items()}
    return EDGE.model_copy(update=sections)


NOTHING_FITS = re.compile(
    r'random: (\w+) "n\d+" needs (\d+) bytes of scratchpad for its smallest tile, '
    r"edge-128 has (\d+); enlarge scratchpad.size_kib"
)


def check_refusal(graph: Graph, chosen: Hardware, text: str) -> None:
    """A graph that does not fit is refused with an operator of it and with numbers that say so."""
    message = NOTHING_FITS.fullmatch(text)
    assert message is not None, text
    assert message[1] in {node.op for node in graph.nodes}
    assert int(message[2]) > int(message[3]) == chosen.scratchpad_bytes


def check(graph: Graph, chosen: Hardware) -> None:
    """Compile and run a graph; every output must have the bytes of the references."""
    note(f"{len(graph.nodes)} nodes: " + ", ".join(node.op for node in graph.nodes))
    try:
        program = compile_graph(graph, chosen)
    except CompileError as refusal:
        check_refusal(graph, chosen, str(refusal))
        event("does not fit")
        return
    event("fits")
    assert races(program) == set()
    inputs = random_inputs(graph)
    values = evaluate(graph, inputs)
    functions = host_functions(program)
    result = execute(program, inputs, host_functions=functions)
    assert result.outputs is not None
    in_order = interpret(program, inputs, functions)
    for tensor, by_machine, by_interpreter in zip(graph.outputs, result.outputs, in_order, strict=True):
        name = graph.tensors[tensor].name
        np.testing.assert_array_equal(by_interpreter, values[tensor], err_msg=f"interpreter, {name}")
        np.testing.assert_array_equal(by_machine, values[tensor], err_msg=f"machine, {name}")
    assert execute(program, data=False).cycles == result.cycles


@given(graphs(random_graph), machines((64, 1, 2, 3, 4, 6, 8, 12, 16, 24)))
@examples(40)
def test_graphs_of_all_kinds(graph: Graph, chosen: Hardware) -> None:
    check(graph, chosen)


@given(graphs(deep_graph), machines((2, 3, 4, 5, 6, 8, 10)))
@examples(40)
def test_layers_that_do_not_fit_as_a_whole(graph: Graph, chosen: Hardware) -> None:
    check(graph, chosen)
