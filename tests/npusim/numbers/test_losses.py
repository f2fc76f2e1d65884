"""Where cycles go: hand-made runs with the numbers written out, and exact sums for any run and for whole models.

The bench of `handmade` takes 10 cycles for a DRAM row, 4 for a burst of 32 bytes, 20 until the bytes arrive, 16 to
set up a transfer. A look-up takes 8 + 32 cycles and 1 for every 8 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.base.elements import Workload
from npusim.isa.hardware.file import change
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import RESOURCES, Unit
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.program.program import Layer, MemoryImage, Program
from npusim.kernels.graph.graph import Graph
from npusim.machine.system import execute
from npusim.machine.trace import Execution
from npusim.numbers import timeline
from npusim.numbers.bounds import LowerBound
from npusim.numbers.causes import CAUSES
from npusim.numbers.losses import Account, Accounts, accounts
from npusim.scheduler import compile_graph
from npusim.session.api import hardware, load

from ...yardstick import cost
from ..machine import handmade
from ..machine.handmade import barrier, bench, lookup, waits
from . import fake_run
from .fake_run import CONVOLUTION, CROP, RELU, Step

GAINS = {"prefetched", "overlapped"}
LAYER = Layer("layer", "tanh", "vector", Workload("elementwise"))


def bound(*cycles: int) -> LowerBound:
    """Cycles on the MAC array, the vector unit, the DRAM port, the host."""
    return LowerBound(dict(zip(RESOURCES, cycles, strict=True)))


def lost(
    instructions: Sequence[tuple[int, Instruction]], machine: Hardware | None = None, constants: int = 8192
) -> Accounts:
    """The accounts of instructions that each work for a layer; DRAM holds constants first, then feature maps."""
    program = handmade.program([each for _, each in instructions], machine or bench())
    layers = [layer for layer, _ in instructions]
    program = replace(
        program,
        constants=bytes(constants),
        images=(MemoryImage(0, constants),),
        layers=(LAYER,) * (max(layers) + 1),
        layer_of=np.array(layers, np.uint32),
    )
    found = accounts(program, execute(program, data=False))
    check(found, program)
    return found


def check(found: Accounts, program: Program) -> None:
    """Every account adds up; all cycles belong to a layer; only gains are negative."""
    for account in (found.network, *found.layers):
        assert account.cycles == account.bound.cycles + sum(account.lost.values())
        assert list(account.lost) == [cause for cause in CAUSES if cause in account.lost]
        assert all(account.lost.values())
        assert {cause for cause, cycles in account.lost.items() if cycles < 0} <= GAINS
    assert sum(account.cycles for account in found.layers) == found.network.cycles
    assert not GAINS & set(found.network.lost)


# Hand-made timelines.


def test_a_run_through_all_kinds_of_layers() -> None:
    """`fake_run.STEPS`, 200 cycles. The convolution of 60 is 5 useful, 31 edge, 22 fill and drain, 2 output."""
    found = accounts(fake_run.program(), fake_run.execution())
    inside = {"edge_tiles": 31, "fill_drain": 22, "output_stage": 2, "mac": 5}
    # 576 MACs / 128; 96 elements / 8; (288 weights + 10 scores) / 16 bytes per cycle; the host's 40.
    assert found.network == Account(
        200,
        bound(5, 12, 19, 40),
        inside | {"vector": 20, "moves": 15, "stall_front_end": 15, "start_up": 40, "tail": 10},
    )
    assert found.layers == (
        # 288 weights / 16 are 18; the port moves them, and 32 bytes more, in 20 of the 40 cycles of start-up.
        Account(100, bound(5, 0, 18, 0), inside | {"dram_traffic": 2, "start_up": 20}),
        Account(20, bound(0, 12, 0, 0), {"vector_overhead": 8}),
        Account(20, bound(0, 0, 0, 0), {"moves": 15, "stall_front_end": 5}),
        Account(0, bound(0, 0, 0, 0), {}),
        Account(60, bound(0, 0, 1, 40), {"stall_front_end": 10, "tail": 10}),
    )
    check(found, fake_run.program())


def test_a_load_and_a_look_up() -> None:
    # The load is dispatched at 43, asks at 43 + 16 = 59, has the port until 59 + 10 + 32 = 101, ends at 121; the
    # look-up ends at 121 + 48. 256 bytes at 8 per cycle: the bound.
    found = lost([(0, handmade.load(0, 0, 256)), (0, lookup(0, 0, 64, after=waits(dma0=1)))])
    expected = {"dram_overhead": 10, "vector": 48, "start_up": 59 + 20}
    assert found.network == Account(169, bound(0, 8, 32, 0), expected)
    assert found.layers[0] == found.network


@pytest.mark.parametrize(("banks", "rows_waited_for"), [(1, 4), (2, 1), (8, 1)])
def test_rows_that_open_while_others_stream_are_no_loss(banks: int, rows_waited_for: int) -> None:
    # As above with 4,096 bytes: 512 cycles, in four rows. Of several banks only the first is waited for.
    machine = bench(dram__banks=banks)
    steps = [(0, handmade.load(0, 0, 4096)), (0, lookup(0, 0, 64, after=waits(dma0=1)))]
    found = lost(steps, machine)
    expected = {"dram_overhead": 10 * rows_waited_for, "vector": 48, "start_up": 59 + 20}
    assert found.network == Account(59 + 512 + 10 * rows_waited_for + 20 + 48, bound(0, 8, 512, 0), expected)
    # Each is opened once all the same, and that of the code.
    run = execute(handmade.program([each for _, each in steps], machine), data=False)
    assert sum(actions.get("dram_activate", 0) for actions in run.layer_actions) == 5


def test_prefetched_weights() -> None:
    # The first look-up runs from 43 to 91. The load of the second starts at 51, has the port from 67 until 205,
    # 24 of its cycles beside the first, and ends at 225; the second look-up ends at 273.
    found = lost(
        [(0, lookup(0, 0, 64)), (1, handmade.load(0, 0, 1024)), (1, lookup(0, 0, 64, after=waits(dma0=1)))]
    )
    assert found.layers == (
        Account(91, bound(0, 8, 0, 0), {"vector_overhead": 40, "start_up": 43}),
        Account(
            182,
            bound(0, 8, 128, 0),
            {"dram_overhead": 10, "vector": 48, "stall_dma": 20, "prefetched": -24},
        ),
    )
    assert found.network == Account(
        273,
        bound(0, 16, 128, 0),
        {"dram_overhead": 10, "vector": (67 - 43) + 48, "stall_dma": 20, "start_up": 43},
    )


BUSY = 2048
"""A look-up of so many bytes takes 40 + 256 cycles: the vector unit sets the bound of its layer."""


def second_look_up(
    between: Sequence[tuple[int, Instruction]], after: tuple[int, ...], constants: int = 8192, **changes: int
) -> Account:
    """The account of a look-up (layer 1) that waits, behind one of 48 cycles (layer 0)."""
    program = [(0, lookup(0, 0, 64)), *between, (1, lookup(0, 0, BUSY, after=after))]
    return lost(program, bench(**changes), constants).layers[1]


@pytest.mark.parametrize(("constants", "cause"), [(8192, "stall_weights"), (0, "stall_feature_map")])
def test_a_stall_for_bytes_from_dram(constants: int, cause: str) -> None:
    # As above: the first look-up ends at 91, the last byte passes the port at 205 and is there at 225.
    account = second_look_up([(1, handmade.load(0, 0, 1024))], waits(dma0=1), constants)
    assert account == Account(134 + 296, account.bound, {"vector_overhead": 40, cause: 114, "stall_dma": 20})
    assert account.bound == bound(0, 256, 128 if constants else 0, 0)


def test_a_stall_behind_another_transfer() -> None:
    # The first look-up ends at 91. Channel 0 asks at 67, channel 1 at 75; turns of 42 cycles: 67-109, 109-151,
    # 151-193, and 193-235, when the bytes that are waited for have passed.
    other, wanted = handmade.load(0, 0, 1024), handmade.load(4096, 1024, 512, channel=1)
    account = second_look_up([(2, other), (1, wanted)], waits(dma1=1))
    expected = {"stall_weights": 42 + 42, "stall_dram_contention": 18 + 42, "stall_dma": 20}
    assert account.lost == {"vector_overhead": 40} | expected


def test_a_stall_behind_a_full_queue() -> None:
    # The first look-up ends at 91. One transfer runs from 51 until 129 and one is in the queue: the third is
    # dispatched at 129, the look-up behind it, which needs none of them, at 130.
    loads = [(2, handmade.load(256 * i, 0, 256)) for i in range(3)]
    account = second_look_up(loads, waits(), front_end__queue_depth=1)
    assert account.lost == {"vector_overhead": 40, "stall_queue": 129 - 91, "stall_front_end": 1}


def test_a_full_queue_is_not_to_blame_for_bytes_that_are_not_there() -> None:
    # As above, but the look-up needs the third load. The row stays open, so the others pass the port in 32 each.
    loads = [(1, handmade.load(256 * i, 0, 256)) for i in range(3)]
    account = second_look_up(loads, waits(dma0=3), front_end__queue_depth=1)
    assert "stall_queue" not in account.lost
    assert account.lost["stall_weights"] == (109 - 91) + 32 + 32


def test_a_stall_at_a_barrier() -> None:
    # The first look-up ends at 91; the load asks at 67 and ends at 67 + 138 + 20 = 225; one cycle to decode.
    account = second_look_up([(1, handmade.load(0, 0, 1024)), (1, barrier(dma0=1))], waits())
    expected = {"stall_weights": 205 - 91, "stall_dma": 20, "stall_front_end": 1}
    assert account.lost == {"vector_overhead": 40} | expected


def test_a_stall_for_a_port_of_a_bank() -> None:
    # All in one bank. The load asks at 51, begins with the end of the first look-up at 91 and ends at
    # 91 + 16 + 138 + 20 = 265; the second look-up is ready at 91, after the load.
    account = second_look_up([(1, handmade.load(0, 0, 1024))], waits(), scratchpad__bank_ports=1)
    assert account.lost == {"vector_overhead": 40, "stall_bank_ports": 265 - 91}


def test_a_stall_for_a_transfer_that_waits_for_a_port_of_a_bank() -> None:
    # As above, but the second look-up needs another load, which begins when the first ends at 265: set up until 281,
    # a row and 32 until 323, the latency.
    other, wanted = handmade.load(0, 0, 1024), handmade.load(4096, 1024, 256, channel=1)
    account = second_look_up([(2, other), (1, wanted)], waits(dma1=1), scratchpad__bank_ports=1)
    expected = {"stall_weights": 42, "stall_dma": 16 + 20, "stall_bank_ports": 265 - 91}
    assert account.lost == {"vector_overhead": 40} | expected


def test_instruction_fetch_before_data() -> None:
    # See test_timeline_exact: fetch has the port from 101 to 119 amid the load, which ends at 245.
    program = [(0, handmade.load(0, 0, 1024)), (0, lookup(0, 0, 64)), (0, lookup(0, 0, 64))]
    account = lost(program, bench(front_end__fetch_instructions=1)).network
    expected = {"dram_overhead": 2 * 10, "instruction_fetch": 18, "start_up": 59, "tail": 20}
    assert account == Account(245, bound(0, 16, 128, 0), expected)


def test_vector_work_beside_another_layer() -> None:
    """A vector layer that runs while the MAC array works owns no cycle."""
    steps = (Step(Unit.MAC, 0, 0, 60), Step(Unit.VECTOR, 1, 20, 40))
    found = accounts(fake_run.program(steps=steps), fake_run.execution(steps=steps))
    assert found.layers[0] == Account(
        60, bound(5, 0, 0, 0), {"edge_tiles": 31, "fill_drain": 22, "output_stage": 2}
    )
    assert found.layers[1] == Account(0, bound(0, 12, 0, 0), {"vector_overhead": 8, "overlapped": -20})


def test_a_run_that_computes_nothing() -> None:
    steps = (Step(Unit.DMA0, 0, 0, 30),)
    found = accounts(fake_run.program((CONVOLUTION,), steps), fake_run.execution(steps=steps))
    assert found.layers[0] == found.network == Account(30, bound(0, 0, 0, 0), {"start_up": 30})


# Any timeline.


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.sampled_from([Unit.DMA0, Unit.DMA2, Unit.MAC, Unit.VECTOR, Unit.FRONT_END]),
            st.integers(0, 2),
            st.integers(0, 50),
            st.integers(0, 20),
        ),
        max_size=12,
    )
)
def test_losses_add_up_on_any_timeline(rows: list[tuple[Unit, int, int, int]]) -> None:
    steps = tuple(Step(unit, layer, start, start + length) for unit, layer, start, length in rows)
    program = fake_run.program((CONVOLUTION, RELU, CROP), steps)
    execution = fake_run.execution(steps=steps)
    found = accounts(program, execution)
    cycles = timeline.layer_cycles(program, execution.trace, execution.cycles).tolist()
    assert [account.cycles for account in found.layers] == cycles
    assert found.network.cycles == execution.cycles
    for account in (found.network, *found.layers):
        assert account.cycles == account.bound.cycles + sum(account.lost.values())


# Whole models.

EDGE = "edge-128"
SMALL: dict[str, object] = {"scratchpad.size_kib": 64}
PLAIN: dict[str, object] = {
    "mac_array.shadow_weights": False,
    "mac_array.dataflow": "weight_stationary",
    "mac_array.ifm_bytes_per_cycle": 4,
    "dma.decoder_bytes_per_cycle": 0,
}
RUNS = [
    ("digits_cnn", EDGE, {}),
    ("digits_cnn", "mobile-1024", {}),
    ("digits_cnn", EDGE, {"scratchpad.size_kib": 16}),
    ("ds_cnn", EDGE, {}),
    ("ds_cnn", EDGE, SMALL),
    ("ds_cnn", EDGE, PLAIN),
    ("ds_cnn", EDGE, {"dma.channels": 1, "front_end.queue_depth": 1, "front_end.decode_cycles": 20}),
    ("ds_cnn", EDGE, {"scratchpad.bank_ports": 1}),
    ("mobilenet_v2", EDGE, {}),
    ("mobilenet_v2", EDGE, {"scratchpad.size_kib": 256}),
]


@cache
def _graph(model: str) -> Graph:
    return load(model)


@cache
def _run(model: str, preset: str, changes: tuple[tuple[str, object], ...]) -> tuple[Program, Execution]:
    program = compile_graph(_graph(model), change(hardware(preset), dict(changes)))
    return program, execute(program, data=False)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "preset", "changes"), RUNS, ids=str)
def test_losses_of_a_model_add_up(model: str, preset: str, changes: dict[str, object]) -> None:
    program, execution = _run(model, preset, tuple(changes.items()))
    found = accounts(program, execution)
    check(found, program)
    assert found.network.cycles == execution.cycles
    cycles = timeline.layer_cycles(program, execution.trace, execution.cycles).tolist()
    assert [account.cycles for account in found.layers] == cycles
    for resource in ("mac", "vector", "dram", "host"):
        parts = [getattr(account.bound, resource) for account in found.layers]
        whole = getattr(found.network.bound, resource)
        assert max(parts) <= whole <= sum(parts)


def test_the_array_of_mobilenet_is_bound_by_its_macs() -> None:
    program, execution = _run("mobilenet_v2", EDGE, ())
    bound = accounts(program, execution).network.bound
    # 300 774 272 MACs on 128 multipliers: the compiler computes none twice.
    assert bound.mac == 2_349_799


def test_the_page_defines_every_cause() -> None:
    page = (Path(__file__).parents[3] / "docs" / "losses.md").read_text()
    rows = page.partition("| cause |")[2].partition("\n\n")[0]
    table = [line for line in rows.splitlines() if line.startswith("| `")]
    assert table == [f"| `{cause}` | {each.meaning} |" for cause, each in CAUSES.items()]


def test_accounting_is_cheap() -> None:
    program, execution = _run("mobilenet_v2", EDGE, ())
    accounts(program, execution)
    limit = 4  # 0.8 measured
    assert cost(lambda: accounts(program, execution), limit) < limit
