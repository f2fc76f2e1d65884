"""Exact timelines of tiny programs, each number with its sum.

An instruction is 72 bytes. Bursts are 32 bytes and 4 cycles, opening a DRAM row costs 10 cycles, a grant is 8
bursts, the first byte comes 20 cycles after the last burst. Up to 8 instructions are fetched ahead; decoding and
dispatching one takes a cycle. The n-th instruction is there after 10 + 4 * bursts + 20 cycles:

    n = 1: 3 bursts, 42    n = 2: 5 bursts, 50    n = 3: 7 bursts, 58    n = 4: 9 bursts, 66
"""

from __future__ import annotations

import pytest

from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.region import Space

from ..machine.handmade import (
    Row,
    barrier,
    bench,
    bytes_at,
    host_call,
    load,
    lookup,
    rows,
    run,
    store,
    traffic,
    waits,
)

LOOKUP = 8 + 32 + 8
"""Cycles of a look-up of 64 bytes: start-up, the table at 8 bytes per cycle, the bytes at 8 per cycle."""


# One transfer.


def test_a_load() -> None:
    result = run([load(0, 0, 256)], bench())
    # Dispatched at 42 + 1, set up until 43 + 16 = 59; the row 10 and 8 bursts of 4 until 101, latency until 121.
    assert rows(result) == [Row("dma0", 43, 43, 43, 121)]
    assert traffic(result) == [("fetch", 0, 22, 96), ("dma0", 59, 101, 256)]
    assert result.cycles == 121
    assert result.trace.busy.tolist() == [16 + 16]  # its own work: setup and 256 bytes at 16 per cycle


def test_a_store_needs_no_latency() -> None:
    result = run([store(0, 0, 256)], bench())
    assert rows(result) == [Row("dma0", 43, 43, 43, 101)]
    assert (result.dram_read_bytes, result.dram_write_bytes, result.instruction_bytes) == (0, 256, 96)


def test_a_load_from_four_grants() -> None:
    result = run([load(128, 0, 1000)], bench())
    # Bytes 128..1127 are bursts 4..35: 28 in row 0, 4 in row 1. 59 + 10 + 112 + 10 + 16 = 207.
    assert traffic(result)[1:] == [("dma0", 59, 207, 1024)]
    assert rows(result) == [Row("dma0", 43, 43, 43, 227)]


def test_the_scratchpad_side_may_be_the_slower_one() -> None:
    result = run([load(0, 0, 256)], bench(dma__port_bytes_per_cycle=1))
    # The first burst is there at 59 + 10 + 4 = 73: the latency of 20 is less than a burst may take at this port. From
    # then on a byte per cycle.
    assert rows(result) == [Row("dma0", 43, 43, 43, 73 + 256)]


def test_short_runs_take_a_beat_each() -> None:
    scattered = Copy(source_space=Space.DRAM, count2=99, size=2, source_stride2=2, target_stride2=50)
    result = run([scattered], bench())
    # 200 bytes in a row are 7 bursts: 59 + 10 + 28 + 20 = 117; but 100 runs are 100 beats. A burst may take 32 / 16 + 2
    # cycles at the port and is there so much before the end of the latency: 59 + 10 + 4 + 20 - 4 = 89.
    assert rows(result) == [Row("dma0", 43, 43, 43, 89 + 100)]


def test_a_burst_that_repeats_has_as_many_beats() -> None:
    repeated = Copy(source_space=Space.DRAM, count2=19, size=32, source_stride2=0, target_stride2=32)
    result = run([repeated], bench())
    # One burst, there at 59 + 10 + 4 + 20 - 4 = 89; then 20 runs of two beats.
    assert traffic(result)[1:] == [("dma0", 59, 73, 32)]
    assert rows(result) == [Row("dma0", 43, 43, 43, 89 + 40)]


PLANES = {"count2": 63, "size": 1}
"""64 pixels; of three planes that are 1024 bytes apart, or side by side."""


