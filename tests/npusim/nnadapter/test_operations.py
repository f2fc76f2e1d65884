"""The operation cases of ../shared/nnadapter, and that all of them are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from npusim.frontends.nnadapter import operation_table
from npusim.frontends.nnadapter.nnadapter_codes import OperationType
from tests.conftest import shared_folder
from tests.npusim.nnadapter import operations

FOLDER = shared_folder()
CASES = operations.cases(FOLDER) if FOLDER is not None else {}


@pytest.mark.cases(30)
@pytest.mark.parametrize("name", list(CASES) or ["absent"])
def test_every_case_gives_what_its_oracle_gave(shared: Path, name: str) -> None:
    assert {way: operations.fault(CASES[name], way) for way in operations.WAYS} == dict.fromkeys(
        operations.WAYS, ""
    )


def test_all_cases_and_operations_are_there(shared: Path) -> None:
    assert len(CASES) == operations.COUNT
    assert {case.operation for case in CASES.values()} == {kind.name for kind in OperationType}


def test_every_operation_has_a_row() -> None:
    assert [row.type for row in operation_table.OPERATIONS] == list(OperationType)
