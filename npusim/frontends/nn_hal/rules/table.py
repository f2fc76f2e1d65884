"""All rules of models, in the order in which they are looked at, and the texts of all rules of the HAL."""

from __future__ import annotations

from collections.abc import Iterator

from npusim.frontends.nn_hal.cleaning import FIELD_RULES
from npusim.frontends.nn_hal.request import REQUEST_RULES
from npusim.frontends.nn_hal.rules import control, graphs, operands, operations
from npusim.frontends.nn_hal.rules.rule import Rule

FORM: tuple[Rule, ...] = (*operands.RULES, *control.REFERENCES, *graphs.RULES, *control.RULES)
"""The rules of a model that do not ask what its operations mean."""

RULES: tuple[Rule, ...] = (*FORM, *operations.RULES)
"""The rules of a model; all graphs keep one before anybody looks at the next."""


def texts() -> Iterator[tuple[str, str]]:
    """Names and text of every rule, those of fields first, those of requests last."""
    yield from FIELD_RULES.items()
    yield from ((" ".join(rule.names), " ".join((rule.check.__doc__ or "").split())) for rule in RULES)
    yield from REQUEST_RULES.items()
