"""Whatever a field holds, nothing raises: all garbage in all places of models and requests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import npusim.hal as hal
from npusim.frontends.nn_hal.checked import CheckedModel
from npusim.frontends.nn_hal.fault import Fault
from npusim.frontends.nn_hal.model_check import check_model
from npusim.frontends.nn_hal.request import check_request
from npusim.hal import ErrorStatus
from tests.examples import some

from .garbage import GARBAGE, places, put
from .hal_models import addition, branches, convolution, request_of

MODELS = (addition, convolution, branches)


def judge(found: object, place: str) -> bool:
    """Whether a fault was found; if so it is one line and has the right status, and its place is near."""
    if not isinstance(found, Fault):
        return False
    assert found.status is ErrorStatus.INVALID_ARGUMENT
    assert found.message.isprintable(), place
    assert len(found.message) < 400
    return True


@pytest.mark.slow
@pytest.mark.parametrize("make", MODELS)
def test_garbage_in_every_place_of_a_model(make: Callable[[], hal.Model]) -> None:
    refused = 0
    names = some([name for name, _ in places(make())], 25, make.__name__)
    for place in names:
        for garbage in GARBAGE:
            model = make()
            put(model, place, garbage())
            refused += judge(check_model(model), place)
    # The rest are values that may stand there, such as 0 where 1 stood.
    assert 0.9 * len(names) * len(GARBAGE) < refused < len(names) * len(GARBAGE)


@pytest.mark.slow
@pytest.mark.parametrize("make", MODELS)
def test_garbage_in_every_place_of_a_request(make: Callable[[], hal.Model]) -> None:
    checked = check_model(make())
    assert isinstance(checked, CheckedModel)
    refused = 0
    names = [name for name, _ in places(request_of(make()))]
    for place in names:
        for garbage in GARBAGE:
            request = request_of(make())
            put(request, place, garbage())
            refused += judge(check_request(request, checked), place)
    assert 0.8 * len(names) * len(GARBAGE) < refused < len(names) * len(GARBAGE)


def test_garbage_instead_of_a_struct() -> None:
    checked = check_model(addition())
    assert isinstance(checked, CheckedModel)
    for garbage in GARBAGE:
        assert judge(check_model(garbage()), "model")
        assert judge(check_request(garbage(), checked), "request")


def test_a_struct_without_a_field() -> None:
    model = addition()
    del model.operands[1].scale
    found = check_model(model)
    # A class has the defaults of its fields; a field without one is missing.
    assert not isinstance(found, Fault) or found.message.startswith("operands[1]")
    model = addition()
    del model.operations[0].inputs
    found = check_model(model)
    assert isinstance(found, Fault)
    assert found.message == "operations[0].inputs: cannot be read (AttributeError)"
