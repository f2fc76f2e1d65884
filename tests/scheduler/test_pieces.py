"""Pieces of operations: whole, in an order in which they can run, never left and entered again, and few."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.scheduler.partition.pieces import Operation, Piece, pieces, units

from ..examples import examples


@st.composite
def networks(draw: st.DrawFn, most: int = 14) -> list[Operation]:
    """Operations that each read some tensors of those before, or of the caller, and write one or two."""
    made: list[Operation] = []
    for number in range(draw(st.integers(0, most))):
        known = [tensor for each in made for tensor in each.outputs] + [-1, -2]
        inputs = draw(st.lists(st.sampled_from(known), max_size=3, unique=True))
        made.append(Operation(tuple(inputs), (2 * number, 2 * number + 1)))
    return made


def chain(*of_device: int) -> tuple[list[Operation], list[int]]:
    """Operations each of which reads what the one before has written."""
    return [Operation((number - 1,), (number,)) for number in range(len(of_device))], list(of_device)


def runs(operations: Sequence[Operation], found: Sequence[Piece]) -> None:
    """Every operation runs once, behind those that write what it reads."""
    order = [number for piece in found for number in piece.operations]
    assert sorted(order) == list(range(len(operations)))
    written = {tensor for each in operations for tensor in each.outputs}
    done: set[int] = set()
    for number in order:
        assert written & set(operations[number].inputs) <= done
        done |= set(operations[number].outputs)


def behind(operations: Sequence[Operation]) -> list[set[int]]:
    """What each operation depends on."""
    writer = {tensor: number for number, each in enumerate(operations) for tensor in each.outputs}
    found: list[set[int]] = []
    for each in operations:
        direct = {writer[tensor] for tensor in each.inputs if tensor in writer}
        found.append(direct.union(*(found[number] for number in direct)))
    return found


@pytest.mark.slow
@given(networks(), st.data())
@examples(300)
def test_pieces_are_whole_ordered_and_convex(operations: list[Operation], data: st.DataObject) -> None:
    devices = data.draw(st.lists(st.integers(0, 2), min_size=len(operations), max_size=len(operations)))
    found = pieces(operations, devices)
    runs(operations, found)
    assert all(devices[number] == piece.device for piece in found for number in piece.operations)
    assert all(one.device != other.device for one, other in pairwise(found)), "two in a row could be one"
    before = behind(operations)
    for piece in found:
        inside = set(piece.operations)
        for number in set(range(len(operations))) - inside:
            leaves = bool(before[number] & inside)
            comes_back = any(number in before[other] for other in inside)
            assert not (leaves and comes_back)
    assert found == pieces(operations, devices), "always the same"


def fewest(operations: Sequence[Operation], devices: Sequence[int]) -> int:
    """Of all orders in which operations can run, the fewest pieces."""
    before = behind(operations)
    return min(
        1 + sum(devices[one] != devices[other] for one, other in pairwise(order))
        for order in permutations(range(len(operations)))
        if all(before[number] <= set(order[:at]) for at, number in enumerate(order))
    )


@pytest.mark.slow
@given(networks(most=6), st.data())
@examples(150)
def test_no_order_has_fewer_pieces(operations: list[Operation], data: st.DataObject) -> None:
    devices = data.draw(st.lists(st.integers(0, 2), min_size=len(operations), max_size=len(operations)))
    if operations:
        assert len(pieces(operations, devices)) == fewest(operations, devices)


def test_pieces_of_a_chain() -> None:
    assert pieces(*chain(0, 0, 1, 0)) == (Piece(0, (0, 1)), Piece(1, (2,)), Piece(0, (3,)))


def test_branches_of_one_device_run_together() -> None:
    # 0 -> 1, 2 -> 3 -> 4: one device in the middle of both branches
    operations = [Operation((), (0,)), Operation((0,), (1,)), Operation((0,), (2,)), Operation((2,), (3,))]
    operations += [Operation((1, 3), (4,))]
    assert pieces(operations, [0, 1, 0, 1, 0]) == (Piece(0, (0, 2)), Piece(1, (1, 3)), Piece(0, (4,)))


def test_which_device_begins_matters() -> None:
    operations = [Operation((), (0,)), Operation((), (1,)), Operation((1,), (2,))]
    assert pieces(operations, [0, 1, 0]) == (Piece(1, (1,)), Piece(0, (0, 2)))


def test_nothing_has_no_pieces() -> None:
    assert pieces([], []) == ()


@pytest.mark.slow
@given(networks(), st.data())
@examples(200)
def test_units_hold_what_belongs_together_and_all_between(
    operations: list[Operation], data: st.DataObject
) -> None:
    numbers = st.lists(st.integers(0, max(len(operations) - 1, 0)), min_size=2, max_size=3)
    together = data.draw(st.lists(numbers, max_size=3)) if operations else []
    found = units(operations, together)
    assert sorted(number for unit in found for number in unit) == list(range(len(operations)))
    unit_of = {number: unit for unit in found for number in unit}
    assert all(unit_of[number] is unit_of[group[0]] for group in together for number in group)
    of_unit = {unit: data.draw(st.integers(0, 2)) for unit in found}
    devices = [of_unit[unit_of[number]] for number in range(len(operations))]
    made = pieces(operations, devices, found)
    runs(operations, made)
    piece_of = {number: piece for piece in made for number in piece.operations}
    assert all(piece_of[number] is piece_of[unit[0]] for unit in found for number in unit)
    if not together:
        assert all(len(unit) == 1 for unit in found)


@pytest.mark.parametrize(
    ("together", "wanted"),
    [
        ([], [(0,), (1,), (2,), (3,)]),
        ([(0, 1)], [(0, 1), (2,), (3,)]),
        ([(0, 2)], [(0, 1, 2), (3,)]),  # 1 lies on the way
        ([(0, 2), (3, 2)], [(0, 1, 2, 3)]),
    ],
)
def test_units_of_a_chain(together: list[tuple[int, ...]], wanted: list[tuple[int, ...]]) -> None:
    assert list(units(chain(0, 0, 0, 0)[0], together)) == wanted


def test_units_that_wait_for_each_other_are_one() -> None:
    # 0 -> 2 and 1 -> 3: neither of 0, 3 and 1, 2 can run before the other
    operations = [Operation((), (0,)), Operation((), (1,)), Operation((0,), (2,)), Operation((1,), (3,))]
    assert units(operations, [(0, 3), (1, 2)]) == ((0, 1, 2, 3),)
