"""The constants of a tile in general: several parameter blocks, weights in any order, and what operands hold of them.

In the scratchpad lie the parameter blocks of a tile's instructions, then the weights. What is no constant of the model,
a filter or bias that is an input or computed, is copied there from its memory when a tile needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import SIZE_ONLY, Array
from npusim.kernels.lowering.requantization_stage import OutputStage
from npusim.kernels.lowering.work import CONSTANTS, Constants, Move
from npusim.kernels.operator.operands import weight_zero
from npusim.kernels.operator.operator import Call

WEIGHTS, BIAS = 1, 2
BIAS_BYTES = 4


class Box(NamedTuple):
    """Bytes of a tensor in the order that a tile wants them: an offset, then dimensions with strides.

    The last dimension has no stride, because its bytes are contiguous.
    """

    offset: int
    counts: tuple[int, ...]
    strides: tuple[int, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Return the number of bytes."""
        return prod(self.counts)

    def taken(self, data: Array) -> Array:
        """Gather the box's bytes from a dense tensor into a flat array."""
        begin = np.ascontiguousarray(data).reshape(-1)[self.offset :]
        return as_strided(begin, self.counts, (*self.strides, 1), writeable=False).reshape(-1)

    def moves(self, position: int, target_offset: int) -> tuple[Move, ...]:
        """Return the DMA copies of the box from an operand to a place among the constants. Copies only walk forward."""
        dense = [prod(self.counts[axis + 1 :]) for axis in range(len(self.counts) - 1)]
        back = [axis for axis, stride in enumerate(self.strides) if stride < 0]
        kept = [axis for axis in range(len(self.strides)) if axis not in back]
        counts = (*(self.counts[axis] for axis in kept), self.counts[-1])
        strides, targets = (tuple(of[axis] for axis in kept) for of in (self.strides, dense))
        moves = []
        for steps in product(*(range(self.counts[axis]) for axis in back)):
            places = list(zip(steps, back, strict=True))
            source = self.offset + sum(step * self.strides[axis] for step, axis in places)
            target = target_offset + sum(step * dense[axis] for step, axis in places)
            moves.append(Move(CONSTANTS, target, counts, targets, ("in", position), source, strides))
        return tuple(moves)


Range = tuple[int, int]
"""Channels [first, last)."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """What the tiles of a call need beside their feature maps.

    ranges: the channels of each instruction of a tile [first, last): a parameter block each.
    boxes:  the weights of a tile [first, last), in order.
    weights: those of the model as they lie; None where they are computed.
    known:  whether all constants are at hand, not their size only.
    """

    stage: OutputStage
    zero_point: int
    ranges: Callable[[int, int], Sequence[Range]]
    boxes: Callable[[int, int], Sequence[Box]]
    weights: Array | None
    known: bool
    computed: tuple[int, ...]

    def addresses(self, first: int, last: int) -> tuple[list[int], int]:
        """Return where the parameter blocks of a tile begin and where its weights begin, in bytes from its first
        constant.
        """
        begins, at = [], 0
        for part in self.ranges(first, last):
            begins.append(at)
            at += self.stage.parameter_bytes(*part)
        return begins, at

    def constant_bytes(self, first: int, last: int) -> int:
        """Return the bytes in the scratchpad that a tile needs."""
        boxes = self.boxes(first, last)
        return self.addresses(first, last)[1] + sum([box.size_bytes for box in boxes])

    def constants(self, first: int, last: int) -> Constants:
        """Return the part of a tile's constants that the model holds; zeros stand for a bias that is an operand."""
        if not self.known:
            weights = (
                0 if WEIGHTS in self.computed else sum([box.size_bytes for box in self.boxes(first, last)])
            )
            return Constants(absent_bytes=self.constant_bytes(first, last), absent_weights=weights)
        plain = b"".join([self.stage.parameters(*part) for part in self.ranges(first, last)])
        if self.weights is None:
            return Constants(plain)
        taken = np.concatenate([box.taken(self.weights) for box in self.boxes(first, last)])
        return Constants(plain, taken, self.zero_point)

    def fields(self) -> dict[str, Any]:
        """Return the fields of a work that describe these blocks."""
        supply: dict[str, Any] = {"constants": self.constants, "constant_bytes": self.constant_bytes}
        if self.computed:
            supply |= {"fetched": tuple([("in", at) for at in self.computed]), "fetches": self.fetches}
        return supply

    def fetches(self, first: int, last: int) -> tuple[Move, ...]:
        """Return DMA moves for the constants that are not part of the model."""
        begins, at = self.addresses(first, last)
        moves: list[Move] = []
        if BIAS in self.computed:
            for (begin, end), target in zip(self.ranges(first, last), begins, strict=True):
                moves += Box(BIAS_BYTES * begin, (BIAS_BYTES * (end - begin),)).moves(BIAS, target)
        if WEIGHTS in self.computed:
            for box in self.boxes(first, last):
                moves += box.moves(WEIGHTS, at)
                at += box.size_bytes
        return tuple(moves)


def blocks(
    call: Call,
    stage: OutputStage,
    boxes: Callable[[int, int], Sequence[Box]],
    ranges: Callable[[int, int], Sequence[Range]] | None = None,
    zero_point: int | None = None,
) -> Blocks:
    """Return the blocks of a call whose operands are feature map, weights, and bias or None.

    `zero_point` is the zero point of weights without quantization.
    """
    data = call.constants.get(WEIGHTS)
    known = not any(array is SIZE_ONLY for array in call.constants.values())
    return Blocks(
        stage,
        weight_zero(call) if zero_point is None else zero_point,
        ranges or _one,
        boxes,
        data if isinstance(data, np.ndarray) else None,
        known,
        computed(call),
    )


def bias_only(call: Call, stage: OutputStage) -> Blocks:
    """Return the blocks of a call whose weights are an operand of the instruction instead."""
    return replace(
        blocks(call, stage, lambda first, last: ()),
        weights=None,
        computed=tuple([at for at in computed(call) if at == BIAS]),
    )


def _one(first: int, last: int) -> Sequence[Range]:
    return ((first, last),)


def computed(call: Call) -> tuple[int, ...]:
    """Return which of weights and bias are computed or inputs, rather than constants."""
    present = [at for at, tensor in enumerate(call.inputs) if tensor is not None and at >= WEIGHTS]
    return tuple([at for at in present if at not in call.constants])
