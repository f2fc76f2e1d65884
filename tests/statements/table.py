"""The statements of the five texts that npusim implements: for each what we keep of it, the rule, and the test.

One CSV file per text, a row per statement, in five columns:

place:     section or identifier.
statement: our paraphrase.
rule:      what enforces or implements it: names of the text's own rule table (`names_of`), or places in the code as
           "package.module:object" below `npusim`. Several are separated by blanks.
test:      the tests that would fail without it, below tests/: "path/test_file::test_name", with "[WORD]" behind it
           where only the cases of a parametrized test count whose id begins with WORD. Several are separated by blanks.
reason:    why there is no test, or no rule: only for statements that no program can break.

docs/generate.py writes docs/statements.md from it, tests/test_statements.py checks every row.
"""

from __future__ import annotations

import csv
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Statement:
    """A row of a text's file, with the line that it stands in."""

    line: int
    place: str
    statement: str
    rules: tuple[str, ...]
    tests: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Text:
    """A text: the name of its file of statements, its title, and the names of the rules that it may give."""

    name: str
    title: str
    names_of: Callable[[], set[str]]

    def statements(self) -> Iterator[Statement]:
        with (HERE / f"{self.name}.csv").open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            for row in reader:
                assert None not in row, f"{self.name}.csv, line {reader.line_num}: too many cells"
                yield Statement(
                    reader.line_num,
                    row["place"],
                    row["statement"],
                    tuple(row["rule"].split()),
                    tuple(row["test"].split()),
                    row["reason"] or "",
                )

    def has_rule(self, name: str) -> bool:
        """Whether a rule exists: in the table of the text, or in the code."""
        if name in self.names_of():
            return True
        try:
            pkgutil.resolve_name(f"npusim.{name}")
        except (ImportError, AttributeError, ValueError):
            return False
        return True


def _hal() -> set[str]:
    from npusim.frontends.nn_hal.model_check import texts

    return {name for names, _ in texts() for name in names.split()}


def _operations() -> set[str]:
    from npusim.frontends.nn_hal.operations.operation_table import OPERATIONS

    return {row.type.name for row in OPERATIONS} | _hal()


def _nnef() -> set[str]:
    from npusim.frontends.nnef.nnef_rules import RULES

    return set(RULES)


def _nnadapter() -> set[str]:
    from npusim.frontends.nnadapter.operation_table import OPERATIONS
    from npusim.nnadapter.c.c_functions import ROWS

    return {row.name for row in ROWS} | {row.type.name for row in OPERATIONS}


TEXTS = (
    Text("hal_types", "NN HAL 1.0, types.hal", _hal),
    Text("hal_types_earlier", "NN HAL 1.0, types.hal, an earlier revision: where it differs", _hal),
    Text("nnapi_operations", "NNAPI operation codes", _operations),
    Text("nnef", "NNEF 1.0 (provisional), chapter 3", _nnef),
    Text("nnadapter", "NNAdapter", _nnadapter),
)
