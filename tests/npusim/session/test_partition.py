"""The partition between NPU and host: forced, by cost, and what its pieces and boundaries cost."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

import npusim
from npusim.isa.base.errors import NpusimError
from npusim.numbers.run import RunResult
from npusim.session.options import partition

from ...graphs import Sketch
from ...random_graphs import random_graph

EDGE = "edge-128"


def run(graph: npusim.Graph, **asked: object) -> RunResult:
    result = npusim.simulate(npusim.compile(graph, EDGE, **asked))  # type: ignore[call-overload]
    assert isinstance(result, RunResult)
    return result


def network() -> npusim.Graph:
    """A convolution, a pool that is forced to the host or not, another convolution."""
    sketch = Sketch("net", seed=2)
    first = sketch.conv(sketch.input(1, 8, 8, 16), 16, padding=((1, 1), (1, 1)))
    pooled = sketch.pool("max_pool_2d", first, (2, 2), strides=(2, 2))
    sketch.conv(pooled, 16, (1, 1))
    return sketch.graph()


def test_bytes_do_not_depend_on_who_computes() -> None:
    alone, split = run(network()), run(network(), host=["max_pool_2d"])
    np.testing.assert_array_equal(alone.outputs[0], split.outputs[0])
    assert [layer.unit for layer in split.layers] == ["mac", "host", "mac"]
    assert split.layers[1].reason == "forced to the host by --host"


def test_pieces_add_up_and_boundaries_say_what_crosses() -> None:
    result = run(network(), host=["max_pool_2d"])
    first, host, last = result.pieces
    assert [piece.side for piece in result.pieces] == ["npu", "host", "npu"]
    assert sum(piece.cycles for piece in result.pieces) == result.cycles
    assert sum(piece.energy_uj for piece in result.pieces) == pytest.approx(float(result.energy_uj))
    assert first.entered is None
    assert host.entered is not None
    assert last.entered is not None
    assert host.entered.bytes == 8 * 8 * 16
    assert last.entered.bytes == 4 * 4 * 16
    # 5 us of handover at 500 MHz
    assert host.entered.handover_cycles == 5 * result.hardware.clock_mhz
    assert last.entered.handover_cycles == 0
    assert 0 < host.entered.copy_cycles < result.cycles


def test_a_run_that_stays_on_the_npu_is_one_piece() -> None:
    (piece,) = run(network()).pieces
    assert (piece.side, piece.layers, piece.entered) == ("npu", 3, None)


def test_pieces_are_in_the_json() -> None:
    plain = run(network(), host=["max_pool_2d"]).to_dict()["pieces"]
    assert [piece["side"] for piece in plain] == ["npu", "host", "npu"]
    assert plain[0]["entered"] is None
    assert set(plain[1]["entered"]) == {
        "tensors", "bytes", "copies", "copy_cycles", "handover_cycles", "cycles", "time_us", "energy_uj"
    }  # fmt: skip
    # Inside one program a boundary has no cycles of its own.
    assert plain[1]["entered"]["cycles"] == 0


@pytest.mark.parametrize("seed", range(6))
def test_by_cost_is_never_slower_and_gives_the_same_bytes(seed: int) -> None:
    graph = random_graph(Random(seed).randint)
    kinds = sorted({node.op for node in graph.nodes})
    asked = {"host": kinds[:1]}
    by_capability, by_cost = run(graph, **asked), run(graph, partition="cost", **asked)
    assert by_cost.cycles <= by_capability.cycles
    for one, other in zip(by_capability.outputs, by_cost.outputs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_by_cost_takes_a_layer_between_two_of_the_host_along() -> None:
    machine = npusim.hardware("edge-32", ["host.core=cortex-x1", "host.threads=4", "host.handover_us=0"])
    sketch = Sketch("between", seed=3)
    first = sketch.pool("max_pool_2d", sketch.input(1, 16, 16, 32), (2, 2))
    sketch.pool("max_pool_2d", sketch.conv(first, 64, padding=((1, 1), (1, 1))), (2, 2))
    graph = sketch.graph()

    def units(**asked: object) -> list[str]:
        program = npusim.compile(graph, machine, host=["max_pool_2d"], **asked)  # type: ignore[call-overload]
        return [layer.unit for layer in program.layers]

    assert units() == ["host", "mac", "host"]
    assert units(partition="cost") == ["host", "host", "host"]


def test_what_cannot_be_placed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NpusimError, match="--host: an operator has no name"):
        partition(["softmax", ""])
    with pytest.raises(NpusimError, match="no such file"):
        partition((), tmp_path / "none.txt")
    program = npusim.compile(network(), EDGE)
    assert isinstance(program, npusim.Program)
    npusim.save_program(program, tmp_path / "p.npu")
    with pytest.raises(NpusimError, match="compiled already, its operators have their places"):
        npusim.run(tmp_path / "p.npu", host=["softmax"])


def test_a_file_and_cost_go_together(tmp_path: Path) -> None:
    file = tmp_path / "force.txt"
    file.write_text("max_pool_2d\n")
    chosen = partition(["pad"], [file, "cost"])
    assert [entry.kind for entry in chosen.forced] == ["pad", "max_pool_2d"]
    assert chosen.by_cost
