"""Chains and results in place: they meet only where no band destroys what a later one reads."""

from __future__ import annotations

import pytest

from npusim.isa.hardware.file import change, hardware
from npusim.kernels.graph.graph import Graph
from npusim.scheduler import prepare, schedule
from npusim.scheduler.fit.cuts import Band, Choices
from npusim.scheduler.network.storage import Aliases
from npusim.scheduler.place.chains import links_from
from npusim.scheduler.place.residency import Residents, prescribed
from npusim.scheduler.place.sharing import share

from ..graphs import Sketch
from .test_search import check

ONE = ((1, 1), (1, 1))


def network(result_first: bool) -> Graph:
    """conv -> conv -> sum with what went into the second, all in rows of 1024 bytes."""
    sketch = Sketch("net", seed=8)
    a = sketch.conv(sketch.input(1, 32, 32, 8), 32, padding=ONE)
    b = sketch.conv(a, 32, padding=ONE)
    sketch.conv(sketch.binary("add", b, a) if result_first else sketch.binary("add", a, b), 8, padding=ONE)
    return sketch.graph()


@pytest.mark.parametrize("result_first", [True, False])
def test_a_chain_does_not_overwrite_what_its_first_stage_reads(result_first: bool) -> None:
    # With the map between the second convolution and the sum in DRAM they may run band by band, or the sum may take
    # the place of the convolution's input, but not both: the rows that two bands need would be gone.
    graph = network(result_first)
    prepared = prepare(graph, change(hardware("edge-128"), {"scratchpad.size_kib": 128}))
    source, between, result = (graph.nodes[node].outputs[0] for node in range(3))
    choices = Choices(evicted=frozenset({between}), chains={0: Band(1), 1: Band(2, 5)})

    def residents(forest: Aliases) -> Residents:
        return prescribed(share(prepared, forest, choices.lead_slots), choices)

    apart = prepared.aliases
    in_place = Aliases({**apart.parent, result: (source, 0)})
    assert list(links_from(residents(apart), 1)) == [(between, int(not result_first))]
    assert list(links_from(residents(in_place), 1)) == []


@pytest.mark.parametrize("result_first", [True, False])
def test_the_link_of_a_chain_may_be_any_input(result_first: bool) -> None:
    graph = network(result_first)
    prepared = prepare(graph, change(hardware("edge-128"), {"scratchpad.size_kib": 128}))
    between = graph.nodes[1].outputs[0]
    found = schedule(prepared, Choices(evicted=frozenset({between}), chains={0: Band(1), 1: Band(2, 5)}))
    assert found.chains[1].items == (1, 2)
    assert found.chains[1].between == ((between, int(not result_first)),)
    check(graph, found.program)
