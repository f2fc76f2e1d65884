"""Operations that move elements, and those that shapes decide, beside numpy: any element type, size and parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npusim.nnadapter as nna
from npusim.frontends.nnadapter.operand_type import PRECISIONS
from tests.examples import examples

Draw = Callable[[Any], Any]
INT_MAX, INT_MIN = (1 << 31) - 1, -(1 << 31)
DTYPES = ("float32", "int8", "int32", "int64", "bool")
SCALE = 0.03


def typed(array: Any) -> nna.OperandType:
    """The type of an operand with these elements; int8 are codes."""
    if array.dtype == np.int8:
        return nna.OperandType(nna.QUANT_INT8_SYMM_PER_LAYER, array.shape, scale=SCALE)
    precision = next(row.precision for row in PRECISIONS if row.dtype == array.dtype.name and not row.scaled)
    return nna.OperandType(precision, array.shape)


def values(draw: Draw, shape: Sequence[int], dtype: str) -> Any:
    random = np.random.default_rng(draw(st.integers(0, 9)))
    return random.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


def shapes(least: int = 1, most: int = 4) -> Any:
    return st.lists(st.integers(1, 5), min_size=least, max_size=most)


def axis_of(draw: Draw, rank: int) -> int:
    return int(draw(st.integers(-rank, rank - 1)))


class Case:
    """Inputs of an operation, arrays for tensors, and what numpy gives."""

    def __init__(self, tensors: Sequence[Any], wanted: Sequence[Any], *arguments: Any) -> None:
        self.tensors, self.wanted, self.arguments = tensors, wanted, arguments


def reshape(draw: Draw, dtype: str) -> Case:
    x = values(draw, draw(shapes()), dtype)
    kept = draw(st.integers(0, x.ndim - 1))
    return Case([x], [x.reshape(*x.shape[:kept], -1)], [0] * kept + [-1])


def flatten(draw: Draw, dtype: str) -> Case:
    x = values(draw, draw(shapes()), dtype)
    first, last = sorted([draw(st.integers(0, x.ndim - 1)), draw(st.integers(0, x.ndim - 1))])
    wanted = x.reshape(*x.shape[:first], -1, *x.shape[last + 1 :])
    return Case([x], [wanted], first - draw(st.sampled_from([0, x.ndim])), last)


def squeeze(draw: Draw, dtype: str) -> Case:
    x = values(draw, draw(st.lists(st.integers(1, 2), min_size=1, max_size=5)), dtype)
    ones = [axis for axis, size in enumerate(x.shape) if size == 1]
    axes = draw(st.lists(st.sampled_from(ones), unique=True)) if ones else []
    wanted = np.squeeze(x, tuple(axes)) if axes else np.squeeze(x)
    return Case([x], [wanted], [axis - x.ndim for axis in axes] or None)


def unsqueeze(draw: Draw, dtype: str) -> Case:
    wanted = x = values(draw, draw(shapes(1, 3)), dtype)
    axes = []
    for _ in range(draw(st.integers(1, 3))):
        axes.append(axis_of(draw, wanted.ndim + 1))
        wanted = np.expand_dims(wanted, axes[-1])
    return Case([x], [wanted], axes)


def transpose(draw: Draw, dtype: str) -> Case:
    x = values(draw, draw(shapes(1, 5)), dtype)
    perm = draw(st.permutations(range(x.ndim)))
    return Case([x], [x.transpose(perm)], perm)


def concat(draw: Draw, dtype: str) -> Case:
    shape = draw(shapes())
    axis = axis_of(draw, len(shape))
    parts = []
    for size in draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)):
        shape[axis] = size
        parts.append(values(draw, shape, dtype))
    return Case(parts, [np.concatenate(parts, axis)], axis)


def stack(draw: Draw, dtype: str) -> Case:
    shape = draw(shapes(1, 3))
    axis = axis_of(draw, len(shape) + 1)
    parts = [values(draw, shape, dtype) for _ in range(draw(st.integers(1, 4)))]
    return Case(parts, [np.stack(parts, axis)], axis)


def unstack(draw: Draw, dtype: str) -> Case:
    x = values(draw, draw(shapes(2)), dtype)
    axis = axis_of(draw, x.ndim)
    return Case([x], list(np.moveaxis(x, axis, 0)), axis, x.shape[axis])


def split(draw: Draw, dtype: str) -> Case:
    shape, sizes = draw(shapes()), draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    axis = axis_of(draw, len(shape))
    shape[axis] = sum(sizes)
    x = values(draw, shape, dtype)
    return Case([x], np.split(x, np.cumsum(sizes)[:-1], axis), axis, sizes)


def slice_(draw: Draw, dtype: str) -> Case:
    x = values(draw, draw(shapes()), dtype)
    axes = draw(st.lists(st.integers(0, x.ndim - 1), unique=True, min_size=1))
    end = st.integers(-7, 7) | st.sampled_from([INT_MAX, INT_MIN])
    starts, ends = [draw(end) for _ in axes], [draw(end) for _ in axes]
    steps = [draw(st.sampled_from([1, 2, 3, -1, -2, -3])) for _ in axes]
    chosen = [slice(None)] * x.ndim
    for axis, *ends_and_step in zip(axes, starts, ends, steps, strict=True):
        chosen[axis] = slice(*ends_and_step)
    signed = [axis - draw(st.sampled_from([0, x.ndim])) for axis in axes]
    if axes == list(range(len(axes))):
        signed = draw(st.sampled_from([signed, None]))
    if set(steps) == {1}:
        steps = draw(st.sampled_from([steps, None]))
    return Case([x], [x[tuple(chosen)]], signed, starts, ends, steps)


def expand(draw: Draw, dtype: str) -> Case:
    own = draw(shapes(1, 3))
    shape = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(0, 2)))] + [
        draw(st.integers(1, 4)) if size == 1 else size for size in own
    ]
    said = [
        -1
        if place >= len(shape) - len(own)
        and size == own[place - len(shape) + len(own)]
        and draw(st.booleans())
        else size
        for place, size in enumerate(shape)
    ]
    x = values(draw, own, dtype)
    return Case([x], [np.broadcast_to(x, shape)], said)


def tile(draw: Draw, dtype: str) -> Case:
    x = values(draw, draw(shapes()), dtype)
    repeats = [draw(st.integers(1, 3)) for _ in x.shape]
    return Case([x], [np.tile(x, repeats)], repeats)


def roll(draw: Draw, dtype: str) -> Case:
    x = values(draw, draw(shapes()), dtype)
    if draw(st.booleans()):
        shift = draw(st.integers(-99, 99))
        return Case([x], [np.roll(x, shift)], [shift], None)
    axes = [axis_of(draw, x.ndim) for _ in range(draw(st.integers(1, 3)))]
    shifts = [draw(st.integers(-9, 9)) for _ in axes]
    return Case([x], [np.roll(x, shifts, axes)], shifts, axes)


def gather(draw: Draw, dtype: str) -> Case:
    x = values(draw, draw(shapes(1, 3)), dtype)
    axis = axis_of(draw, x.ndim)
    indices = values(draw, draw(shapes(0, 2)), draw(st.sampled_from(["int32", "int64"]))) % x.shape[axis]
    return Case([x, indices], [np.take(x, indices, axis)], axis)


def pad(draw: Draw, dtype: str) -> Case:
    x = values(draw, draw(shapes()), dtype)
    mode = draw(
        st.sampled_from(
            [nna.PAD_MODE_CONSTANT, nna.PAD_MODE_REFLECT, nna.PAD_MODE_REPLICATE, nna.PAD_MODE_EDGE]
        )
    )
    reflects = mode == nna.PAD_MODE_REFLECT
    pads = [draw(st.integers(0, size - 1 if reflects else 3)) for size in x.shape for _ in range(2)]
    pairs = list(zip(pads[::2], pads[1::2], strict=True))
    value = values(draw, [1], dtype)
    if mode == nna.PAD_MODE_CONSTANT:
        wanted = np.pad(x, pairs, constant_values=value[0])
    else:
        wanted = np.pad(x, pairs, "reflect" if reflects else "edge")
    return Case([x], [wanted], pads, mode, value)


def meshgrid(draw: Draw, dtype: str) -> Case:
    parts = [values(draw, [size], dtype) for size in draw(shapes(1, 3))]
    return Case(parts, np.meshgrid(*parts, indexing="ij"))


def fill(draw: Draw, dtype: str) -> Case:
    shape, value = draw(shapes()), values(draw, [1], dtype)
    return Case([], [np.full(shape, value[0])], shape, value)


def fill_like(draw: Draw, dtype: str) -> Case:
    shape, value = draw(shapes()), values(draw, [1], dtype)
    return Case([np.zeros(shape, np.float32)], [np.full(shape, value[0])], value)


def range_(draw: Draw, dtype: str) -> Case:
    start, end = draw(st.integers(-9, 9)), draw(st.integers(-9, 9))
    step = draw(st.sampled_from([-3, -2, -1, 1, 2, 3]))
    kind = dtype if dtype in ("float32", "int32", "int64") else "int32"
    numbers = [np.array([number], kind) for number in (start, end, step)]
    return Case([], [np.arange(start, end, step).astype(kind)], *numbers)


def shape(draw: Draw, dtype: str) -> Case:
    x = values(draw, draw(shapes()), dtype)
    wanted = draw(st.sampled_from(["int32", "int64"]))
    return Case([x], [np.array(x.shape, wanted)], nna.INT32 if wanted == "int32" else nna.INT64)


def assign(draw: Draw, dtype: str) -> Case:
    x = values(draw, draw(shapes(0)), dtype)
    return Case([x], [x])


OPERATIONS: dict[str, Callable[[Draw, str], Case]] = {
    "assign": assign,
    "concat": concat,
    "expand": expand,
    "fill": fill,
    "fill_like": fill_like,
    "flatten": flatten,
    "gather": gather,
    "meshgrid": meshgrid,
    "pad": pad,
    "range": range_,
    "reshape": reshape,
    "roll": roll,
    "shape": shape,
    "slice": slice_,
    "split": split,
    "squeeze": squeeze,
    "stack": stack,
    "tile": tile,
    "transpose": transpose,
    "unsqueeze": unsqueeze,
    "unstack": unstack,
}
LISTS = ("concat", "stack", "meshgrid")


def outputs(name: str, case: Case, devices: Sequence[str]) -> list[Any]:
    """What a model of one operation gives."""
    model = nna.Model()
    operands: list[Any] = [model.add_operand(typed(tensor)) for tensor in case.tensors]
    arguments = [
        model.add_constant(argument, typed(argument)) if isinstance(argument, np.ndarray) else argument
        for argument in case.arguments
    ]
    made = getattr(model, name)(*([operands] if name in LISTS else operands), *arguments)
    results = made if isinstance(made, tuple) else (made,)
    if any(not tensor.shape for tensor in case.tensors):  # may get sizes until the model is finished
        model.identify(operands, results)
        model.finish()
    for result, wanted in zip(results, case.wanted, strict=True):
        assert result.type.dimensions == list(wanted.shape)
        assert result.type.dtype == wanted.dtype
    if not model.finished:
        model.identify(operands, results)
        model.finish()
    compilation = nna.Compilation(model, nna.Context([nna.Device.acquire(device) for device in devices]))
    compilation.finish()
    execution = nna.Execution(compilation)
    for index, tensor in enumerate(case.tensors):
        execution.set_input(index, tensor)
    return list(execution.compute().outputs)


@pytest.mark.cases(15)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
@examples(4)
def test_moves_give_what_numpy_gives(name: str, dtype: str, data: st.DataObject) -> None:
    case = OPERATIONS[name](data.draw, dtype)
    devices = data.draw(st.sampled_from([["npusim"], ["npusim_host"], ["npusim", "npusim_host"]]))
    for got, wanted in zip(outputs(name, case, devices), case.wanted, strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


def test_codes_become_those_of_an_output_with_another_scale() -> None:
    """RESHAPE by LiteRT's rule of requantizing, halves up; STACK and CONCAT bring each input to the output's scale."""

    def codes(scale: float, *shape: int) -> nna.OperandType:
        return nna.OperandType(nna.QUANT_INT8_SYMM_PER_LAYER, shape, scale=scale)

    m = nna.Model()
    a, b = m.add_operand(codes(0.1, 3)), m.add_operand(codes(0.2, 3))
    outputs = [m.add_operand(codes(scale)) for scale in (0.05, 0.05, 0.2)]
    zero = m.add_constant([0])
    m.add_operation(nna.STACK, [a, b, zero], outputs[:1])
    m.add_operation(nna.CONCAT, [a, b, zero], outputs[1:2])
    m.add_operation(nna.RESHAPE, [a, m.add_constant([3, 1])], outputs[2:])
    m.identify([a, b], outputs)
    m.finish()
    compilation = nna.Compilation(m, nna.Context([nna.Device.acquire("npusim")]))
    compilation.finish()
    execution = nna.Execution(compilation)
    execution.set_input(0, np.array([1, -3, 100], np.int8))
    execution.set_input(1, np.array([1, 2, -100], np.int8))
    stacked, joined, reshaped = execution.compute().outputs
    assert stacked.tolist() == [[2, -6, 127], [4, 8, -128]]
    assert joined.tolist() == [2, -6, 127, 4, 8, -128]
    assert reshaped.tolist() == [[1], [-1], [50]]
