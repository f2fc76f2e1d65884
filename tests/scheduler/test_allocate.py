"""Buffers in a memory: never two in one byte at one time, and no hole left that would have done."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.hardware.file import change
from npusim.machine.system import execute
from npusim.scheduler import compile_graph
from npusim.scheduler.fit.allocate import Allocator, Busy, aligned
from npusim.session.api import hardware, load

from ..examples import examples


@pytest.mark.parametrize(("size", "expected"), [(0, 0), (1, 16), (16, 16), (17, 32), (160, 160)])
def test_aligned(size: int, expected: int) -> None:
    assert aligned(size) == expected


def test_first_fit_from_either_end() -> None:
    memory = Allocator(160)
    assert memory.place(48, 0, 9) == 0
    assert memory.place(30, 0, 9) == 48
    assert memory.place(16, 0, 9, from_top=True) == 144
    assert memory.place(16, 0, 9, from_top=True) == 128
    assert memory.find(48, 0, 9) == 80
    assert memory.find(49, 0, 9) is None


def test_the_lowest_and_the_highest_hole() -> None:
    memory = Allocator(160)
    memory.take(16, 16, 0, 0)
    memory.take(64, 16, 0, 0)
    memory.take(128, 16, 0, 0)
    assert memory.find(16, 0, 0) == 0
    assert memory.find(32, 0, 0) == 32
    assert memory.find(32, 0, 0, from_top=True) == 96
    assert memory.find(16, 0, 0, from_top=True) == 144


def test_banks_of_their_own_while_there_are_any() -> None:
    memory = Allocator(256, bank_bytes=64)
    assert memory.place(80, 0, 5) == 0  # banks 0 and 1
    assert memory.place(16, 0, 0, from_top=True) == 240  # bank 3
    assert memory.place(16, 0, 0, from_top=True) == 176  # bank 2
    assert memory.place(16, 0, 0, from_top=True) == 224  # none is left: as without banks
    assert memory.place(16, 1, 1, from_top=True) == 240  # later, bank 3 is free again


@pytest.mark.parametrize(("ports", "second"), [(1, 4096), (2, 32)])
def test_banks_matter_where_they_have_one_port(ports: int, second: int) -> None:
    machine = change(hardware("edge-128"), {"scratchpad.size_kib": 64, "scratchpad.bank_ports": ports})
    memory = Allocator.of_scratchpad(machine.scratchpad_bytes, machine)
    assert [memory.place(32, 0, 0), memory.place(32, 0, 0)] == [0, second]


@pytest.mark.parametrize("model", ["ds_cnn", "digits_cnn"])
def test_one_port_costs_little_where_there_is_room(model: str) -> None:
    """Weights arrive in banks where nobody computes; side by side they would wait for each tile to end."""
    machines = [change(hardware("edge-128"), {"scratchpad.bank_ports": ports}) for ports in (1, 2)]
    one, two = (execute(compile_graph(load(model), machine), data=False).cycles for machine in machines)
    assert one <= 1.03 * two


@pytest.mark.parametrize(
    ("first", "last", "free"),
    [
        (0, 3, True),  # before
        (0, 4, False),  # shares the first moment
        (5, 6, False),  # within
        (8, 9, False),  # shares the last moment
        (9, 9, True),  # after
        (0, 9, False),  # around
    ],
)
def test_spans_include_both_ends(first: int, last: int, free: bool) -> None:
    memory = Allocator(64)
    memory.take(0, 64, 4, 8)
    assert (memory.find(64, first, last) == 0) is free


def test_a_capacity_that_is_no_multiple_of_the_alignment() -> None:
    memory = Allocator(40)
    assert memory.find(33, 0, 0) is None
    assert memory.place(20, 0, 0, from_top=True) == 0


def test_the_peak_is_the_highest_byte_ever_taken() -> None:
    memory = Allocator(64)
    assert memory.peak_bytes == 0
    memory.take(0, 32, 0, 4)
    memory.take(32, 16, 0, 5)
    memory.take(0, 16, 7, 9)
    assert memory.peak_bytes == 48


requests = st.lists(
    st.tuples(st.integers(1, 300), st.integers(0, 20), st.integers(0, 8), st.booleans()), max_size=40
)


@pytest.mark.slow
@given(requests)
@examples(200)
def test_no_byte_is_given_twice_and_no_hole_is_missed(wanted: list[tuple[int, int, int, bool]]) -> None:
    capacity = 1000
    memory = Allocator(capacity)
    placed: list[tuple[int, int, int, int]] = []
    for size, first, length, from_top in wanted:
        last = first + length
        address = memory.place(size, first, last, from_top=from_top)
        busy = {
            byte
            for start, end, begin, until in placed
            if begin <= last and until >= first
            for byte in range(start, end)
        }
        # Every place there is, by trying them all.
        fits = [a for a in range(0, capacity - size + 1, 16) if not busy & set(range(a, a + size))]
        whole = [a for a in fits if a + aligned(size) <= capacity]
        assert address == (None if not whole else max(whole) if from_top else min(whole))
        if address is not None:
            placed.append((address, address + size, first, last))


spans = st.tuples(st.integers(0, 40), st.integers(0, 12), st.integers(-1, 300), st.integers(0, 300))


@pytest.mark.slow
@given(st.lists(st.tuples(spans, st.booleans()), max_size=60), st.sampled_from([0, 7, 512]))
@examples(200)
def test_bytes_in_use_during_a_span_are_those_of_all_uses_that_touch_it(
    wanted: list[tuple[tuple[int, int, int, int], bool]], most_few: int
) -> None:
    """As a list, as a tree, and where the one becomes the other."""
    busy = Busy(most_few)
    uses: list[tuple[int, int, int, int]] = []
    for (start, size, first, length), ask in wanted:
        if ask:
            found = {byte for low, high in busy.during(first, first + length) for byte in range(low, high)}
            touching = [each for each in uses if each[2] <= first + length and each[3] >= first]
            assert found == {byte for low, high, _, _ in touching for byte in range(low, high)}
        else:
            busy.add(start, start + size, first, first + length)
            uses.append((start, start + size, first, first + length))
