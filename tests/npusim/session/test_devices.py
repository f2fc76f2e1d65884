"""Which device gets which operation: by order, one for all, what is forced, what belongs together or moves nothing."""

from __future__ import annotations

import re
from typing import Any

import pytest

from npusim.frontends.nnadapter.nnadapter_codes import FeatureNotSupported
from npusim.scheduler.partition.pieces import Operation, Piece
from npusim.session.devices import Task, by_order, single

A, B, CPU = "a", "b", "cpu"


def task(*refused: str, **given: Any) -> Task:
    """A chain of operations; of each the devices that refuse it, in one text."""
    return Task(
        name="net",
        operations=[Operation((number - 1,), (number,)) for number in range(len(refused))],
        places=[f"op{number}" for number in range(len(refused))],
        devices=(A, B, CPU),
        refusals=[{device: f"no {device}" for device in text.split()} for text in refused],
        cpu=CPU,
        **given,
    )


def devices(found: tuple[Piece, ...]) -> list[tuple[str, tuple[int, ...]]]:
    return [((A, B, CPU)[piece.device], piece.operations) for piece in found]


def test_the_first_device_that_can_has_an_operation() -> None:
    assert devices(by_order(task("", "a", "a b", "a"))) == [(A, (0,)), (B, (1,)), (CPU, (2,)), (B, (3,))]


def test_what_moves_nothing_goes_with_who_gives_it_something() -> None:
    found = by_order(task("a", "", "a", moves_nothing=frozenset({1})))
    assert devices(found) == [(B, (0, 1, 2))]


def test_what_moves_nothing_and_begins_goes_with_who_takes_it() -> None:
    assert devices(by_order(task("", "", "a", moves_nothing=frozenset({0, 1})))) == [(B, (0, 1, 2))]


def test_what_moves_nothing_goes_to_no_device_that_cannot() -> None:
    found = by_order(task("", "a", "b", moves_nothing=frozenset({1})))
    assert devices(found) == [(A, (0,)), (B, (1,)), (A, (2,))]


def test_a_model_that_moves_nothing_goes_to_the_first_device() -> None:
    assert devices(by_order(task("", "", moves_nothing=frozenset({0, 1})))) == [(A, (0, 1))]


def test_forced_operations_are_on_the_cpu_even_if_they_move_nothing() -> None:
    found = by_order(task("", "", "", forced=frozenset({1}), moves_nothing=frozenset({1})))
    assert devices(found) == [(A, (0,)), (CPU, (1,)), (A, (2,))]


def test_operations_of_a_state_have_one_device_that_can_have_all() -> None:
    found = by_order(task("", "a", "", "", together=[[0, 2]]))
    assert devices(found) == [(B, (0, 1, 2)), (A, (3,))]


def test_single_is_the_first_device_that_can_have_all() -> None:
    assert devices(single(task("", "a", ""))) == [(B, (0, 1, 2))]
    assert devices(single(task("", "a", "b", forced=frozenset({2})))) == [(B, (0, 1)), (CPU, (2,))]


@pytest.mark.parametrize(
    ("made", "cut", "text"),
    [
        (task("", "a b cpu"), by_order, "net: op1 is supported by no device: a: no a; b: no b; cpu: no cpu"),
        (
            task("", "cpu", forced=frozenset({1})),
            by_order,
            "net: op1 is supported by no device: a: it is forced to cpu; b: it is forced to cpu; cpu: no cpu",
        ),
        (
            task("a", "b", "cpu", together=[[0, 2]]),
            by_order,
            "net: op0 and 2 more, which one device must compute as they share a state, are supported by no device: "
            "a: op0: no a; b: op1: no b; cpu: op2: no cpu",
        ),
        (
            task("b", "a cpu"),
            single,
            "net: no single device supports all operations: a: op1: no a; b: op0: no b; cpu: op1: no cpu",
        ),
    ],
)
def test_what_nobody_can_have_is_said_with_the_reason_of_each(made: Task, cut: Any, text: str) -> None:
    with pytest.raises(FeatureNotSupported, match=f"^{re.escape(text)}$"):
        cut(made)
