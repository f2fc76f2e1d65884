"""Conversion that conversions of doors take alike, on a conversion of no door."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.frontends.forms.conversion import Conversion
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.table import operator


class Plain(Conversion):
    """The least that a conversion needs: constants and nodes."""

    def __init__(self) -> None:
        self.builder = GraphBuilder("net")

    def constant(self, data: Array, quantization: Quantization | None = None) -> int:
        return self.builder.constant("constant", np.ascontiguousarray(data), quantization)

    def one(self, op: str, tensor: int, kind: TensorType, **parameters: Any) -> int:
        return self.builder.node(op, [tensor], [kind], operator(op).parameters(**parameters))[0]

    def array(self, tensor: int) -> Array:
        held = self.builder.tensors[tensor].array
        assert held is not None
        return held

    def input(self, *shape: int, quantization: Quantization | None = None) -> int:
        return self.builder.input("x", TensorType("int8", shape, quantization))


CHANNELS = Quantization((0.5, 0.25, 2.0), (0, 0, 0), 1)
CODES = np.arange(12, dtype=np.int8).reshape(2, 3, 2)


def test_codes_of_32_bits_are_rounded_before_they_are_scaled() -> None:
    """ONNX: int32 x is first rounded to float32. LiteRT, whose arithmetic NNEF and NNAdapter follow: float32(s) *
    float32(x - z). A constant is what the operator `dequantize` makes of the same codes in a run.
    """
    codes = np.array([2**24 + 1, 2**31 - 1, -(2**24) - 3, 2**29 + 37, 5], np.int32)
    scaling = Quantization((float(np.float32(0.1)),), (0,))
    c = Plain()
    reals = c.array(c.as_real(c.constant(codes, scaling)))
    assert np.array_equal(reals, codes.astype(np.float32) * np.float32(0.1))
    in_one_rounding = (codes.astype(np.float64) * scaling.scale).astype(np.float32)
    assert not np.array_equal(reals, in_one_rounding)

    run = Plain()
    x = run.builder.input("x", TensorType("int32", (5,), scaling))
    program = npusim.compile(run.builder.graph([run.as_real(x)]))
    assert np.array_equal(npusim.simulate(program, [codes]).outputs[0], reals)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((2, 3, 1, 2), 1), ((1, 2, 3, 2), 2), ((2, 3, 2, 1), 1)],
)
def test_scales_stay_with_their_channels_under_another_shape(shape: Sequence[int], axis: int) -> None:
    c = Plain()
    made = c.reshaped(c.constant(CODES, CHANNELS), shape)
    assert np.array_equal(c.array(made), CODES.reshape(shape))
    assert c.builder.type(made).quantization == Quantization(CHANNELS.scales, CHANNELS.zero_points, axis)
    given = c.reshaped(c.input(2, 3, 2, quantization=CHANNELS), shape)
    assert c.builder.type(given) == c.builder.type(made)


def test_scales_stay_with_their_channels_in_another_order() -> None:
    c = Plain()
    made = c.transposed(c.constant(CODES, CHANNELS), (1, 2, 0))
    assert np.array_equal(c.array(made), CODES.transpose(1, 2, 0))
    assert c.builder.type(made).quantization == Quantization(CHANNELS.scales, CHANNELS.zero_points, 0)
    given = c.transposed(c.input(2, 3, 2, quantization=CHANNELS), (1, 2, 0))
    assert c.builder.type(given) == c.builder.type(made)


def test_what_is_so_already_takes_no_node() -> None:
    c = Plain()
    x = c.input(2, 3)
    assert (c.reshaped(x, [2, 3]), c.transposed(x, [0, 1]), c.as_real(x)) == (x, x, x)
    assert c.builder.nodes == []
