"""The operation cases of ../shared/nnadapter, and that all of them are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from npusim.frontends.nnadapter.codes import OperationType
from tests.conftest import shared_folder
from tests.npusim.nnadapter import operations

FOLDER = shared_folder()
CASES = operations.cases(FOLDER) if FOLDER is not None else {}
NAMES = [name for name, case in CASES.items() if not operations.missing(case)]


@pytest.mark.parametrize("name", NAMES or ["absent"])
def test_every_case_gives_what_its_oracle_gave(shared: Path, name: str) -> None:
    for way in operations.WAYS:
        assert operations.fault(CASES[name], way) == ""


def test_all_cases_and_operations_are_there(shared: Path) -> None:
    assert len(CASES) == operations.COUNT
    assert {case.operation for case in CASES.values()} == {kind.name for kind in OperationType}
