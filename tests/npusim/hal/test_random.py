"""Random models and requests through the device: legal ones run, and with one rule broken they are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npusim.hal as hal
from npusim.hal import ErrorStatus
from tests.examples import examples

from .breaking import MODEL_BREAKS, REQUEST_BREAKS, Break
from .random_models import Drawn, Pick, draw


@pytest.fixture(scope="module")
def device() -> Iterator[hal.Device]:
    with hal.Device() as device:
        yield device


def picker(data: st.DataObject) -> Pick:
    return lambda low, high: data.draw(st.integers(low, high))


def of_seed(*seed: int) -> tuple[Drawn, Pick]:
    generator = np.random.default_rng(seed)

    def pick(low: int, high: int) -> int:
        return int(generator.integers(low, high + 1))

    return draw(pick), pick


@pytest.mark.slow
@examples(60)
@given(st.data())
def test_a_legal_model_is_prepared_and_runs(device: hal.Device, data: st.DataObject) -> None:
    drawn = draw(picker(data))
    supported = device.getSupportedOperations(drawn.model)
    assert supported == (ErrorStatus.NONE, [True] * len(drawn.model.operations), "")
    prepared = device.prepareModel(drawn.model)
    assert (prepared.status, prepared.message) == (ErrorStatus.NONE, "")
    execution = prepared.unwrap().execute(drawn.request)
    assert (execution.status, execution.message) == (ErrorStatus.NONE, "")
    assert [tuple(shape.dimensions) for shape in execution.unwrap().outputShapes] == drawn.shapes
    assert all(shape.isSufficient for shape in execution.unwrap().outputShapes)


def refused(broken: Break, outcome: Callable[[Drawn, Pick], Any]) -> int:
    """How many models one way to break them applies to, 8 of 60 at most; each of these must be refused."""
    count = 0
    for seed in range(60):
        found = outcome(*of_seed(seed, 3)) if count < 8 else None
        if found is not None:
            assert found.status is ErrorStatus.INVALID_ARGUMENT, (broken.__name__, seed, found)
            assert found.message.isprintable()
            count += 1
    return count


@pytest.mark.parametrize("broken", dict.fromkeys(MODEL_BREAKS))
def test_a_model_with_a_broken_rule_is_refused(device: hal.Device, broken: Break) -> None:
    def outcome(drawn: Drawn, pick: Pick) -> Any:
        if not broken(pick, drawn):
            return None
        supported = device.getSupportedOperations(drawn.model)
        assert (supported.status, supported.value) == (ErrorStatus.INVALID_ARGUMENT, [])
        return device.prepareModel(drawn.model)

    assert refused(broken, outcome) > 0


@pytest.mark.parametrize("broken", REQUEST_BREAKS)
def test_a_request_with_a_broken_rule_is_refused_and_nothing_is_written(
    device: hal.Device, broken: Break
) -> None:
    def outcome(drawn: Drawn, pick: Pick) -> Any:
        prepared = device.prepareModel(drawn.model).unwrap()
        if not broken(pick, drawn):
            return None
        before = contents(drawn.request)
        result = prepared.execute(drawn.request)
        assert contents(drawn.request) == before
        return result

    assert refused(broken, outcome) > 0


def contents(request: hal.Request) -> list[bytes]:
    """The bytes of the pools, where they are memory."""
    pools = request.pools if isinstance(request.pools, (list, tuple)) else []
    return [
        np.asarray(memoryview(pool)).tobytes() for pool in pools if not isinstance(pool, (type(None), str))
    ]


def test_equal_requests_give_equal_bytes_and_only_outputs_are_written(device: hal.Device) -> None:
    for seed in range(10):
        found = []
        for _ in range(2):
            drawn, _ = of_seed(seed, 4)
            before = contents(drawn.request)[0]
            prepared = device.prepareModel(drawn.model).unwrap()
            prepared.execute(drawn.request).unwrap()
            after = contents(drawn.request)[0]
            found.append(after)
            written = {
                byte
                for argument in drawn.request.outputs
                for byte in range(
                    argument.location.offset, argument.location.offset + argument.location.length
                )
            }
            assert all(after[byte] == before[byte] for byte in range(len(after)) if byte not in written)
        assert found[0] == found[1]