def test_straight_through_every_byte_is_a_beat_and_a_burst() -> None:
    pixels = Copy(source_space=Space.DRAM, count1=63, count2=2, size=1, source_stride1=1, source_stride2=1024,
                  target_stride1=3, target_stride2=1)  # fmt: skip
    result = run([pixels], bench())
    # 192 bytes in as many rows, each opened for one burst.
    assert traffic(result)[1:] == [("dma0", 59, 59 + 192 * 14, 192 * 32)]
    assert rows(result) == [Row("dma0", 43, 43, 43, 59 + 192 * 14 + 20)]


def test_a_block_reads_each_burst_once() -> None:
    pixels = Copy(source_space=Space.DRAM, count1=2, source_stride1=1024, source_stride2=1, target_stride1=1,
                  target_stride2=3, block=2, **PLANES)  # fmt: skip
    result = run([pixels], bench())
    # Three rows, two bursts of each: 59 + 3 * (10 + 8) = 113. A burst may take 4 cycles at the port and is there so
    # much before the end of the latency. The last one, 113 + 20 - 4 = 129, fills the buffer in 2 beats; 192 bytes leave
    # it in 12.
    assert traffic(result)[1:] == [("dma0", 59, 113, 192)]
    assert rows(result) == [Row("dma0", 43, 43, 43, 129 + 2 + 12)]


def test_a_block_is_filled_while_another_is_drained() -> None:
    halves = Copy(source_space=Space.DRAM, count0=1, source_stride0=32, target_stride0=96, count1=2, count2=31, size=1,
                  source_stride1=1024, source_stride2=1, target_stride1=1, target_stride2=3, block=2)  # fmt: skip
    result = run([halves], bench())
    # As above in blocks of 32 pixels: six rows, a burst of each, 59 + 6 * 14 = 143; the last one 143 + 16, 2 beats into
    # the second block, and 96 bytes out in 6.
    assert traffic(result)[1:] == [("dma0", 59, 143, 192)]
    assert rows(result) == [Row("dma0", 43, 43, 43, 143 + 16 + 2 + 6)]


def test_blocks_on_the_way_out() -> None:
    pixels = Copy(count1=2, source_stride1=1024, source_stride2=1, target_space=Space.DRAM, target_stride1=1,
                  target_stride2=3, block=2, **PLANES)  # fmt: skip
    result = run([pixels], bench())
    # The buffer is filled from cycle 43 + 16 - 4 on: three runs of 4 beats. 12 more beats take 192 bytes, the port
    # opens the row beside them: the first burst at 55 + 12 + 2 = 69, six of 4 cycles.
    assert traffic(result)[1:] == [("dma0", 59, 69 + 24, 192)]
    assert rows(result) == [Row("dma0", 43, 43, 43, 93)]


def test_blocks_inside_the_scratchpad() -> None:
    pixels = Copy(count1=2, source_stride1=1024, source_stride2=1, target=4096, target_stride1=1, target_stride2=3,
                  block=2, **PLANES)  # fmt: skip
    result = run([pixels], bench())
    assert rows(result) == [Row("dma0", 43, 43, 43, 43 + 16 + 12 + 12)]


@pytest.mark.parametrize("copy", [Copy(size=250, target=512), Copy(size=250, target=512, fill=1, value=7)])
def test_inside_the_scratchpad_no_dram_is_used(copy: Copy) -> None:
    result = run([copy], bench())
    assert rows(result) == [Row("dma0", 43, 43, 43, 43 + 16 + 16)]
    assert traffic(result) == [("fetch", 0, 22, 96)]


def test_a_copy_within_dram_reads_before_it_writes() -> None:
    result = run([Copy(source_space=Space.DRAM, target_space=Space.DRAM, target=4096, size=256)], bench())
    # Read 59 + 42 = 101, arrived 121; another row: 121 + 42 = 163.
    assert traffic(result)[1:] == [("dma0", 59, 101, 256), ("dma0", 121, 163, 256)]
    assert rows(result) == [Row("dma0", 43, 43, 43, 163)]


