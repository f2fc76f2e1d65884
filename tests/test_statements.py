"""Every statement of the texts names rules and tests that exist, or says why it has none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.statements.table import TEXTS, Text

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
BY_TEXT = pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.name)


@pytest.fixture(scope="module")
def collected() -> dict[str, set[str]]:
    """The test functions that pytest finds, by their node below tests/, each with the first words of its cases' ids."""
    files = {test.partition("::")[0] for text in TEXTS for row in text.statements() for test in row.tests}
    missing = [file for file in files if not (ROOT / "tests" / f"{file}.py").is_file()]
    assert not missing
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(f"tests/{file}.py" for file in sorted(files))],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
        env=os.environ | {"NPUSIM_NIGHT": "1"},  # statements name cases that by day are not all tried
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    nodes: dict[str, set[str]] = defaultdict(set)
    for line in done.stdout.splitlines():
        if match := re.match(r"tests/(.+)\.py::(\w+)(?:\[(.*)\])?$", line):
            nodes[f"{match[1]}::{match[2]}"].add(re.split(r"[ -]", match[3] or "", maxsplit=1)[0])
    return nodes


@BY_TEXT
def test_every_statement_has_a_rule_and_a_test_or_a_reason(text: Text) -> None:
    rows = list(text.statements())
    assert rows
    for row in rows:
        where = f"{text.name}.csv, line {row.line}"
        assert row.place, where
        assert row.statement, where
        assert row.reason or (row.rules and row.tests), f"{where}: neither rule and test nor a reason"


@BY_TEXT
def test_rules_exist(text: Text) -> None:
    unknown = [
        f"{text.name}.csv, line {row.line}: no rule {rule!r}"
        for row in text.statements()
        for rule in row.rules
        if not text.has_rule(rule)
    ]
    assert not unknown


@BY_TEXT
def test_tests_exist(text: Text, collected: dict[str, set[str]]) -> None:
    unknown = []
    for row in text.statements():
        for test in row.tests:
            name, _, case = test.rstrip("]").partition("[")
            if name not in collected or (case and case not in collected[name]):
                unknown.append(f"{text.name}.csv, line {row.line}: no test {test!r}")
    assert not unknown


def test_no_statement_stands_twice() -> None:
    for text in TEXTS:
        rows = [(row.place, row.statement) for row in text.statements()]
        assert len(rows) == len(set(rows)), text.name


def test_a_rule_or_test_that_does_not_exist_is_found(collected: dict[str, set[str]]) -> None:
    text = next(text for text in TEXTS if text.name == "nnef")
    assert text.has_rule("L1")
    assert text.has_rule("hal.device:Device.prepareModel")
    assert not text.has_rule("L99")
    assert not text.has_rule("hal.device:Device.nothing")
    rules = "npusim/frontends/nnef/test_rules::test_the_broken_rule_is_named_with_its_place"
    assert {"L1", "E8"} <= collected[rules]
    assert "L99" not in collected[rules]
    assert "npusim/frontends/nnef/test_rules::test_nothing" not in collected
