"""The check of a model: it returns checked values, or the first rule that the model breaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npusim.frontends.nn_hal.checked import CheckedGraph, CheckedModel
from npusim.frontends.nn_hal.cleaning import FIELD_RULES, clean_model
from npusim.frontends.nn_hal.enumerations import ErrorStatus
from npusim.frontends.nn_hal.fault import Fault, Refused, Rule
from npusim.frontends.nn_hal.field_values import Broken
from npusim.frontends.nn_hal.operations.graph_parts import GraphParts
from npusim.frontends.nn_hal.operations.named_arguments import Known, Needs
from npusim.frontends.nn_hal.request import REQUEST_RULES
from npusim.frontends.nn_hal.rules import graph_rules, operand_rules


def operations(model: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """The inputs and outputs of an operation are those of one of its signatures, only optional ones are omitted, and
    parameters, sizes, scales and zero points are as its text says."""
    parts = GraphParts(graph.place or "main", Known(graph), model.version, model.referenced)
    for operation in graph.operations:
        try:
            parts.add(operation)
            parts.open_rows(operation)
        except Refused as refused:
            if refused.fault.status is ErrorStatus.INVALID_ARGUMENT:
                yield refused.fault
                return
        except Needs:  # the request will say what is missing; then it is checked again
            continue


OPERATIONS = (Rule(("O3", "O4", "O5", "O6", "O7", "L6"), operations),)
"""Rules of the table of operations. They are checked last, for indexes, lifetimes and constants that are sound."""

FORM: tuple[Rule, ...] = (
    *operand_rules.RULES,
    *graph_rules.REFERENCES,
    *graph_rules.RULES,
    *graph_rules.CONTROL_FLOW,
)
"""The rules of a model that do not depend on what its operations mean."""

RULES: tuple[Rule, ...] = (*FORM, *OPERATIONS)
"""The rules of a model, in the order in which they are checked."""


def texts() -> Iterator[tuple[str, str]]:
    """Yield names and text of every rule, those of fields first, those of requests last."""
    yield from FIELD_RULES.items()
    yield from ((" ".join(rule.names), " ".join((rule.check.__doc__ or "").split())) for rule in RULES)
    yield from REQUEST_RULES.items()


def check_model(model: object, rules: Sequence[Rule] = RULES) -> CheckedModel | Fault:
    """Return the model as checked values if it keeps these rules, else the first fault.

    Never raises, whatever the fields hold.
    """
    try:
        checked = clean_model(model)
    except Broken as broken:
        return broken.fault
    return next(faults(checked, rules), checked)


def faults(model: CheckedModel, rules: Sequence[Rule] = RULES) -> Iterator[Fault]:
    """Yield the faults of a model for the first rule that it breaks; all graphs are checked for one rule first."""
    for rule in rules:
        broken = [fault for graph in model.graphs for fault in rule.faults(model, graph)]
        if broken:
            yield from broken
            return
