"""One word per thing: what reports call a cause, a component or a unit contains the words of its key in the JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from npusim.reports.words.names import CAUSE_NAMES, COMPONENT_NAMES, LIMIT_NAMES, UNIT_WORDS


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


@pytest.mark.parametrize("names", [CAUSE_NAMES, COMPONENT_NAMES, LIMIT_NAMES, UNIT_WORDS])
def test_reports_use_the_words_of_the_json(names: Mapping[str, str]) -> None:
    missing = {
        key: label
        for key, label in names.items()
        for word in _words(key)
        if key != "none" and not any(said.startswith(word) for said in _words(label))
    }
    assert not missing, "a reader of the page does not find these keys in the JSON"


def test_every_cause_has_its_own_label() -> None:
    assert len(set(CAUSE_NAMES.values())) == len(CAUSE_NAMES)
