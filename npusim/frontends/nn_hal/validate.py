"""The check of a model: structs in, checked values or the first broken rule out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npusim.frontends.nn_hal.checked import CheckedModel
from npusim.frontends.nn_hal.cleaning import clean_model
from npusim.frontends.nn_hal.fault import Fault
from npusim.frontends.nn_hal.reading import Broken
from npusim.frontends.nn_hal.rules.rule import Rule
from npusim.frontends.nn_hal.rules.table import RULES


def check_model(model: object, rules: Sequence[Rule] = RULES) -> CheckedModel | Fault:
    """The model as plain values if it keeps all these rules, or one broken rule.

    Nothing that a field holds makes it raise.
    """
    try:
        checked = clean_model(model)
    except Broken as broken:
        return broken.fault
    return next(faults(checked, rules), checked)


def faults(model: CheckedModel, rules: Sequence[Rule] = RULES) -> Iterator[Fault]:
    """How a model whose fields hold values of their types breaks the first rule that it breaks; nothing if none."""
    for rule in rules:
        found = [fault for graph in model.graphs for fault in rule.faults(model, graph)]
        if found:
            yield from found
            return
