"""The table of unit types, with everything that results, cost models and reports need to know about each.

A new unit type needs one entry here (and a member of `Unit`), a section of the hardware, instructions whose `home` it
is, and energy prices for the actions that these count. The entry determines the unit's queue and completions in the
machine, its wait field in the instruction word, its busy cycles, its lower bound, its cause in the cycle breakdown, its
share of the energy, and its tracks, names and colours in reports.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from math import ceil
from typing import NamedTuple

from npusim.isa.base.cause import Cause
from npusim.isa.base.elements import Workload
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.hardware import Hardware


class Component(NamedTuple):
    """A component that consumes energy: its name in actions and results, its label and colour in reports."""

    name: str
    label: str
    colour: str


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource with a limited amount of work per cycle, which can set a lower bound on cycles.

    short, label, limit: its names in a table, in a sentence, and as the limit that sets a lower bound.
    per_cycle: work that it does in one cycle, an integer for units and a rate for a port.
    asked:     the work that a layer of the source model needs, which limits the work of its instructions that the lower
               bound counts. None: the bound counts all work of the instructions.
    levers:    hardware parameters that change the lower bound.
    gain:      name of the negative entry of the cycle breakdown, for work for a layer in cycles attributed to others.
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
    """A unit type: one unit, or several equal ones.

    name:       name in results and files, such as `Layer.unit`.
    label, short, colour: names and colour in reports.
    section:    its table in a hardware file; empty if it has none.
    components: components that consume the energy of its instructions' actions.
    resource:   resource whose work its instructions demand (`Instruction.demand`); None if they demand none.
    works:      cause of lost cycles in which it computes while the resource that sets the lower bound is idle.
    advances:   True if all of its instructions advance their layer. Those of other units do only if they are the
                layer's own work (`Layer.unit`), not if they load operands or wait.
    on_chip:    whether it is part of the NPU.
    hindered:   if another resource sets the lower bound, its cycles are first attributed to its own causes, and only
                the rest to `works`.
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
    """Return a unit type on the chip that computes; its section, component and resource have its name."""
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
    """The units that execute instructions, each in program order.

    If two units request the same resource in one cycle, the lower number is served first. The front end is last,
    because no instruction can wait for it.
    """

    kind: Kind

    def __new__(cls, kind: Kind) -> Unit:
        """Create a member whose value is its position."""
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
"""Units whose completed instructions can be waited for; the index of a unit is its number."""

UNIT_NAMES = {unit: unit.name.lower() for unit in Unit}

KINDS: tuple[Kind, ...] = tuple(
    sorted(
        {unit.kind.name: unit.kind for unit in Unit}.values(),
        key=lambda kind: (kind is _FRONT_END, not kind.on_chip, not kind.advances),
    )
)
"""The unit types in the order of reports: computing units on the chip, DMA, the host, the front end."""

WORKERS = tuple(kind for kind in KINDS if kind is not _FRONT_END)
"""The unit types that can do the work of a layer."""

COMPUTING = tuple(kind for kind in KINDS if kind.advances)

ADVANCING = tuple(unit for unit in Unit if unit.kind.advances)
"""Units whose instructions advance their layer."""

MOVING = tuple(unit for unit in PRODUCERS if not unit.kind.advances)
"""Units that load operands and store results."""

RESOURCES: dict[str, Resource] = {
    kind.resource.name: kind.resource for kind in KINDS if kind.resource is not None
}
"""The resources that can set a lower bound, by name."""

PORT = "dram"
"""The resource that is not a unit: the DRAM port, which counts the transfers of all units."""

COMPONENTS: tuple[Component, ...] = (
    *(part for kind in COMPUTING if kind.on_chip for part in kind.components),
    Component("scratchpad", "scratchpad", "#d9a514"),
    INTERCONNECT,
    CONTROL,
    Component("system", "clock and system", "#7b858e"),
    DRAM,
    *(part for kind in COMPUTING if not kind.on_chip for part in kind.components),
)
"""The components that consume energy, from the multipliers outwards."""


def units_of(kind: Kind) -> tuple[Unit, ...]:
    """Return the units of a type."""
    return tuple(unit for unit in Unit if unit.kind is kind)


def label_of(unit: Unit) -> str:
    """Return the label of a unit in reports, with its channel number if there are several."""
    alike = units_of(unit.kind)
    return f"{unit.kind.label} channel {alike.index(unit)}" if len(alike) > 1 else unit.kind.label


def cycles_of(work: int, per_cycle: float) -> int:
    """Return the minimum cycles of an amount of work, rounded up."""
    return -(-work // per_cycle) if isinstance(per_cycle, int) else ceil(work / per_cycle)
