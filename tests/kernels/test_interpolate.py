"""interpolate: weighted sums of elements at places that are operands, against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.isa.base.errors import SimulationError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.table import operator
from tests.kernels.calls import call_with, given, reals, results

HALVES = [[0, 1], [1, 1]], [[0.5, 0.5], [0.25, 0.75]]


def _of(x: TensorType, axes: tuple[int, ...], out: TensorType, **more: Any) -> Any:
    pair = TensorType("int64", (2, 2)), reals(2, 2)
    return call_with([x, *pair * len(axes)], [out], given("interpolate", axes=axes, **more))


def test_along_one_axis() -> None:
    call = _of(reals(2, 2), (0,), reals(2, 2))
    [made] = results(operator("interpolate"), call, [[0, 10], [4, 20]], *HALVES)
    assert made == [[2, 15], [4, 20]]


@pytest.mark.parametrize("together", [False, True])
def test_along_two_axes(together: bool) -> None:
    call = _of(reals(2, 2), (0, 1), reals(2, 2), together=together)
    [made] = results(operator("interpolate"), call, [[0, 10], [4, 20]], *HALVES, *HALVES)
    assert made == [[8.5, 15], [12, 20]]


def test_whole_numbers_lose_what_is_behind_the_point() -> None:
    kind = TensorType("uint8", (2,))
    [made] = results(operator("interpolate"), _of(kind, (0,), kind), [0, 7], *HALVES)
    assert made == [3, 7]


def test_a_place_outside_is_an_error() -> None:
    call = _of(reals(2), (0,), reals(2))
    with pytest.raises(SimulationError, match=r"index 2 at \[0, 1\] of input 1: may be 0..1"):
        results(operator("interpolate"), call, [0, 1], [[0, 2], [1, 1]], np.ones((2, 2)))


def test_places_without_weights_are_refused() -> None:
    call = call_with(
        [reals(2), TensorType("int64", (2, 2)), reals(2, 1)], [reals(2)], given("interpolate", axes=(0,))
    )
    assert operator("interpolate").broken_rule(call) == (
        "each axis has places and weights, matrices of one shape with one column or more"
    )
