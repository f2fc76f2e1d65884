"""The NNAPI examples with sizes of inputs changed: a new shape is legal or refused, and nothing else happens."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import npusim.hal as hal
from npusim.hal import ErrorStatus, HalVersion, OperandLifeTime
from tests.conftest import shared_folder
from tests.npusim.hal import examples

FOLDER = (shared_folder() or Path("absent")) / "nnapi_examples"
EVERY, TRIES, ROOM = 23, 4, 100_000
"""Which examples are taken, how often each is changed, and the bytes that each output has."""

DATA = ("outside its image", "index")
"""What messages have in them where an operation refuses its data, which no longer fit either: a region, a list."""


@pytest.mark.slow
@pytest.mark.cases(1)
@pytest.mark.parametrize("first", range(4))
def test_other_sizes_are_legal_or_refused(shared: Path, first: int) -> None:
    device, rng = hal.Device(), random.Random(first)
    taken = [each for _, each in examples.all_examples(FOLDER) if not each["expectFailure"]]
    statuses = set()
    for example in taken[first * 5 :: EVERY]:
        model = examples.model(example, "sizes")
        if model.version >= HalVersion.V1_2:
            for operand in model.operands:
                if operand.lifetime == OperandLifeTime.MODEL_OUTPUT and operand.dimensions:
                    operand.dimensions = [0] * len(operand.dimensions)
        prepared = device.prepareModel(model).unwrap()
        for _ in range(TRIES):
            request = _changed(example, model, rng)
            done = prepared.execute(request)
            statuses.add(done.status)
            refused = done.status is ErrorStatus.GENERAL_FAILURE and any(
                word in done.message for word in DATA
            )
            legal = done.status in (ErrorStatus.NONE, ErrorStatus.OUTPUT_INSUFFICIENT_SIZE)
            assert legal or refused or done.status is ErrorStatus.INVALID_ARGUMENT, (
                example["test"],
                done.message,
            )
            assert legal or done.message.startswith(
                ("operations[", "referenced[", "outputs[", "inputs[", "operands[")
            )
    assert {ErrorStatus.NONE, ErrorStatus.INVALID_ARGUMENT} <= statuses


def _changed(example: examples.Json, model: hal.Model, rng: random.Random) -> hal.Request:
    """The request of an example with one size of one input changed where the model leaves it open."""
    request = examples.request(example, model, "sizes").request
    open_sizes = [
        (argument, number, axis)
        for argument, number in zip(request.inputs, model.inputIndexes, strict=True)
        for axis in range(len(argument.dimensions))
        if not model.operands[number].dimensions[axis]
    ]
    if open_sizes:
        argument, number, axis = rng.choice(open_sizes)
        sizes = list(argument.dimensions)
        sizes[axis] = rng.choice((1, 2, 3, 7, sizes[axis] + 1, 2 * sizes[axis]))
        kind = np.dtype(examples.DTYPES[example["main"]["operands"][number]["type"]])
        needed, place = int(np.prod(sizes)) * kind.itemsize, argument.location
        old = bytes(request.pools[0][place.offset : place.offset + place.length])
        argument.dimensions, argument.location = sizes, hal.DataLocation(0, len(request.pools[0]), needed)
        request.pools[0] += (old * (needed // len(old) + 1))[:needed]
    if model.version >= HalVersion.V1_2:
        for number, argument in enumerate(request.outputs):
            argument.location = hal.DataLocation(2 + number, 0, ROOM)
            request.pools.append(bytearray(ROOM))
    return request
