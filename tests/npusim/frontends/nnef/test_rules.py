"""The rules of the language: a small document that breaks each, with the place and the words of the refusal."""

from __future__ import annotations

import pytest

from npusim.frontends.nnef.document import loads
from npusim.frontends.nnef.nnef_rules import RULES
from npusim.frontends.nnef.places import DocumentError
from tests.npusim.frontends.nnef.broken_expressions import CALLS, DIALECTS, EXPRESSIONS
from tests.npusim.frontends.nnef.broken_structure import DOCUMENT, FRAGMENTS, GRAPHS, LEXICAL

TABLE = (*LEXICAL, *DOCUMENT, *FRAGMENTS, *GRAPHS, *CALLS, *EXPRESSIONS, *DIALECTS)


@pytest.mark.parametrize(
    ("rule", "text", "place", "words"), TABLE, ids=[f"{row[0]} {row[3]}" for row in TABLE]
)
def test_the_broken_rule_is_named_with_its_place(rule: str, text: str, place: str, words: str) -> None:
    with pytest.raises(DocumentError) as raised:
        loads(text).network()
    message = str(raised.value)
    line, _, column = place.partition(":")
    assert message.startswith(f"graph.nnef, line {line}, column {column}: ")
    assert words in message
    assert message.endswith(f"(rule {rule}: {RULES[rule]})")
    assert len(message.splitlines()) == 1


def test_every_rule_of_the_graph_is_broken_by_a_document() -> None:
    elsewhere = {"N", *(rule for rule in RULES if rule[0] in "QV")}
    assert {row[0] for row in TABLE} == set(RULES) - elsewhere
