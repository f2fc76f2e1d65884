"""Cuts of one layer: they cover the output, they fit what they say, and the search finds one as fast as any."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.graph.graph import Graph, call_of
from npusim.kernels.lowering.work import Work
from npusim.kernels.table import operator
from npusim.machine.system import execute
from npusim.scheduler import compile_graph
from npusim.scheduler.fit.cuts import Cut, End, Residency, band_bytes, cuts
from npusim.scheduler.fit.tiling import TileSearch

from ..graphs import Sketch
from ..random_graphs import random_graph

pytestmark = pytest.mark.slow

EDGE = hardware("edge-128")


def works(graph: Graph, chosen: Hardware) -> Iterator[Work]:
    """The works into which the nodes of a graph are lowered."""
    for node in graph.nodes:
        found, call = operator(node.op), call_of(graph, node)
        if row := found.lowering(call, chosen):
            yield from (body for body in row.lower(call, chosen) if isinstance(body, Work))


def one_layer(kind: str) -> Graph:
    """A layer that is bound by its weights, by its feature maps, or by neither."""
    sketch = Sketch(kind, seed=1)
    if kind == "many weights":
        sketch.conv(sketch.input(1, 8, 8, 64), 128, padding=((1, 1), (1, 1)))
    elif kind == "large maps":
        sketch.conv(sketch.input(1, 64, 48, 8), 16, padding=((1, 1), (1, 1)))
    elif kind == "pointwise":
        sketch.conv(sketch.input(1, 32, 32, 32), 32, (1, 1))
    elif kind == "depthwise":
        sketch.depthwise(sketch.input(1, 48, 48, 16), strides=(2, 2), padding=((0, 1), (0, 1)))
    elif kind == "matrix":
        sketch.fully_connected(sketch.input(4, 640), 256)
    return sketch.graph()


KINDS = ("many weights", "large maps", "pointwise", "depthwise", "matrix")


def residencies(work: Work) -> list[Residency]:
    """Everything in DRAM, everything in the scratchpad, and an input that arrives while it is used."""
    count = len(work.inputs)
    return [
        Residency((False,) * count, (False,), (False,) * count),
        Residency((True,) * count, (True,), (False,) * count),
        Residency((True,) * count, (False,), (True,) * count),
    ]


@pytest.mark.parametrize("seed", range(25))
def test_cuts_of_random_layers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(lambda low, high: int(rng.integers(low, high + 1)))
    for work in works(graph, EDGE):
        for residency in residencies(work):
            search = TileSearch(work, residency, EDGE)
            found = [cut for group in cuts(work, residency) for cut in group]
            for cut in found:
                covers_once(work, cut)
            sizes = [search.buffer_bytes(cut) for cut in found]
            # The smallest need is that of a cut, and the search finds it when there is no more room.
            assert search.smallest_buffers() == min(sizes)
            best = search.best(min(sizes))
            assert best is not None
            assert search.buffer_bytes(best[1]) == min(sizes)
            if min(sizes):
                assert search.best(min(sizes) - 1) is None
            # What is chosen fits and is, by the estimate, about as fast as anything that does.
            for budget in {*sizes, max(sizes) + 1}:
                chosen = search.best(budget)
                assert chosen is not None
                assert search.buffer_bytes(chosen[1]) <= budget
                fastest = min(
                    search.cycles(cut) for cut, size in zip(found, sizes, strict=True) if size <= budget
                )
                assert chosen[0] <= 1.1 * fastest


def covers_once(work: Work, cut: Cut) -> None:
    """Every output element lies in one tile, and every tile finds the input rows that it needs."""
    times = np.zeros((work.entries, work.rows, work.channels), np.int8)
    for tile in cut.tiles(work):
        times[tile.entry, tile.first_row : tile.last_row, tile.first_channel : tile.last_channel] += 1
        for position, (rows, needed) in enumerate(work.inputs):
            first, last = needed(tile.first_row, tile.last_row)
            assert 0 <= first <= last <= rows.count  # none where windows see padding only
            assert (
                band_bytes(work, position, tile.first_row, tile.last_row) == (last - first) * rows.row_bytes
            )
    assert (times == 1).all()


@pytest.mark.cases(1, each="kind")
@pytest.mark.parametrize("size_kib", [24, 64])
@pytest.mark.parametrize("kind", KINDS)
def test_the_chosen_cut_is_as_fast_as_any(kind: str, size_kib: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = change(EDGE, {"scratchpad.size_kib": size_kib, "scratchpad.banks": 1})
    graph = one_layer(kind)
    (work,) = works(graph, chosen)
    everything_streams = residencies(work)[0]
    search = TileSearch(work, everything_streams, chosen)
    fitting = [
        cut
        for group in cuts(work, everything_streams)
        for cut in group
        if search.buffer_bytes(cut) <= chosen.scratchpad_bytes
    ]
    # Every cut in turn on the machine, the model's input and output in DRAM.
    monkeypatch.setattr(
        "npusim.scheduler.network.storage.Storage.may_be_resident", property(lambda self: False)
    )
    cycles = {cut: cycles_with(cut, graph, chosen, monkeypatch) for cut in fitting}
    best = search.best(chosen.scratchpad_bytes)
    assert best is not None
    assert cycles[best[1]] <= 1.1 * min(cycles.values())


def cycles_with(cut: Cut, graph: Graph, chosen: Hardware, monkeypatch: pytest.MonkeyPatch) -> int:
    """Measured cycles of a one-layer network under a given cut."""
    with monkeypatch.context() as patch:
        patch.setattr(TileSearch, "best", lambda self, budget_bytes: (0.0, cut))
        return execute(compile_graph(graph, chosen), data=False).cycles


@pytest.mark.parametrize(
    ("step", "last", "ranges"),
    [
        (24, 0, [(0, 24), (24, 48), (48, 60)]),
        (24, 8, [(0, 24), (24, 48), (48, 52), (52, 60)]),
        (60, 8, [(0, 52), (52, 60)]),
        (24, 12, [(0, 24), (24, 48), (48, 60)]),  # they are a tile of their own already
        (24, 60, [(0, 24), (24, 48), (48, 60)]),  # all of them are the whole work
    ],
)
def test_the_last_channels_may_be_a_tile_of_their_own(
    step: int, last: int, ranges: list[tuple[int, int]]
) -> None:
    sketch = Sketch("net")
    sketch.fully_connected(sketch.input(1, 64), 60)
    (work,) = works(sketch.graph(), EDGE)
    assert Cut(1, step, True, False, last).channels(work) == ranges


def test_the_last_tile_of_a_network_bound_by_its_weights_is_small() -> None:
    # When its weights are there, nothing else is left to wait for: what it computes is all exposed.
    sketch = Sketch("net")
    sketch.fully_connected(sketch.fully_connected(sketch.input(1, 256), 512), 512)
    first, last = works(sketch.graph(), EDGE)
    residency = Residency((True,), (True,), (False,))
    ends = [End(first=True, last=False), End(first=False, last=True)]
    cuts_of = [
        TileSearch(work, residency, EDGE, end=end).best(EDGE.scratchpad_bytes)
        for work, end in zip((first, last), ends, strict=True)
    ]
    assert cuts_of[0] is not None
    assert cuts_of[1] is not None
    assert not cuts_of[0][1].last_channels
    tiles = cuts_of[1][1].tiles(last)
    assert tiles[-1].channels < tiles[0].channels // 4