@pytest.mark.parametrize(
    ("requests", "burst"),
    [
        (2, 10),  # two in the 20 cycles of latency
        (4, 5),
        (5, 4),  # five: the bandwidth is the limit
        (64, 4),
    ],
)
def test_requests_in_flight_bound_the_bandwidth(requests: int, burst: int) -> None:
    result = run([load(0, 0, 256)], bench(dram__outstanding_requests=requests))
    begin = 10 + 3 * burst + 20 + 1
    assert rows(result) == [Row("dma0", begin, begin, begin, begin + 16 + 10 + 8 * burst + 20)]


@pytest.mark.parametrize(
    ("source", "size", "rows_opened", "bursts"),
    [
        (0, 32, 1, 1),
        (0, 33, 1, 2),  # one byte more is a burst more
        (16, 16, 1, 1),
        (31, 2, 1, 2),  # two bytes on both sides of an edge
        (768, 256, 1, 8),  # up to the end of row 0
        (800, 256, 2, 8),  # one burst into row 1
    ],
)
def test_whole_bursts_and_the_rows_they_open(source: int, size: int, rows_opened: int, bursts: int) -> None:
    result = run([load(source, 0, size)], bench())
    assert traffic(result)[1:] == [("dma0", 59, 59 + 10 * rows_opened + 4 * bursts, 32 * bursts)]


def test_decoding_takes_time() -> None:
    program = [lookup(0, 0, 64), barrier()]
    assert [row.dispatched for row in rows(run(program, bench(front_end__decode_cycles=3)))] == [45, 53]
    assert [row.dispatched for row in rows(run(program, bench(front_end__decode_cycles=0)))] == [42, 50]


# Several requesters.


def test_two_channels_share_the_dram_by_turns() -> None:
    result = run([load(0, 0, 512), load(4096, 512, 512, channel=1)], bench())
    # Each turn opens the requester's row again: 10 + 32.
    assert traffic(result)[2:] == [
        ("dma0", 59, 101, 256),  # dispatched 43, set up 59
        ("dma1", 101, 143, 256),  # dispatched 51, asked at 67
        ("dma0", 143, 185, 256),
        ("dma1", 185, 227, 256),
    ]
    assert rows(result) == [Row("dma0", 43, 43, 43, 185 + 20), Row("dma1", 51, 51, 51, 227 + 20)]


def test_two_channels_in_one_row_lose_nothing() -> None:
    result = run([load(0, 0, 512), load(512, 512, 512, channel=1)], bench())
    # 59 + 10 + 4 * 32 = 197 for both together.
    assert rows(result) == [Row("dma0", 43, 43, 43, 165 + 20), Row("dma1", 51, 51, 51, 197 + 20)]


def test_grants_limit_a_turn() -> None:
    # As above, but a turn may be 512 bytes: each channel opens its row once.
    result = run([load(0, 0, 512), load(4096, 512, 512, channel=1)], bench(dram__grant_bytes=512))
    assert traffic(result)[2:] == [("dma0", 59, 133, 512), ("dma1", 133, 207, 512)]


def test_write_back_competes_with_loads() -> None:
    result = run([load(0, 0, 512), store(512, 4096, 512, channel=1)], bench())
    turns = [
        ("dma0", 59, 101, 256),
        ("dma1", 101, 143, 256),
        ("dma0", 143, 185, 256),
        ("dma1", 185, 227, 256),
    ]
    assert traffic(result)[2:] == turns
    # The write is done with its last burst.
    assert rows(result) == [Row("dma0", 43, 43, 43, 185 + 20), Row("dma1", 51, 51, 51, 227)]


