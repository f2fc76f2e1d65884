"""Random chains of operators at an NCHW door give the bytes of the same operators each in the door's own order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.check import check_bound
from npusim.kernels.graph.graph import NCHW
from npusim.kernels.graph.layout import LayoutBuilder
from npusim.kernels.graph.layouts import BY_AXIS, POINTWISE, SPATIAL
from npusim.kernels.graph.reference import evaluate
from npusim.kernels.operator.parameters import Parameters
from npusim.kernels.table import NAMES, operator

CODES = Quantization((0.05,), (0,))
TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
LENGTH = 9


class Plain(GraphBuilder):
    """The door's operators in its own order; what knows height from width is between two transposes."""

    def add(self, op: str, inputs: Any, outputs: Any, parameters: Any = None, **rest: Any) -> Any:
        if op not in SPATIAL:
            return super().add(op, inputs, outputs, parameters, **rest)
        turned = [self._turned(inputs[0])]
        if len(inputs) > 1:
            filter_ = self.tensors[inputs[1]]
            order = getattr(NCHW, SPATIAL[op].operands[1])
            assert filter_.array is not None
            values = np.ascontiguousarray(filter_.array.transpose(order))
            turned.append(self.constant("filter", values, filter_.type.quantization))
        images = [self.tensor("image", unshaped("int8", CODES)) for _ in outputs]
        node = super().add(op, turned, images, parameters, **rest)
        for image, output in zip(images, outputs, strict=True):
            super().add("transpose", (image,), (output,), operator("transpose").parameters(perm=TO_NCHW))
        return node

    def _turned(self, number: int) -> int:
        image = self.tensor("image", unshaped("int8", CODES))
        super().add("transpose", (number,), (image,), operator("transpose").parameters(perm=TO_NHWC))
        return image


class Chain:
    """Operators drawn one after the other, each on what those before it gave."""

    def __init__(self, seed: int, make: GraphBuilder) -> None:
        self.rng, self.make = np.random.default_rng(seed), make
        self.images = [make.input("x", TensorType("int8", (2, 4, 6, 5), CODES))]
        self.others: list[int] = []

    def pick(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def constant(self, *shape: int) -> int:
        return self.make.constant("c", self.rng.integers(-128, 128, shape, np.int8), CODES)

    def node(self, op: str, *inputs: int | None, count: int = 1, **parameters: Any) -> tuple[int, ...]:
        made: Parameters = operator(op).parameters(**parameters)
        return self.make.node(op, inputs, [unshaped("int8", CODES)] * count, made, name=op)

    def grow(self) -> None:
        """One more operator, of all kinds that layouts know."""
        x = self.images[self.pick(0, len(self.images) - 1)]
        shape, axis = self.make.shape(x), self.pick(0, 3)
        match self.pick(0, 13):
            case 0:
                self.images += self.node("conv_2d", x, self.constant(3, shape[1], 1, 1), None)
            case 1:
                self.images += self.node("max_pool_2d", x, filter=(2, 1), padding=((0, 1), (0, 0)))
            case 2:
                self.images += self.node("relu", x)
            case 3:
                self.images += self.node("add", x, self.constant(*shape[self.pick(0, 3) :]))
            case 4:
                self.images += self.node(
                    "mul", x, self.constant(*[size * self.pick(0, 1) or 1 for size in shape])
                )
            case 5:
                self.images += self.node("concatenation", x, x, axis=axis)
            case 6 if shape[axis] > 1:
                sizes = (1, shape[axis] - 1)
                self.images += self.node("split", x, axis=axis, sizes=sizes, count=2)
            case 7:
                paddings = tuple((self.pick(0, 1), self.pick(0, 1)) for _ in shape)
                self.images += self.node("pad", x, paddings=paddings)
            case 8:
                axes = tuple(sorted({axis, self.pick(0, 3)}))
                keep = bool(self.pick(0, 1))
                (self.images if keep else self.others).extend(self.node("mean", x, axes=axes, keep_dims=keep))
            case 9:
                begin = tuple(self.pick(0, size - 1) for size in shape)
                size = tuple(self.pick(1, size - first) for size, first in zip(shape, begin, strict=True))
                self.images += self.node("slice", x, begin=begin, size=size)
            case 10:
                perm = tuple(self.rng.permutation(4).tolist())
                self.images += self.node("transpose", x, perm=perm)
            case 11:
                (flat,) = self.node("reshape", x, shape=(shape[0], -1))
                self.others += self.node(
                    "fully_connected", flat, self.constant(3, self.make.shape(flat)[1]), None
                )
                self.others.append(flat)
            case 12:
                self.others += self.node("squeeze", x)
            case 13:
                self.images += self.node("roll", x, shifts=tuple(self.pick(-2, 2) for _ in shape))


def outputs(seed: int, make: GraphBuilder, image: Array) -> list[Array]:
    chain = Chain(seed, make)
    while len(make.nodes) == 0 or len(chain.images) + len(chain.others) < LENGTH:
        chain.grow()
    ends = [*chain.images[1:], *chain.others]
    graph = check_bound(make.graph(ends))
    values = evaluate(graph, [image])
    return [np.asarray(values[number]) for number in graph.outputs]


@pytest.mark.parametrize("seed", range(60))
def test_chains_give_the_same_bytes_in_any_order(seed: int) -> None:
    image = np.random.default_rng(seed).integers(-128, 128, (2, 4, 6, 5), np.int8)
    ours, plain = outputs(seed, LayoutBuilder("net", NCHW), image), outputs(seed, Plain("net"), image)
    assert len(ours) == len(plain) >= LENGTH - 1
    for one, other in zip(ours, plain, strict=True):
        assert one.shape == other.shape
        assert np.array_equal(one, other)


def test_tables_name_operators_once() -> None:
    named = [*SPATIAL, *POINTWISE, *BY_AXIS]
    assert len(named) == len(set(named))
    assert set(named) <= set(NAMES)


@pytest.mark.parametrize("op", sorted(POINTWISE))
def test_what_is_computed_by_element_names_no_axes(op: str) -> None:
    said = set(operator(op).parameters.__annotations__)
    assert not said & {"axis", "axes", "perm", "shape", "paddings", "begin_axis"}
