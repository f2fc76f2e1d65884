"""The table of units: everything that results, numbers and reports need to know of a kind of unit, once.

A further kind is one entry here (and a member of `Unit`), a section of the hardware, rows of instructions whose `home`
it is, and prices for the actions that they count. What follows from the entry: its queue and its completions in the
machine, its wait in the instruction word, its busy cycles, its lower bound, the cycles that others lose while it works,
who causes which energy, and its tracks, names and colours in reports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from math import ceil
from typing import NamedTuple

from npusim.isa.base.cause import Cause
from npusim.isa.base.elements import Workload
from npusim.isa.hardware.hardware import Hardware


class Component(NamedTuple):
    """Where energy is spent: its name in actions and results, its name and colour in reports."""

    name: str
    label: str
    colour: str


@dataclass(frozen=True, slots=True)
class Resource:
    """What can set a lower bound: work for which there is so much room in a cycle.

    short, label, limit: its names in a table, in a sentence, and as what sets a bound.
    per_cycle: work that fits into one cycle: whole for units, a rate for a port.
    asked:     the work that a layer of the source model asks for; the bound counts no more of what its instructions do.
               None: all that they do.
    levers:    parameters of the hardware that move the bound.
    gain:      the negative loss: it works for a layer in cycles of others.
    """

    name: str
    short: str
    label: str
    limit: str
    per_cycle: Callable[[Hardware], float] = lambda hardware: 1
    asked: Callable[[Workload], int] | None = None
    levers: tuple[str, ...] = ()
    gain: str = "overlapped"


@dataclass(frozen=True, slots=True)
class Kind:
    """One entry: a unit, or several alike.

    name:       in results and files, such as `Layer.unit`.
    label, short, colour: in reports.
    section:    its table in a hardware file; empty if it has none.
    components: where the actions of its instructions spend energy.
    resource:   what its instructions demand work of (`Instruction.demand`); None: of nothing that sets a bound.
    works:      the cause that stands for its cycles where something else sets the bound and rests.
    advances:   its instructions advance their layer, whatever the layer; those of others do only where they are the
                layer's own work (`Layer.unit`), not where they bring operands or wait.
    on_chip:    part of the NPU.
    hindered:   of its cycles where something else sets the bound, what its own causes take is told first, and only the
                rest is lost to `works`.
    """

    name: str
    label: str
    short: str
    colour: str
    section: str
    components: tuple[Component, ...]
    resource: Resource | None
    works: Cause | None
    advances: bool = True
    on_chip: bool = True
    hindered: bool = False


def computing(
    name: str, label: str, colour: str, per_cycle: Callable[[Hardware], float], levers: tuple[str, ...]
) -> Kind:
    """A kind of unit on the chip that computes, with a section, a component and a resource of its name."""
    return Kind(
        name,
        label,
        label,
        colour,
        section=name,
        components=(Component(name, label, colour),),
        resource=Resource(name, label, f"the {label}", f"the work of the {label}", per_cycle, levers=levers),
        works=Cause(name, label, colour, f"the {label} computes, likewise", levers),
    )


INTERCONNECT = Component("interconnect", "interconnect", "#8a6a12")
DRAM = Component("dram", "DRAM", "#c2561a")
CONTROL = Component("control", "instruction control", "#c4c9ce")

_DMA = Kind(
    "dma",
    "DMA",
    "DMA",
    "#c2561a",
    "dma",
    (INTERCONNECT, DRAM),
    Resource(
        "dram",
        "DRAM",
        "DRAM bandwidth",
        "DRAM bandwidth",
        lambda hardware: hardware.dram_bytes_per_cycle,
        levers=("dram.bandwidth_gb_per_s",),
        gain="prefetched",
    ),
    Cause(
        "moves",
        "data moves",
        "#6d8a2f",
        "nothing computes: an operator that moves bytes copies them, or bytes move inside the scratchpad",
        ("dma.port_bytes_per_cycle", "dma.channels"),
    ),
    advances=False,
)
_MAC = Kind(
    "mac",
    "MAC array",
    "MAC",
    "#1f6fb2",
    "mac_array",
    (
        Component("mac_array", "MAC array", "#1f6fb2"),
        Component("accumulator", "accumulators", "#5a9bd5"),
        Component("output_stage", "output stage", "#a5c8ea"),
    ),
    Resource(
        "mac",
        "MAC",
        "the MAC array",
        "the multipliers of the MAC array",
        lambda hardware: hardware.macs_per_cycle,
        lambda workload: workload.macs,
        ("mac_array.rows", "mac_array.columns", "clock_mhz"),
    ),
    Cause(
        "mac",
        "MAC array",
        "#2d4f75",
        "the MAC array computes while the limiting resource is idle or works for another layer",
        ("mac_array.rows", "mac_array.columns"),
    ),
    hindered=True,
)
_VECTOR = Kind(
    "vector",
    "vector unit",
    "vector",
    "#0b8a6b",
    "vector",
    (Component("vector", "vector unit", "#0b8a6b"),),
    Resource(
        "vector",
        "vector",
        "the vector unit",
        "the lanes of the vector unit",
        lambda hardware: hardware.vector.lanes,
        levers=("vector.lanes",),
    ),
    Cause("vector", "vector unit", "#0b8a6b", "the vector unit computes, likewise", ("vector.lanes",)),
)
_HOST = Kind(
    "host",
    "host",
    "host",
    "#9a4f92",
    "host",
    (Component("host", "host", "#9a4f92"),),
    Resource(
        "host",
        "host",
        "the host",
        "the operators on the host",
        levers=("host.core", "host.clock_mhz", "host.threads"),
    ),
    Cause("host", "host", "#9a4f92", "the host computes, likewise", ("host.core", "host.clock_mhz")),
    on_chip=False,
)
_FRONT_END = Kind(
    "front_end", "front end", "front end", "#7b858e", "front_end", (CONTROL,), None, None, advances=False
)


class Unit(IntEnum):
    """The units that execute instructions, each its own in program order. A lower number goes first where two ask for
    the same in one cycle; the front end, for which nobody can wait, is the last.
    """

    kind: Kind

    def __new__(cls, kind: Kind) -> Unit:
        """A member is its position, and knows its kind."""
        unit = int.__new__(cls, len(cls.__members__))
        unit._value_ = len(cls.__members__)
        unit.kind = kind
        return unit

    DMA0 = _DMA
    DMA1 = _DMA
    DMA2 = _DMA
    DMA3 = _DMA
    MAC = _MAC
    VECTOR = _VECTOR
    HOST = _HOST
    FRONT_END = _FRONT_END


PRODUCERS = tuple(unit for unit in Unit if unit is not Unit.FRONT_END)
"""Units whose completed instructions can be waited for; each stands at the position that is its number."""

UNIT_NAMES = {unit: unit.name.lower() for unit in Unit}

KINDS: tuple[Kind, ...] = tuple(
    sorted(
        {unit.kind.name: unit.kind for unit in Unit}.values(),
        key=lambda kind: (kind is _FRONT_END, not kind.on_chip, not kind.advances),
    )
)
"""As reports list them: what computes on the chip, what moves bytes, the host, the front end."""

WORKERS = tuple(kind for kind in KINDS if kind is not _FRONT_END)
"""The kinds that can do the work of a layer."""

COMPUTING = tuple(kind for kind in KINDS if kind.advances)

ADVANCING = tuple(unit for unit in Unit if unit.kind.advances)
"""Units whose instructions advance their layer."""

MOVING = tuple(unit for unit in PRODUCERS if not unit.kind.advances)
"""Units that bring operands and take results away."""

RESOURCES: dict[str, Resource] = {
    kind.resource.name: kind.resource for kind in KINDS if kind.resource is not None
}
"""What can set a lower bound."""

PORT = "dram"
"""The resource that no unit is: transfers of all units pass it, and what they ask of it is counted there."""

COMPONENTS: tuple[Component, ...] = (
    *(part for kind in COMPUTING if kind.on_chip for part in kind.components),
    Component("scratchpad", "scratchpad", "#d9a514"),
    INTERCONNECT,
    CONTROL,
    Component("system", "clock and system", "#7b858e"),
    DRAM,
    *(part for kind in COMPUTING if not kind.on_chip for part in kind.components),
)
"""What energy is spent in, from the multipliers outwards."""


def units_of(kind: Kind) -> tuple[Unit, ...]:
    """The units of a kind."""
    return tuple(unit for unit in Unit if unit.kind is kind)


def label_of(unit: Unit) -> str:
    """A unit in reports; one of several has its number."""
    alike = units_of(unit.kind)
    return f"{unit.kind.label} channel {alike.index(unit)}" if len(alike) > 1 else unit.kind.label


def cycles_of(work: int, per_cycle: float) -> int:
    """Cycles that work needs at least, rounded up."""
    return -(-work // per_cycle) if isinstance(per_cycle, int) else ceil(work / per_cycle)