def test_instruction_fetch_interrupts_a_stream() -> None:
    program = [load(0, 0, 1024), lookup(0, 0, 64), lookup(0, 0, 64)]
    result = run(program, bench(front_end__fetch_instructions=1))
    assert traffic(result) == [
        ("fetch", 0, 22, 96),  # arrives at 42
        ("fetch", 43, 51, 64),  # its row is open, its first burst here; arrives at 71
        ("dma0", 59, 101, 256),  # dispatched 43, set up 59; the first of four grants
        ("fetch", 101, 119, 64),  # asked at 72; arrives at 139
        ("dma0", 119, 225, 768),  # its row again 10, three grants of 32
    ]
    assert rows(result) == [
        Row("dma0", 43, 43, 43, 225 + 20),
        Row("vector", 72, 72, 72, 72 + LOOKUP),
        Row("vector", 140, 140, 140, 140 + LOOKUP),
    ]


def test_instructions_fetched_before_the_stream_do_not_interrupt_it() -> None:
    # The program of the test before with room for all of it.
    result = run([load(0, 0, 1024), lookup(0, 0, 64), lookup(0, 0, 64)], bench())
    assert traffic(result) == [
        ("fetch", 0, 22, 96),
        ("fetch", 22, 30, 64),
        ("fetch", 30, 38, 64),
        ("dma0", 59, 59 + 10 + 128, 1024),
    ]


@pytest.mark.parametrize(("running", "last"), [(11, "dma0"), (12, "fetch")])
def test_data_goes_before_a_fetch_while_twelve_instructions_are_under_way(running: int, last: str) -> None:
    # Look-ups that wait for a load; it is the last to be dispatched, and asks in the cycle in which the next
    # instruction is asked for.
    waiting = [lookup(0, 0, 64, after=waits(dma0=1))] * (running - 1)
    program = [*waiting, load(0, 0, 1024), lookup(0, 0, 64)]
    machine = bench(front_end__fetch_instructions=1, front_end__queue_depth=16, dma__setup_cycles=0)
    passed = traffic(run(program, machine))
    assert [name for name, *_ in passed] == ["fetch"] * running + sorted(["dma0", "fetch"], key=last.__eq__)


def test_a_fetch_goes_on_when_instructions_become_few() -> None:
    # As above with twelve, of which the first, a look-up of 8 + 32 + 384 cycles, ends amid the load at 43 + 424 = 467.
    waiting = [lookup(0, 0, 64, after=waits(dma0=1))] * 10
    program = [lookup(0, 0, 3072), *waiting, load(0, 0, 1024), lookup(0, 0, 64)]
    machine = bench(front_end__fetch_instructions=1, front_end__queue_depth=16, dma__setup_cycles=0)
    result = run(program, machine)
    begun = int(result.trace.started[11])
    assert begun + 10 + 2 * 32 < result.trace.ended[0] == 467 < begun + 10 + 3 * 32
    assert traffic(result)[-3:] == [
        ("dma0", begun, begun + 10 + 3 * 32, 768),
        ("fetch", begun + 106, begun + 106 + 10 + 3 * 4, 96),
        ("dma0", begun + 128, begun + 128 + 10 + 32, 256),
    ]


def test_the_front_end_fetches_as_far_ahead_as_its_buffer_holds() -> None:
    program = [load(0, 0, 256), barrier(dma0=1), *(lookup(0, 0, 64) for _ in range(4))]
    result = run(program, bench(front_end__fetch_instructions=2, dma__port_bytes_per_cycle=1))
    assert traffic(result) == [
        ("fetch", 0, 22, 96),
        ("fetch", 22, 30, 64),  # the barrier, decoded at 51; it holds until the load ends: 73 + 256 = 329
        ("fetch", 43, 51, 64),  # the load has left the buffer
        ("dma0", 59, 101, 256),
        ("fetch", 329, 347, 64),  # the barrier is over: a row, two bursts, arrives at 367
        ("fetch", 347, 359, 96),  # asked at 330, arrives at 379
        ("fetch", 368, 376, 64),  # arrives at 396
    ]
    assert [row.dispatched for row in rows(result)] == [43, 51, 330, 368, 380, 397]


# Gates.


