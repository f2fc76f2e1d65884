"""The NNAPI examples of ../shared: each as it is, and in one further way in turn.

`python -m tests.npusim.hal.examples` tries each of them in all ways, and prints a table by operation and type.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import npusim.hal as hal
from tests.conftest import shared_folder
from tests.npusim.hal import examples

FOLDER = (shared_folder() or Path("absent")) / "nnapi_examples"
FILES = [str(file.relative_to(FOLDER)) for file in examples.files(FOLDER)]
FURTHER = examples.WAYS[1:]
COUNT = 2629


@pytest.fixture(scope="module")
def device() -> hal.Device:
    return hal.Device()


@pytest.mark.slow
@pytest.mark.cases(24)
@pytest.mark.parametrize("file", FILES or ["absent"])
def test_every_example_gives_what_its_suite_expects(shared: Path, device: hal.Device, file: str) -> None:
    wrong = [
        f"{example['test']}, {way}: {done.why}"
        for number, example in enumerate(examples.load(FOLDER / file))
        for way in ("plain", FURTHER[number % len(FURTHER)])
        if not (done := examples.outcome(device, example, way)).passed
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_all_examples_are_there(shared: Path) -> None:
    assert sum(len(examples.load(FOLDER / file)) for file in FILES) == COUNT
