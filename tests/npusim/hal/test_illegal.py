"""400 illegal models and requests, each a legal example with one rule broken in one place: status and place of each."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

import npusim.hal as hal
from npusim.hal import ErrorStatus

CASES = Path(__file__).parents[4] / "shared" / "hal_illegal" / "cases.jsonl.gz"
if not CASES.exists():
    pytest.skip("needs ../shared/hal_illegal", allow_module_level=True)

Json = Mapping[str, Any]


def cases() -> list[Json]:
    with gzip.open(CASES, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def told(value: Any, make: Callable[[Any], Any] = lambda value: value) -> Any:
    """What a place of a case holds: {"raw": x} stands for x itself."""
    return value["raw"] if isinstance(value, dict) and set(value) == {"raw"} else make(value)


def each(values: Any, make: Callable[[Any], Any]) -> Any:
    return told(values, lambda values: [make(value) for value in values])


def named(kind: type[IntEnum]) -> Callable[[Any], Any]:
    """An enumerator by its name; numbers as they are."""
    return lambda value: kind[value] if isinstance(value, str) else value


def filled(text: int | str | Sequence[Any]) -> bytes:
    """Bytes: a number of zeros, hex, or a list of either."""
    if isinstance(text, int):
        return bytes(text)
    return bytes.fromhex(text) if isinstance(text, str) else b"".join(map(filled, text))


def location(value: Any) -> Any:
    return told(value, lambda numbers: hal.DataLocation(*map(told, numbers)))


def operand(value: Any) -> Any:
    def made(fields: Json) -> hal.Operand:
        return hal.Operand(
            told(fields["type"], named(hal.OperandType)),
            told(fields["dimensions"]),
            told(fields["numberOfConsumers"]),
            told(fields["scale"]),
            told(fields["zeroPoint"]),
            told(fields["lifetime"], named(hal.OperandLifeTime)),
            location(fields["location"]),
            told(fields.get("extraParams"), lambda given: given and hal.SymmPerChannelQuantParams(**given)),
        )

    return told(value, made)


def operation(value: Any) -> Any:
    def made(fields: Json) -> hal.Operation:
        type_ = told(fields["type"], named(hal.OperationType))
        return hal.Operation(type_, told(fields["inputs"]), told(fields["outputs"]))

    return told(value, made)


def graph(fields: Json) -> dict[str, Any]:
    return {
        "operands": each(fields["operands"], operand),
        "operations": each(fields["operations"], operation),
        "inputIndexes": told(fields["inputIndexes"]),
        "outputIndexes": told(fields["outputIndexes"]),
    }


def argument(value: Any) -> Any:
    def made(fields: Json) -> hal.RequestArgument:
        numbers = told(fields["hasNoValue"]), location(fields["location"]), told(fields["dimensions"])
        return hal.RequestArgument(*numbers)

    return told(value, made)


def structs(case: Json) -> tuple[hal.Model, hal.Request]:
    """The model and the request of a case; what they share is the same memory."""
    read_only = case.get("readOnly", ())
    buffers = [
        filled(text) if number in read_only else bytearray(filled(text))
        for number, text in enumerate(case["buffers"])
    ]
    fields, request = case["model"], case["request"]
    model = hal.Model(
        **graph(fields),
        operandValues=told(fields["operandValues"], filled),
        pools=each(fields["pools"], lambda pool: told(pool, buffers.__getitem__)),
        relaxComputationFloat32toFloat16=told(fields["relaxComputationFloat32toFloat16"]),
        referenced=each(fields["referenced"], lambda inner: hal.Subgraph(**graph(inner))),
        version=hal.HalVersion[case["version"]],
    )
    arguments = (each(request[name], argument) for name in ("inputs", "outputs"))
    return model, hal.Request(
        *arguments, each(request["pools"], lambda pool: told(pool, buffers.__getitem__))
    )


@pytest.fixture(scope="module")
def device() -> Iterator[hal.Device]:
    with hal.Device() as device:
        yield device


@pytest.mark.cases(150)
@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case['id']} {case['rule']} {case['what']}")
def test_the_status_and_the_place_of_an_illegal_case(case: Json, device: hal.Device) -> None:
    model, request = structs(case)
    found: Any = device.prepareModel(model)
    supported = device.getSupportedOperations(model)
    if case["at"] == "execute":
        assert found.status is ErrorStatus.NONE, found.message
        found = found.value.execute(request)
    else:
        assert found.value is None
        wanted = case.get("supported", case["expect"])
        assert supported.status is ErrorStatus[wanted], supported.message
        assert (supported.value == []) == (wanted != "NONE")
    assert found.status is ErrorStatus[case["expect"]], found.message
    assert any(place in found.message for place in case["where"]), found.message
    assert "\n" not in found.message
