"""Tensors without elements: every operator that LiteRT runs on them, through compiler, machine and reports."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import npusim
from npusim.frontends.tflite import reader as tflite
from npusim.isa.base.tensor import TensorType
from npusim.models.writer import SOFTMAX_INT8, ModelWriter, per_channel, per_tensor
from npusim.reports import REPORTS

from .live import by_litert, difference, needs_litert

SCALE = per_tensor(0.05, 3)
Build = Callable[[ModelWriter, int], int]


def weights(to: ModelWriter, *shape: int, axis: int = 0) -> int:
    values = np.arange(np.prod(shape)).astype(np.int8).reshape(shape)
    return to.constant("weights", values, per_channel(np.full(shape[axis], 0.01), axis))


def bias(to: ModelWriter, count: int) -> int:
    return to.constant("bias", np.zeros(count, np.int32), per_channel(np.full(count, 0.0005), 0))


def rows(to: ModelWriter, *shape: int) -> int:
    return to.constant("rows", np.arange(np.prod(shape)).astype(np.int8).reshape(shape), SCALE)


IMAGE, NO_ROWS, NO_CHANNELS = (0, 4, 4, 2), (1, 0, 4, 2), (1, 4, 4, 0)
CASES: dict[str, tuple[tuple[int, ...], Build]] = {
    "conv_2d": (IMAGE, lambda to, x: to.conv_2d(x, weights(to, 3, 1, 1, 2), bias(to, 3), SCALE)),
    "depthwise": (
        IMAGE, lambda to, x: to.depthwise_conv_2d(x, weights(to, 1, 1, 1, 2, axis=3), bias(to, 2), SCALE)),
    "average_pool": (IMAGE, lambda to, x: to.average_pool_2d(x, (2, 2))),
    "max_pool": (IMAGE, lambda to, x: to.max_pool_2d(x, (2, 2))),
    "fully_connected": ((0, 4), lambda to, x: to.fully_connected(x, weights(to, 3, 4), bias(to, 3), SCALE)),
    "mean": (IMAGE, lambda to, x: to.mean(x, (1, 2), SCALE)),
    "softmax": ((0, 4), lambda to, x: to.softmax(x)),
    "softmax over nothing": ((4, 0), lambda to, x: to.softmax(x)),
    "add": (NO_ROWS, lambda to, x: to.add(x, x, SCALE)),
    "add a row": (NO_ROWS, lambda to, x: to.add(x, rows(to, 2), SCALE)),
    "sub": (NO_CHANNELS, lambda to, x: to.sub(x, x, SCALE)),
    "mul": (NO_CHANNELS, lambda to, x: to.mul(x, x, SCALE)),
    "relu": (IMAGE, lambda to, x: to.unary("RELU", x, SCALE)),
    "logistic": (NO_ROWS, lambda to, x: to.unary("LOGISTIC", x, SOFTMAX_INT8)),
    "quantize": (NO_ROWS, lambda to, x: to.unary("QUANTIZE", x, per_tensor(0.1, 0))),
    "reshape": (NO_CHANNELS, lambda to, x: to.reshape(x, (0, 7))),
    "pad": (NO_CHANNELS, lambda to, x: to.pad(x, ((0, 0), (1, 1), (0, 0), (0, 0)))),
    "pad to something": (NO_ROWS, lambda to, x: to.pad(x, ((0, 0), (1, 1), (0, 0), (0, 0)))),
    "concatenation": (NO_ROWS, lambda to, x: to.concatenation([x, x], 1)),
    "concatenation with something": (
        NO_ROWS, lambda to, x: to.concatenation([x, rows(to, 1, 3, 4, 2), x], 1)),
    "constant without elements": (
        (1, 3, 4, 2), lambda to, x: to.concatenation([x, to.constant("k", np.empty(NO_ROWS, np.int8), SCALE)], 1)),
}  # fmt: skip


def model(name: str) -> tuple[bytes, tuple[int, ...]]:
    shape, build = CASES[name]
    writer = ModelWriter("empty")
    return writer.finish([build(writer, writer.input("x", TensorType("int8", shape, SCALE)))]), shape


@needs_litert
@pytest.mark.parametrize("name", CASES)
def test_bytes_and_shapes_are_those_of_litert(name: str) -> None:
    data, shape = model(name)
    values = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    program = npusim.compile(tflite.parse(data, name))
    result = npusim.simulate(program, [values])
    assert difference(result.outputs, by_litert(data, [values])) is None
    assert npusim.simulate(program, timing_only=True).cycles == result.cycles


@pytest.mark.parametrize("name", CASES)
def test_a_program_without_work_is_a_program(name: str) -> None:
    data, shape = model(name)
    result = npusim.simulate(npusim.compile(tflite.parse(data, name)), [np.ones(shape, np.int8)])
    assert result.to_dict()["latency_ms"] == result.cycles / result.hardware.clock_mhz / 1e3
    for report in REPORTS:
        assert report.render(result)
