"""Words and colours of reports: one name and one colour per unit, component and cause, everywhere.

Colours are told apart with the common kinds of colour blindness (the hues are those of Okabe and Ito, 2008, in
steps of lightness) and are never alone: what they stand for is written beside them.
"""

from __future__ import annotations

from collections.abc import Mapping

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import (
    COMPONENTS,
    COMPUTING,
    KINDS,
    PORT,
    RESOURCES,
    WORKERS,
    Unit,
    label_of,
    units_of,
)
from npusim.numbers.bounds import LowerBound
from npusim.numbers.causes import CAUSES

UNIT_NAMES: Mapping[str, str] = {kind.name: kind.short for kind in WORKERS} | {"none": "-"}
"""What does the work of a layer (`Layer.unit`), in few letters."""

UNIT_WORDS: Mapping[str, str] = {kind.name: kind.label for kind in WORKERS} | {"none": "nothing to do"}
"""The same in words."""

BOUND_NAMES: Mapping[str, str] = {**UNIT_NAMES, **{name: each.short for name, each in RESOURCES.items()}}
"""Short labels of `LayerResult.bound_by`; a further memory goes by its own name."""


def bound_name(name: str) -> str:
    """Return the short label of what a layer is bound by."""
    return BOUND_NAMES.get(name, name)


def bound_style(name: str) -> str:
    """Return the key of its colour in `RESOURCE_COLOURS`; all memories share that of the DRAM."""
    return name if name in RESOURCE_COLOURS else PORT


LIMITS: Mapping[str, str] = {name: each.limit for name, each in RESOURCES.items()} | {"none": "nothing"}
"""What sets a lower bound, in a sentence."""

LIMIT_NAMES: Mapping[str, str] = {name: each.label for name, each in RESOURCES.items()} | {"none": "no work"}
"""`LIMITS` in few words."""

_TRACKS = (*(kind for kind in KINDS if kind not in WORKERS), *COMPUTING, *WORKERS)
TRACK_NAMES: Mapping[Unit, str] = {unit: label_of(unit) for kind in _TRACKS for unit in units_of(kind)}
"""Tracks of a timeline from top to bottom."""

COMPONENT_NAMES: Mapping[str, str] = {each.name: each.label for each in COMPONENTS}
"""Components that energy is spent in, from the multipliers outwards."""

CAUSE_NAMES: Mapping[str, str] = {name: cause.label for name, cause in CAUSES.items()}
"""`npusim.numbers.causes.CAUSES` in few letters."""


DATAFLOW_NAMES: Mapping[str, str] = {
    "weight_stationary": "WS", "output_stationary": "OS", "depthwise": "DW",
}  # fmt: skip
"""Dataflows of the MAC array in few letters."""


def component_names(hardware: Hardware) -> dict[str, str]:
    """Components of a machine: those of all, and its further memories by their names."""
    return {**COMPONENT_NAMES, **{memory.name: memory.name for memory in hardware.memory}}


def component_style(name: str) -> str:
    """The component whose colour a component has: a further memory that of the DRAM."""
    return name if name in COMPONENT_COLOURS else "dram"


def limit_of(bound: LowerBound, resource: str = "") -> str:
    """What sets a bound, or another resource, in few words; a port other than the DRAM's by its memory."""
    name = resource or bound.bound_by
    return f"{bound.port} bandwidth" if name == PORT != bound.port else LIMIT_NAMES[name]


def dataflow_name(dataflow: str) -> str:
    """The dataflow of a layer (`LayerResult.dataflow`) in few letters."""
    return "+".join(DATAFLOW_NAMES.get(each, each) for each in dataflow.split("+"))


def main_name(name: str) -> str:
    """The first of the names that a converter has joined with ";" when it fused operators: the last operator's."""
    return name.split(";")[0] or name


RESOURCE_COLOURS: Mapping[str, str] = {
    name: kind.colour
    for kind in KINDS
    for name in (kind.resource.name if kind.resource else kind.name, kind.name)
} | {"none": "#9aa3ab"}
"""Units and resources; DMA channels and the DRAM they serve share one."""

COMPONENT_COLOURS: Mapping[str, str] = {each.name: each.colour for each in COMPONENTS}

CAUSE_COLOURS: Mapping[str, str] = {name: cause.colour for name, cause in CAUSES.items()}

REGION_COLOURS: Mapping[str, str] = {
    "constants": "#c2561a",
    "code": "#7b858e",
    "input": "#0b8a6b",
    "output": "#9a4f92",
    "maps": "#d9a514",
}
"""Regions of the DRAM by kind."""
