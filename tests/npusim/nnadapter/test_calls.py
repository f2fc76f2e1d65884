"""The sequences of calls of ../shared/nnadapter/protocol, and the tables that the C interface is made of."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.nnadapter import c
from npusim.nnadapter.c.c_functions import ROWS
from tests.conftest import shared_folder

FOLDER = shared_folder()


def sequences() -> dict[str, dict[str, Any]]:
    """Every sequence by its name."""
    if FOLDER is None:
        return {}
    text = (FOLDER / "nnadapter" / "protocol" / "calls.jsonl").read_text()
    return {line["id"]: line for line in map(json.loads, text.splitlines())}


SEQUENCES = sequences()


class Memory:
    """Float32 memory of the caller, which its own access function knows."""

    def __init__(self, shape: list[int]) -> None:
        self.array = np.ones(shape, np.float32)


def access(memory: Memory, type_: Any, device_buffer: Any) -> Any:
    """The host buffer; of an input the real dimensions."""
    type_.dimensions = list(memory.array.shape)
    return memory.array


def argument(given: Any, places: dict[str, c.Ref]) -> list[Any]:
    """What a step says of an argument, as arguments."""
    if isinstance(given, str) and given.startswith("&"):
        return [places.setdefault(given[1:], c.Ref())]
    if isinstance(given, str) and given.startswith("$"):
        return [places[given[1:]].value]
    if isinstance(given, list):
        return [[one for part in given for one in argument(part, places)]]
    if isinstance(given, dict) and "bytes" in given:
        return [bytes(given["bytes"])]
    if isinstance(given, dict) and "array" in given:
        return [Memory(given["array"]), access]
    return [given]


def run(steps: list[Any]) -> None:
    """All steps of a sequence, with the codes and values that they want."""
    places: dict[str, c.Ref] = {}
    for name, given, code, *values in steps:
        arguments = [one for part in given for one in argument(part, places)]
        assert getattr(c, name)(*arguments) == code, f"{name}: {c.last_error()}"
        for path, wanted in (values[0] if values else {}).items():
            place, _, member = path.partition(".")
            value = places[place].value
            assert (getattr(value, member) if member else value) == wanted, path


@pytest.mark.parametrize("name", SEQUENCES or ["absent"])
def test_sequence(shared: Path, name: str) -> None:
    run(SEQUENCES[name]["steps"])


def test_all_sequences_are_there(shared: Path) -> None:
    assert len(SEQUENCES) == 46


def test_all_codes_have_their_numbers(shared: Path) -> None:
    with (shared / "specs" / "nnadapter_codes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 157
    assert {row["name"]: int(row["value"]) for row in rows} == {
        row["name"]: getattr(c, row["name"]) for row in rows
    }


def test_there_are_28_functions() -> None:
    assert len({row.name for row in ROWS}) == 28
    assert [row.rule for row in ROWS] == [f"2.{number}" for number in range(1, 29)]
    assert all(name in dir(c) for name in (row.name for row in ROWS))
