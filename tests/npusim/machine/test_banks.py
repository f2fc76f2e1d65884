"""Scratchpad banks: which of them an instruction uses, and exact timelines on both sides of every gate.

Times are those of the bench (see `test_timeline_exact`), with banks of 16 KiB, counted from the dispatch of the first
instruction. A barrier before it holds the front end until all are fetched, so that one is dispatched per cycle. A
load of 256 bytes takes 16 to set up, 10 for the row, 32 to pass, 20 to arrive: 78. A look-up of 64 bytes takes 48, the
convolution of one value 40, a fill of one byte 17, of a byte in each of two places 18.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.control import Barrier
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.mac import Convolve
from npusim.isa.instructions.region import Region, Space
from npusim.isa.instructions.table import decode_all
from npusim.isa.instructions.word import Waits
from npusim.machine.banks import banks_of, banks_used
from npusim.machine.system import execute
from npusim.machine.trace import Execution, Trace

from ...examples import examples
from .handmade import barrier, bench, bytes_at, host_call, load, lookup, run, traffic, waits
from .test_machine import copies, lookups, near_memory, scrambled

BANK = 16 * 1024
LOAD, LOOKUP, CONVOLVE = 16 + 10 + 32 + 20, 8 + 32 + 8, 16 + 1 + 22 + 1
COPY, COPY_2 = 16 + 1, 16 + 2
HELD = 60
"""Cycles of the barrier: six instructions are fetched after 10 + 14 * 4 + 20 = 86, the barrier is decoded in 43."""
FIRST = 43 + HELD + 1
"""When the instruction behind it is dispatched."""


def banked(ports: int, **changes: int) -> Hardware:
    """The bench with four banks of 16 KiB."""
    return bench(scratchpad__banks=4, scratchpad__bank_ports=ports, **changes)


def look(bank: int, size: int = 64, *, to: int | None = None, after: Waits = ()) -> Instruction:
    """A look-up inside a bank, or from one to another."""
    target = bank if to is None else to
    return lookup(bank * BANK, target * BANK + 8192, size, table=bank * BANK + 12288, after=after)


def fill(channel: int, *banks: int, after: Waits = ()) -> Copy:
    """One byte into one bank, or one into each of two."""
    first, last = banks[0], banks[-1]
    stride = (last - first) * BANK
    return Copy(
        fill=1,
        channel=channel,
        target=first * BANK,
        count2=len(banks) - 1,
        size=1,
        target_stride2=stride,
        waits=after,
    )


def convolve(bank: int, after: Waits = ()) -> Convolve:
    """A convolution of one value, all of it inside a bank."""
    ones = (
        "ifm_height", "ifm_width", "ifm_depth", "ofm_height", "ofm_width", "ofm_depth", "kernel_height", "kernel_width",
        "stride_height", "stride_width", "dilation_height", "dilation_width", "signed", "weights_signed",
    )  # fmt: skip
    at = bank * BANK
    places = {"ifm": at, "weights": at + 16, "parameters": at + 32, "ofm": at + 48}
    return Convolve(**dict.fromkeys(ones, 1), **places, low=-128, high=127, waits=after)


def run_held(instructions: Sequence[Instruction], hardware: Hardware, **named: Any) -> Execution:
    """Run instructions behind the barrier."""
    return run([Barrier(cycles=HELD), *instructions], hardware, **named)


def spans(
    instructions: Sequence[Instruction], hardware: Hardware, **named: Any
) -> list[tuple[int, int, int]]:
    """When each instruction was ready, began, ended."""
    trace = run_held(instructions, hardware, **named).trace
    columns = [(column[1:] - FIRST).tolist() for column in (trace.ready, trace.started, trace.ended)]
    return list(zip(*columns, strict=True))


# One port, two ports, other banks.


@pytest.mark.parametrize(
    ("ports", "bank", "second"),
    [
        # The first ends at 78. The second sets up until 94, its row until 104, passes until 136.
        (1, 0, (1, 78, 78 + LOAD)),
        # It asks at 17, and the DRAM is free at 58: 10 + 32 + 20.
        (2, 0, (1, 1, 58 + 62)),
        (1, 1, (1, 1, 58 + 62)),
    ],
)
def test_two_channels_meet_in_a_bank(ports: int, bank: int, second: tuple[int, int, int]) -> None:
    program = [load(0, 0, 256), load(4096, bank * BANK + 512, 256, channel=1)]
    assert spans(program, banked(ports)) == [(0, 0, LOAD), second]
    trace = run_held(program, banked(ports)).trace
    assert (trace.dispatched - FIRST).tolist()[1:] == (trace.at_head - FIRST).tolist()[1:] == [0, 1]


@pytest.mark.parametrize(
    ("ports", "begun"),
    [
        # One after the other: the load until 78, the convolution until 118, the look-up until 166.
        (1, [0, 78, 118]),
        # The third waits for the first of two to end: the convolution, 1 + 40.
        (2, [0, 1, 41]),
        (3, [0, 1, 2]),
    ],
)
def test_three_units_meet_in_a_bank(ports: int, begun: list[int]) -> None:
    program = [load(0, 4096, 256), convolve(0), look(0)]
    starts = [0, 1, 2]
    lengths = [LOAD, CONVOLVE, LOOKUP]
    assert spans(program, banked(ports)) == [
        (ready, begin, begin + length) for ready, begin, length in zip(starts, begun, lengths, strict=True)
    ]


def test_several_operands_in_a_bank_need_one_port() -> None:
    # The look-up reads, writes and has its table in bank 0.
    assert spans([look(0)], banked(1)) == [(0, 0, LOOKUP)]


def test_all_of_a_region_holds_its_banks() -> None:
    # From bank 0 to bank 1: who needs bank 1 waits until 48, who needs bank 2 does not.
    for bank, begin in ((1, 48), (2, 1)):
        assert spans([look(0, to=1), fill(0, bank)], banked(1))[1] == (1, begin, begin + COPY)


@pytest.mark.parametrize(
    ("banks", "begin"),
    [
        ((0, 2), 1),  # skips bank 1, where the look-up works
        ((0, 1), LOOKUP),
    ],
)
def test_a_strided_region_may_skip_a_bank(banks: tuple[int, int], begin: int) -> None:
    assert spans([look(1), fill(0, *banks)], banked(1))[1] == (1, begin, begin + COPY_2)


def test_the_host_needs_no_ports() -> None:
    call, entry = host_call("identity", bytes_at("a", 0, 64), bytes_at("b", 64, 64), elements=250)
    found = spans([load(0, 0, 32), call], banked(1), host_calls=[entry])
    assert [each[:2] for each in found] == [(0, 0), (1, 1)]


# Who goes first.


@pytest.mark.parametrize(
    ("bank", "begin"),
    [
        (1, 48 + COPY_2),  # the bank is free, but it is one that the earlier instruction needs as well
        (2, 2),
    ],
)
def test_overtaking_with_one_port(bank: int, begin: int) -> None:
    # The look-up has bank 0 until 48.
    found = spans([look(0), fill(0, 0, 1), fill(1, bank)], banked(1))
    assert found[1:] == [(1, 48, 48 + COPY_2), (2, begin, begin + COPY)]


@pytest.mark.parametrize(
    ("beside", "bank", "begin"),
    [
        (3, 1, 4),  # bank 1 has a port for each
        (1, 1, 41 + COPY_2),  # a load has the one port, and the other is the earlier instruction's
        (1, 2, 4),
        (3, 0, LOOKUP),  # bank 0 is full until 41, and then again until the look-up ends
    ],
)
def test_overtaking_with_two_ports(beside: int, bank: int, begin: int) -> None:
    # The look-up has one port of bank 0 until 48, the convolution the other until 1 + 40 = 41. The load is there
    # until 2 + 16 + 10 + 128 + 20 = 176.
    program = [look(0), convolve(0), load(0, beside * BANK, 1024, channel=3), fill(0, 0, 1), fill(1, bank)]
    found = spans(program, banked(2))
    assert [each[1] for each in found[:3]] == [0, 1, 2]
    assert found[3:] == [(3, 41, 41 + COPY_2), (4, begin, begin + COPY)]


@pytest.mark.parametrize(
    ("size", "first", "second"),
    [
        (16, (42, 42, 59), (42, 59, 76)),  # ready in the same cycle: the lower unit
        (8, (42, 58, 75), (41, 41, 58)),
    ],
)
def test_the_earlier_goes_first_then_the_lower_unit(
    size: int, first: tuple[int, int, int], second: tuple[int, int, int]
) -> None:
    # Channel 1 waits for the look-up, which ends at 40 + size / 8, channel 0 for the convolution, 2 + 40.
    program = [
        look(0, size), barrier(), convolve(2), fill(1, 1, after=waits(vector=1)), fill(0, 1, after=waits(mac=1)),
    ]  # fmt: skip
    assert spans(program, banked(1))[3:] == [second, first]


@pytest.mark.parametrize(("size", "begin"), [(8, 42), (16, 42), (24, 43)])
def test_a_port_that_is_given_back_is_free_in_the_same_cycle(size: int, begin: int) -> None:
    # The fill is ready when the convolution ends, at 2 + 40, the look-up ends at 40 + size / 8.
    program = [look(0, size), barrier(), convolve(1), fill(0, 0, after=waits(mac=1))]
    assert spans(program, banked(1))[3] == (42, begin, begin + COPY)


@pytest.mark.parametrize(
    ("size", "turns"),
    [
        # In bank 0 from 43, when channel 1's first turn ends: in time for the next.
        (24, [("dma1", 1, 43, 256), ("dma0", 43, 85, 256), ("dma1", 85, 127, 256)]),
        (32, [("dma1", 1, 75, 512), ("dma0", 75, 117, 256)]),
    ],
)
def test_banks_are_granted_before_the_dram_decides(size: int, turns: list[tuple[str, int, int, int]]) -> None:
    # The look-up ends at 40 + size / 8.
    program = [look(0, size), load(0, BANK, 512, channel=1), load(4096, 0, 256)]
    passed = traffic(run_held(program, banked(1, dma__setup_cycles=0)))
    assert [
        (name, start - FIRST, end - FIRST, size) for name, start, end, size in passed if name != "fetch"
    ] == turns


# Any program: what begins in a cycle is what the rules say, from nothing but who asks since when.


def check_grants(trace: Trace, banks: Sequence[int], ports: int) -> None:
    """Decide every cycle again, port by port."""
    asked, began, ended = trace.ready.tolist(), trace.started.tolist(), trace.ended.tolist()
    users = [index for index, used in enumerate(banks) if used]
    line = sorted(users, key=lambda index: (asked[index], trace.unit[index]))
    for now in sorted({*asked, *ended}):
        left = dict.fromkeys(range(1024), ports)
        for index in users:
            if began[index] < now < ended[index]:
                for bank in _numbers(banks[index]):
                    left[bank] -= 1
        assert min(left.values()) >= 0
        for index in line:
            if asked[index] <= now <= began[index]:
                wanted = _numbers(banks[index])
                assert (began[index] == now) == all(left[bank] > 0 for bank in wanted), (now, index)
                for bank in wanted:
                    left[bank] -= 1
    assert set(began) <= {*asked, *ended}


def _numbers(banks: int) -> list[int]:
    return [bank for bank in range(banks.bit_length()) if banks >> bank & 1]


@pytest.mark.slow
@given(
    st.lists(st.one_of(copies(), lookups()), min_size=1, max_size=25),
    st.integers(1, 4),
    st.sampled_from([16, 64, 256, 1024]),
    st.sampled_from([0, 16]),
)
@examples(150)
def test_random_programs_keep_the_rules(
    instructions: list[Instruction], ports: int, banks: int, setup: int
) -> None:
    hardware = bench(
        scratchpad__banks=banks,
        scratchpad__bank_ports=ports,
        dma__setup_cycles=setup,
        memory=near_memory(1.0),
    )
    made = scrambled([replace(each) for each in instructions], hardware)
    result = execute(made, data=False)
    used = [banks_used(each, made.context, 64 * 1024 // banks) for each in decode_all(made.code)]
    check_grants(result.trace, used, ports)


# Which banks.


def test_banks_of_regions() -> None:
    def of(address: int, counts: tuple[int, ...], *strides: int) -> list[int]:
        banks = banks_of(Region(Space.SCRATCHPAD, address, counts, strides), 16)
        return [bank for bank in range(64) if banks >> bank & 1]

    assert of(0, (16,)) == [0]
    assert of(15, (2,)) == [0, 1]
    assert of(8, (40,)) == [0, 1, 2]
    assert of(0, (3, 1), 16) == [0, 1, 2]  # a step of one bank touches them all
    assert of(0, (3, 1), 17) == [0, 1, 2]
    assert of(0, (3, 1), 32) == [0, 2, 4]
    assert of(8, (2, 9), 32) == [0, 1, 2, 3]  # one byte over each edge
    assert of(0, (2, 3, 4), 64, 8) == [0, 1, 4, 5]
    assert of(0, (2, 2, 4), 8, 64) == [0, 4]  # strides in any order
    assert of(0, (5, 4), 0) == [0]


@pytest.mark.slow
@given(
    st.integers(0, 200),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 120)), max_size=3),
    st.integers(1, 90),
    st.sampled_from([16, 32, 48]),
)
@examples(300)
def test_banks_are_those_of_the_bytes(
    address: int, outer: list[tuple[int, int]], length: int, bank_bytes: int
) -> None:
    counts, strides = (*(count for count, _ in outer), length), tuple(stride for _, stride in outer)
    steps = (range(0, count * max(stride, 1), max(stride, 1)) if stride else [0] for count, stride in outer)
    touched = {address + sum(where) for where in product(*steps, range(length))}
    expected = sum(1 << bank for bank in {byte // bank_bytes for byte in touched})
    assert banks_of(Region(Space.SCRATCHPAD, address, counts, strides), bank_bytes) == expected
