"""The answer of a run: its bottleneck, and the hardware changes that were simulated to relieve it.

Reason, bound and levers are computed only here, for the terminal, the page, the JSON and Python, so they cannot
contradict each other:

    reason   the bottleneck: the unit or memory that a simulated change relieves most; without such a change, the
             longest busy time or the largest stall cause
    bound    "memory", "compute" or "host"; empty unless a simulated change that relieves the bottleneck gains time
    levers   up to three changes, each compiled and timed on this model, best first; several of them may relieve the
             same unit if they change keys of different tables

The lower bound is a separate number: the cycles of an ideal machine (`npusim.numbers.bounds`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.units import COMPUTING
from npusim.numbers.causes import ENDS, STAGES, STALLS

if TYPE_CHECKING:
    from npusim.numbers.layers import LayerResult
    from npusim.numbers.losses import Account

MOST_LEVERS = 3
LEAST_GAIN = 0.01
"""Least share of the latency that a lever saves: less would round to nothing in most tables."""

LEAST_NAMED = 0.1
"""Least share of the bottleneck's cycles with which a layer is named as the dominant one."""

CLOCK = "clock"
"""What a faster clock relieves: every unit on the chip at once, so its gain does not identify a bottleneck."""

HOST = "host"
COMPUTE, MEMORY = "compute", "memory"
_ON_CHIP = {kind.name for kind in COMPUTING if kind.on_chip} | {"dma"}
WAITS = {cause.name: cause for cause in (*STALLS, *ENDS, STAGES)}
"""Causes of lost cycles in which nothing computes, by name."""


@dataclass(frozen=True, slots=True)
class Lever:
    """A hardware change, with the results of the model after compiling for and timing on the changed machine.

    relieves:   the unit, memory or stall cause that it relieves; `CLOCK` for all units on the chip.
    set:        hardware keys and values as `--set` takes them; empty if the change is a command.
    do:         the command that makes the change; empty if keys do.
    cycles, latency_ms, energy_uj, area_mm2: results of the changed run; the area is that of the NPU.
    latency_percent, energy_percent, area_mm2_more: differences from the original run; negative is less.
    """

    relieves: str
    set: Mapping[str, Any]
    do: str
    cycles: int
    latency_ms: float
    energy_uj: float
    area_mm2: float
    latency_percent: float
    energy_percent: float
    area_mm2_more: float

    @property
    def kind(self) -> str:
        """The table of the first key, or "do" for a command; levers that relieve the same unit differ in it."""
        return next((path.partition(".")[0] for path in self.set), "do")

    def to_dict(self) -> dict[str, Any]:
        """Return the lever as in the JSON, either with `set` or with `do`."""
        plain = asdict(self) | {"set": dict(self.set)}
        del plain["do" if self.set else "set"]
        return plain


@dataclass(frozen=True, slots=True)
class Tried:
    """The changes that were simulated for an answer.

    levers: all changes, also those that gain nothing.
    note:   why none was simulated, a sentence without its full stop; else empty.
    """

    levers: tuple[Lever, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """The bottleneck of a run.

    by:    a unit ("mac", "vector", "host", "dma"), a memory by its name, or a stall cause in `WAITS`.
    share: share of the run's cycles in which the unit or memory is busy, or that are lost to the cause; 0 to 1.
    layer: index of the layer with most of these cycles; None if no layer dominates.
    layer_share: that layer's share of these cycles.
    """

    by: str
    share: float
    layer: int | None
    layer_share: float


@dataclass(frozen=True, slots=True)
class Answer:
    """Bottleneck and levers of a run, with which its report ends.

    bound:  "memory", "compute", "host"; empty if no simulated change confirms one.
    busy:   share of the cycles in which each unit and each memory's port is busy, 0 to 1.
    levers: best first; None if none were asked for.
    tried:  number of changes that were simulated.
    note:   why there is no lever, a sentence without its full stop; empty if there are some.
    """

    reason: Reason
    bound: str
    busy: Mapping[str, float] = field(default_factory=dict)
    levers: tuple[Lever, ...] | None = None
    tried: int = 0
    note: str = ""

    def to_dict(self, layers: tuple[str, ...]) -> dict[str, Any]:
        """Return the `answer` of the JSON; `layers` are the names of the layers."""
        layer = self.reason.layer
        reason = asdict(self.reason) | {"layer": None if layer is None else layers[layer]}
        levers = None if self.levers is None else [lever.to_dict() for lever in self.levers]
        return {
            "reason": reason,
            "bound": self.bound or None,
            "busy": dict(self.busy),
            "levers": levers,
            "tried": self.tried,
            "note": self.note,
        }


def answer(
    account: Account, layers: Sequence[LayerResult], tried: Tried | None, several_programs: bool = False
) -> Answer | None:
    """Return the answer of a run; None if it took no cycles.

    account: cycles of the network.
    layers:  results of the layers of the model, in order.
    tried:   simulated changes; None if none were asked for.
    several_programs: whether the run is one of several devices, whose hand-over no hardware key can speed up.
    """
    total = account.cycles
    if not total:
        return None
    waits = {name: lost for name, lost in account.lost.items() if name in WAITS}
    if several_programs:
        waits.pop(STAGES.name, None)
    times = {**account.busy, **waits}
    gains: dict[str, float] = {}
    for lever in tried.levers if tried else ():
        if lever.relieves in times:
            gains[lever.relieves] = max(gains.get(lever.relieves, 0.0), -lever.latency_percent / 100)
    relieved = max(gains, key=lambda name: gains[name], default="")
    confirmed = gains.get(relieved, 0.0) >= LEAST_GAIN
    by = relieved if confirmed else max(times, key=lambda name: times[name])
    levers = None if tried is None else best(tried)
    return Answer(
        reason=_reason(layers, by, times[by], total),
        bound=_bound(by) if confirmed else "",
        busy={name: cycles / total for name, cycles in account.busy.items()},
        levers=levers,
        tried=len(tried.levers) if tried else 0,
        note=_note(tried) if tried and not levers else "",
    )


def best(tried: Tried) -> tuple[Lever, ...]:
    """Return the changes that gain most, one per relieved unit and table of keys; of equal gains the smallest area."""
    chosen: dict[tuple[str, str], Lever] = {}
    for lever in sorted(
        tried.levers, key=lambda change: (change.latency_ms, change.area_mm2, len(change.set))
    ):
        if lever.latency_percent <= -100 * LEAST_GAIN:
            chosen.setdefault((lever.relieves, lever.kind), lever)
    return tuple(chosen.values())[:MOST_LEVERS]


def _note(tried: Tried) -> str:
    return tried.note or f"no change takes off {LEAST_GAIN * 100:g} % or more; {len(tried.levers)} simulated"


def _bound(by: str) -> str:
    if by in WAITS:
        return ""
    return HOST if by == HOST else COMPUTE if by in _ON_CHIP else MEMORY


def _reason(layers: Sequence[LayerResult], by: str, cycles: int, all_cycles: int) -> Reason:
    layer_cycles = [
        max(layer.lost_cycles.get(by, 0), 0) if by in WAITS else layer.busy_cycles.get(by, 0)
        for layer in layers
    ]
    total = sum(layer_cycles)
    at = max(range(len(layer_cycles)), key=lambda layer: layer_cycles[layer], default=0)
    share = layer_cycles[at] / total if total else 0.0
    named = len(layer_cycles) > 1 and share >= LEAST_NAMED
    return Reason(by, cycles / all_cycles, at if named else None, share if named else 0.0)