@pytest.mark.parametrize(
    ("depth", "dispatched"),
    [
        # Of three look-ups one runs and `depth` wait; the third waits at the front end until 43 + 48 = 91.
        (1, [43, 51, 91, 92]),
        (2, [43, 51, 59, 67]),
    ],
)
def test_a_full_queue_holds_the_front_end(depth: int, dispatched: list[int]) -> None:
    program = [lookup(0, 0, 64), lookup(0, 0, 64), lookup(0, 0, 64), load(0, 0, 32)]
    result = rows(run(program, bench(front_end__queue_depth=depth)))
    assert [row.dispatched for row in result] == dispatched
    assert [row.at_head for row in result[:3]] == [43, 43 + LOOKUP, 43 + 2 * LOOKUP]


def test_an_instruction_starts_when_the_last_of_its_waits_ends() -> None:
    program = [
        load(0, 0, 256),
        load(4096, 256, 32, channel=1),
        lookup(0, 0, 64, after=waits(dma0=1, dma1=1)),
    ]
    result = run(program, bench())
    # dma0: 43 + 16 = 59, + 42 = 101, + 20 = 121. dma1 asks at 67: 101 + 10 + 4 = 115, + 20 = 135.
    assert rows(result) == [
        Row("dma0", 43, 43, 43, 121),
        Row("dma1", 51, 51, 51, 135),
        Row("vector", 59, 59, 135, 135 + LOOKUP),
    ]
    assert result.trace.blocked_by.tolist() == [-1, -1, Unit.DMA1]


@pytest.mark.parametrize(
    ("count", "started"),
    [
        (0, 59),  # no wait: as soon as it is dispatched
        (1, 93),  # 43 + 16 + 10 + 4 + 20
        (2, 133),  # the second starts at 93, its row is open: + 16 + 4 + 20
    ],
)
def test_a_wait_counts_completions(count: int, started: int) -> None:
    program = [load(0, 0, 32), load(0, 0, 32), lookup(0, 0, 64, after=waits(dma0=count))]
    result = run(program, bench())
    assert rows(result)[2].started == started


@pytest.mark.parametrize(
    ("size", "at_head", "started", "blocked_by"),
    [
        (8, 92, 93, Unit.DMA0),  # the unit is free one cycle before the load ends at 93
        (16, 93, 93, None),  # in the same cycle
        (24, 94, 94, -1),  # one cycle after: there is nothing to wait for
    ],
)
def test_what_is_complete_is_not_waited_for(
    size: int, at_head: int, started: int, blocked_by: int | None
) -> None:
    # The first look-up runs from 51 for 40 + size / 8 cycles.
    program: list[Instruction] = [load(0, 0, 32), lookup(0, 0, size), lookup(0, 0, 64, after=waits(dma0=1))]
    result = run(program, bench())
    assert rows(result)[2] == Row("vector", 59, at_head, started, started + LOOKUP)
    if blocked_by is not None:
        assert result.trace.blocked_by[2] == blocked_by


def test_a_barrier_holds_what_comes_after_it() -> None:
    result = run([load(0, 0, 256), barrier(dma0=1), lookup(0, 0, 64)], bench())
    # The load ends at 43 + 16 + 42 + 20 = 121; the look-up is decoded after that.
    assert rows(result) == [
        Row("dma0", 43, 43, 43, 121),
        Row("front_end", 51, 51, 121, 121),
        Row("vector", 122, 122, 122, 122 + LOOKUP),
    ]
    assert result.trace.blocked_by.tolist() == [-1, Unit.DMA0, -1]


def test_a_host_call_takes_the_time_of_the_host() -> None:
    call, entry = host_call("identity", bytes_at("a", 0, 64), bytes_at("b", 64, 64), elements=250)
    # A Cortex-M7 at 1 GHz: 250 elements of 4 cycles are 1 us, the operator 53 us, the hand-over 5 us.
    result = run(
        [call, load(64, 0, 32, after=waits(host=1))], bench(host__clock_mhz=1000.0), host_calls=[entry]
    )
    ended = 43 + 59_000
    assert rows(result) == [
        Row("host", 43, 43, 43, ended),
        Row("dma0", 51, 51, ended, ended + 16 + 10 + 4 + 20),
    ]
