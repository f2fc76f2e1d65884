"""Why a run takes as long as it does, and what would change it: how every answer ends.

The reason is whatever holds most of the time: the operators on the host, the resource that sets the lower bound, or
one cause of losses. It names the layer that dominates it, so that nobody takes a mean over a network for each of its
layers. The lever is what to change, with the time that the run would take at best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from npusim.isa.hardware.units import RESOURCES
from npusim.isa.program.executable import HANDOVER
from npusim.numbers.causes import CAUSES, STAGES
from npusim.reports.words import quantities as show
from npusim.reports.words.layer_names import short_names
from npusim.reports.words.names import CAUSE_NAMES, LIMIT_NAMES, limit_of

if TYPE_CHECKING:
    from npusim.isa.hardware.hardware import Hardware
    from npusim.numbers.layers import LayerResult
    from npusim.numbers.run import RunResult

NAME_WIDTH = 28
NARROW_NAME = 20
MOST_OPERATORS = 2
LEAST_NAMED = 0.1
"""A layer with less of what a reason is about does not dominate it."""

BOUND_LEVERS: Mapping[str, tuple[str, ...]] = {name: each.levers for name, each in RESOURCES.items()}
"""The parameters that move the lower bound, by what sets it."""

CAUSE_LEVERS: Mapping[str, tuple[str, ...]] = {
    name: cause.levers for name, cause in CAUSES.items() if cause.levers
}
"""The parameters that move a loss, by its cause; gains have none."""


class Reason(NamedTuple):
    """Why: the share of the cycles, 0 to 1, and what they are, to be read as "95 % of the time is ..."."""

    share: float
    words: str


class Lever(NamedTuple):
    """What to do: the milliseconds that the run would take at best, and how, to be read as "20 ms at best ..."."""

    best_ms: float
    words: str


class Ending(NamedTuple):
    """How an answer ends."""

    reason: Reason
    lever: Lever


def ending(result: RunResult) -> Ending | None:
    """The reason and the lever of a run; None for one without cycles."""
    total = int(result.cycles)
    if not total:
        return None
    bound = result.lower_bound
    on_host = sum(layer.cycles for layer in host_layers(result))
    losses = {cause: lost for cause, lost in result.lost_cycles.items() if cause in CAUSE_LEVERS}
    if result.devices:
        losses.pop(STAGES.name, None)  # no parameter of the hardware lets devices work at a time
    cause = max(losses, key=lambda each: losses[each], default="")
    by_bound = bound.cycles if bound.bound_by != "host" else 0
    if on_host and on_host >= max(by_bound, losses.get(cause, 0)):
        return _host(result, on_host)
    return _bound(result) if by_bound >= losses.get(cause, 0) else _loss(result, cause)


def host_layers(result: RunResult) -> list[LayerResult]:
    """The layers that the host computes; what it hands over from device to device is none."""
    return [layer for layer in result.layers if layer.unit == "host" and layer.op != HANDOVER]


def _host(result: RunResult, cycles: int) -> Ending:
    operators: dict[str, list[LayerResult]] = {}
    for layer in host_layers(result):
        operators.setdefault(show.printable(layer.op), []).append(layer)
    held = {op: sum(layer.cycles for layer in layers) for op, layers in operators.items()}
    first = sorted(held, key=lambda op: -held[op])[:MOST_OPERATORS]
    named = ", ".join(
        f"{op} {show.percent(held[op] / result.cycles)}"
        + (f" ({len(operators[op])} layers)" if len(operators[op]) > 1 else "")
        for op in first
    )
    more = f", {len(held) - len(first)} more" if len(held) > len(first) else ""
    keys = _either(BOUND_LEVERS["host"])
    return Ending(
        Reason(
            cycles / result.cycles,
            f"of the time is {show.plural(len(held), 'operator')} on the host: {named}{more}",
        ),
        Lever(
            _ms(result, int(result.cycles) - cycles),
            f"at best without {'it' if len(held) == 1 else 'them'}: operators that the NPU has, or a faster {keys}",
        ),
    )


def _bound(result: RunResult) -> Ending:
    bound = result.lower_bound
    resource = bound.bound_by
    hardware, moved = result.hardware, _moved_bytes(result, bound.port)
    (rate,) = (
        hardware.gb_per_s(space)
        for space in hardware.outer_spaces
        if hardware.memory_name(space) == bound.port
    )
    name, machine, macs = _most_macs(result)
    what = {
        "mac": f"multiplying{name and ' on ' + name}: {show.count(macs)} MACs at {machine.macs_per_cycle} a cycle",
        "dram": f"{limit_of(bound, 'dram')}: {show.size(sum(moved))} at {rate:g} GB/s",
    }.get(resource, f"the work of {LIMIT_NAMES[resource]}")
    amounts = [
        {"mac": layer.macs * (layer.device in ("", name)), "dram": moved[number]}.get(
            resource, layer.cycles * (layer.unit == resource)
        )
        for number, layer in enumerate(result.layers)
    ]
    others = {name: getattr(bound, name) for name in BOUND_LEVERS if name != resource}
    following = max(others, key=lambda name: others[name])
    then = f"; then the limit is {limit_of(bound, following)}" if others[following] else ""
    keys = _either(BOUND_LEVERS[resource])
    if resource == "dram" != bound.port:
        clocked = any(memory.name == bound.port and memory.clock_ratio for memory in hardware.memory)
        keys = f"memory.{bound.port}.{'access_bytes' if clocked else 'bandwidth_gb_per_s'}"
    return Ending(
        Reason(bound.cycles / result.cycles, f"of the time is {what}{_mostly(result, amounts)}"),
        Lever(_ms(result, others[following]), f"at best with more {keys}{then}"),
    )


def _most_macs(result: RunResult) -> tuple[str, Hardware, int]:
    """The device whose array needs longest for the work alone, with its MACs; without a name where there is but one."""
    if not result.several_devices:
        ((_, hardware),) = result.npus
        return "", hardware, result.macs
    needs = {
        device: device.macs / (device.hardware.macs_per_cycle * device.hardware.clock_mhz)
        for device in result.at_work
        if not device.is_cpu
    }
    if not needs:
        return "", result.hardware, result.macs
    longest = max(needs, key=lambda device: needs[device])
    return show.printable(longest.name), longest.hardware, longest.macs


def _moved_bytes(result: RunResult, port: str) -> list[int]:
    """Bytes through the port of a memory, of each layer and last those of the instructions."""
    names = f"{port}_read_byte", f"{port}_write_byte"
    return [sum(actions.get(name, 0) for name in names) for actions in result.execution.layer_actions]


def _loss(result: RunResult, cause: str) -> Ending:
    lost = result.lost_cycles[cause]
    amounts = [max(layer.lost_cycles.get(cause, 0), 0) for layer in result.layers]
    return Ending(
        Reason(
            lost / result.cycles, f"of the time is lost to {CAUSE_NAMES[cause]}{_mostly(result, amounts)}"
        ),
        Lever(
            _ms(result, int(result.cycles) - lost),
            f"at best without that loss: {_either(CAUSE_LEVERS[cause])}",
        ),
    )


def _either(keys: Sequence[str]) -> str:
    """Keys of a hardware file: "mac_array.rows, mac_array.columns or clock_mhz"."""
    return " or ".join(filter(None, (", ".join(keys[:-1]), keys[-1])))


def _ms(result: RunResult, cycles: int) -> float:
    return result.hardware.us_of_cycles(cycles) * 1e-3


def _mostly(result: RunResult, amounts: Sequence[int]) -> str:
    """Which layer has most of an amount, where it has much of it."""
    total = sum(amounts)
    if not total or len(amounts) < 2:
        return ""
    at = max(range(len(amounts)), key=lambda each: amounts[each])
    share = amounts[at] / total
    return f", {show.percent(share)} of it in {layer_name(result, at)}" if share >= LEAST_NAMED else ""


def layer_name(result: RunResult, index: int, width: int = NAME_WIDTH) -> str:
    """The name of a layer in a sentence."""
    return short_names([layer.name for layer in result.layers], width)[index]


def idlest(result: RunResult) -> str:
    """The layer in which the MAC array rests most: what pulls the mean utilization down; empty if none stands out."""
    layers, total = result.layers, int(result.cycles)
    idle = [layer.cycles * (1 - layer.utilization) for layer in layers]
    if len(layers) < 2 or not sum(idle):
        return ""
    at = max(range(len(idle)), key=lambda each: idle[each])
    if idle[at] < LEAST_NAMED * sum(idle):
        return ""
    return (
        f"{layer_name(result, at, NARROW_NAME)}: {show.percent(layers[at].utilization)} in "
        f"{show.percent(layers[at].cycles / total)} of the time"
    )
