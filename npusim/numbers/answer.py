"""The answer of a run: what its time goes to, and the changes that were simulated because of it.

Reason, bound and levers come from here alone, for the terminal, the page, the JSON and Python, so they cannot
contradict each other:

    reason   the unit or memory that works longest in the simulated run, or the cause for which nothing computes
    bound    "memory", "compute" or "host", said only where a simulated change that relieves it gains something
    levers   up to three changes, each compiled and timed on this model, best first, one for each thing they relieve

The lower bound is that of an ideal machine and a number of its own (`npusim.numbers.bounds`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from npusim.isa.hardware.units import COMPUTING
from npusim.numbers.causes import ENDS, STAGES, STALLS

if TYPE_CHECKING:
    from npusim.numbers.layers import LayerResult
    from npusim.numbers.losses import Account

MOST_LEVERS = 3
LEAST_GAIN = 0.01
"""A change that takes off less of the latency is no lever: it would round to nothing in most tables."""

LEAST_NAMED = 0.1
"""A layer with less of what a reason is about does not dominate it."""

CLOCK = "clock"
"""What a faster clock relieves: every unit on the chip, so it tells nothing of the bound."""

HOST = "host"
COMPUTE, MEMORY = "compute", "memory"
_ON_CHIP = {kind.name for kind in COMPUTING if kind.on_chip} | {"dma"}
WAITS = {cause.name: cause for cause in (*STALLS, *ENDS, STAGES)}
"""Causes for which nothing computes, by name."""


@dataclass(frozen=True, slots=True)
class Lever:
    """A change, and what the model takes with it: compiled for the changed machine and timed.

    relieves:   the unit, memory or cause that it is about; `CLOCK` for all units on the chip.
    set:        keys and values of the hardware as `--set` takes them; empty where it is a command.
    do:         the command that makes the change, where no key does.
    cycles, latency_ms, energy_uj, area_mm2: of the changed run, the area that of the NPU.
    latency_percent, energy_percent, area_mm2_more: the changes of them; negative is less.
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
        """What tells levers apart that relieve the same: the table of the first key, or "do" for a command."""
        return next((path.partition(".")[0] for path in self.set), "do")

    def to_dict(self) -> dict[str, Any]:
        """The lever in the JSON: with `set` or with `do`."""
        plain = asdict(self) | {"set": dict(self.set)}
        del plain["do" if self.set else "set"]
        return plain


@dataclass(frozen=True, slots=True)
class Tried:
    """The changes that were simulated for an answer.

    levers: all of them, also those that gain nothing.
    note:   why there are none, a sentence without its full stop; empty where some were tried.
    """

    levers: tuple[Lever, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """What most of the time goes to.

    by:    a unit ("mac", "vector", "host", "dma"), a memory by its name, or a cause in `WAITS`.
    share: of the cycles in which the unit or memory works, or that are lost to the cause; 0 to 1.
    layer: the number of the layer that has most of them, None where no layer dominates.
    layer_share: its part of them.
    """

    by: str
    share: float
    layer: int | None
    layer_share: float


@dataclass(frozen=True, slots=True)
class Answer:
    """How a run's report ends.

    bound:  "memory", "compute", "host"; empty where no simulated change says so.
    busy:   shares of the cycles in which each unit and each memory's port works, 0 to 1.
    levers: the best first; None where none were asked for.
    tried:  changes that were simulated.
    note:   why there is no lever, a sentence without its full stop; empty where there are some.
    """

    reason: Reason
    bound: str
    busy: Mapping[str, float] = field(default_factory=dict)
    levers: tuple[Lever, ...] | None = None
    tried: int = 0
    note: str = ""

    def to_dict(self, layers: tuple[str, ...]) -> dict[str, Any]:
        """The `answer` of the JSON; `layers` are the names of the layers."""
        layer = self.reason.layer
        reason = asdict(self.reason) | {"layer": None if layer is None else layers[layer]}
        levers = None if self.levers is None else [each.to_dict() for each in self.levers]
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
    """The answer of a run; None for one without cycles.

    account: of the network; layers: of the model, in order; tried: None where no changes were asked for.
    several_programs: for devices, which no hardware key lets work at the same time.
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
    """The changes that gain most, one for each thing that they relieve; less area before more, if they gain alike."""
    found: dict[tuple[str, str], Lever] = {}
    for lever in sorted(tried.levers, key=lambda each: (each.latency_ms, each.area_mm2, len(each.set))):
        if lever.latency_percent <= -100 * LEAST_GAIN:
            found.setdefault((lever.relieves, lever.kind), lever)
    return tuple(found.values())[:MOST_LEVERS]


def _note(tried: Tried) -> str:
    return tried.note or f"no change takes off {LEAST_GAIN * 100:g} % or more; {len(tried.levers)} simulated"


def _bound(by: str) -> str:
    if by in WAITS:
        return ""
    return HOST if by == HOST else COMPUTE if by in _ON_CHIP else MEMORY


def _reason(layers: Sequence[LayerResult], by: str, cycles: int, all_cycles: int) -> Reason:
    each = [
        max(layer.lost_cycles.get(by, 0), 0) if by in WAITS else layer.busy_cycles.get(by, 0)
        for layer in layers
    ]
    total = sum(each)
    at = max(range(len(each)), key=lambda layer: each[layer], default=0)
    share = each[at] / total if total else 0.0
    named = len(each) > 1 and share >= LEAST_NAMED
    return Reason(by, cycles / all_cycles, at if named else None, share if named else 0.0)
