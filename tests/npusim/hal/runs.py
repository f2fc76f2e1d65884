"""Requests of tests, executions of models of one output, and what every run must keep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import npusim.hal as hal
from npusim.hal import OperandLifeTime, OperandType, OperationType
from npusim.numbers.run import RunResult
from npusim.reports.run import html as page

T, L, O = OperandType, OperandLifeTime, OperationType  # noqa: E741
Arrays = Sequence[np.ndarray[Any, Any]]


def argument(offset: int, length: int, pool: int = 0, dimensions: Sequence[int] = ()) -> hal.RequestArgument:
    return hal.RequestArgument(location=hal.DataLocation(pool, offset, length), dimensions=list(dimensions))


def request(inputs: Arrays, sizes: Sequence[int], *, shapes: bool = False) -> hal.Request:
    """Inputs one behind the other in pool 0, outputs of so many bytes in pool 1."""
    given, arguments = bytearray(), []
    for value in inputs:
        dimensions = value.shape if shapes else ()
        arguments.append(argument(len(given), value.nbytes, dimensions=dimensions))
        given += value.tobytes()
    starts = [sum(sizes[:position]) for position in range(len(sizes))]
    outputs = [argument(start, size, 1) for start, size in zip(starts, sizes, strict=True)]
    return hal.Request(arguments, outputs, [given, bytearray(sum(sizes))])


def run(
    device: hal.Device,
    model: hal.Model,
    inputs: Arrays,
    dtype: Any = np.float32,
    room: int = 400,
    **how: bool,
) -> tuple[np.ndarray[Any, Any], hal.Execution]:
    """The first output of a model of one output, and the execution."""
    asked = request(inputs, [room], **how)
    done = device.prepareModel(model).unwrap().execute(asked).unwrap()
    (shape,) = done.outputShapes
    size = int(np.prod(shape.dimensions)) * np.dtype(dtype).itemsize
    return np.frombuffer(bytes(asked.pools[1][:size]), dtype).reshape(shape.dimensions), done


def sound(run: RunResult, count: int) -> None:
    """Layers, losses and energy of a run add up, and its JSON and page can be made."""
    assert len(run.layers) == count
    assert sum(layer.cycles for layer in run.layers) == run.cycles > 0
    assert sum(layer.energy_uj for layer in run.layers) == pytest.approx(float(run.energy_uj))
    for account in (run.accounts.network, *run.accounts.layers):
        assert account.cycles == account.bound.cycles + sum(account.lost.values())
    assert run.accounts.network.cycles == run.cycles
    assert json.loads(json.dumps(run.to_dict()))["cycles"]["total"] == run.cycles
    assert "<html" in page.render(run)
