"""Sentences for the end of every report: the bottleneck of a run, and the hardware changes that make it faster.

The values come from `npusim.numbers.answer`; the sentences are the same for the terminal, the page and a notebook.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from shlex import quote, split
from typing import TYPE_CHECKING, Any, NamedTuple

from npusim.isa.hardware.units import WORKERS
from npusim.isa.program.executable import HANDOVER
from npusim.numbers.answer import HOST, LEAST_NAMED, WAITS
from npusim.reports.words import quantities as show
from npusim.reports.words.names import CAUSE_NAMES, bound_name, main_name, short_names

if TYPE_CHECKING:
    from npusim.numbers.answer import Answer, Lever
    from npusim.numbers.layers import LayerResult
    from npusim.numbers.run import RunResult

NAME_WIDTH = 28
NARROW_NAME = 20
MOST_OPERATORS = 2
LEAST_BUSY = 0.1
"""Least busy share of the second unit or memory at which the sentence names it beside the bottleneck."""

_UNITS = {kind.name: f"the {kind.label}" for kind in WORKERS}


class Line(NamedTuple):
    """One line at the end of a report: title, leading number, text, and words to paste into a shell after it.

    paste: options or words of a command, quoted as a shell reads them; none for a line without a command.
    """

    title: str
    value: str
    words: str
    paste: tuple[str, ...] = ()


def ending(result: RunResult) -> tuple[Line, ...]:
    """Return the lines with the reason and the levers of a run; none for a run without cycles."""
    answer = result.answer
    if answer is None:
        return ()
    return Line("Reason", show.percent(answer.reason.share), _reason(result, answer)), *_levers(answer)


def _levers(answer: Answer) -> Iterator[Line]:
    if answer.note:
        yield Line("Lever", "none", answer.note)
    for number, lever in enumerate(answer.levers or ()):
        title, paste = "" if number else "Lever", settings(lever.set) or tuple(map(quote, split(lever.do)))
        yield Line(title, show.change(lever.latency_percent), _result_and_price(lever), paste)


def _result_and_price(lever: Lever) -> str:
    """Describe what a lever gives and costs: "18.7 us, energy -8.4 %, area +0.131 mm2"."""
    sign = "-" if lever.area_mm2_more < 0 else "+"
    price = f"energy {show.change(lever.energy_percent)}, area {sign}{show.area(abs(lever.area_mm2_more))}"
    return f"{show.time(lever.latency_ms)}, {price}"


def settings(changes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return changed keys as options of a command: "--set vector.lanes=8". A value keeps every digit."""
    exact = {
        path: int(value) if isinstance(value, float) and value.is_integer() else value
        for path, value in changes.items()
    }
    return tuple(f"--set {quote(f'{path}={json.dumps(value)}')}" for path, value in exact.items())


def host_layers(result: RunResult) -> list[LayerResult]:
    """Return the layers that the host computes, without transfers between devices."""
    return [layer for layer in result.layers if layer.unit == "host" and layer.op != HANDOVER]


def host_rows(result: RunResult) -> list[tuple[str, int, str, int, str]]:
    """Return the operators on the host, grouped by operator and reason, those with most cycles first.

    A row has the operator, the number of layers, the name of the first one, their cycles, and the reason.
    """

    def kind(layer: LayerResult) -> tuple[str, str]:
        return layer.op, layer.reason.removeprefix("runs on the host: ")

    on_host = sorted(host_layers(result), key=kind)
    rows = []
    for (op, reason), group in groupby(on_host, key=kind):
        same = list(group)
        cycles = sum(layer.cycles for layer in same)
        rows.append((op, len(same), main_name(same[0].name), cycles, reason))
    return sorted(rows, key=lambda row: -row[3])


def _reason(result: RunResult, answer: Answer) -> str:
    by = answer.reason.by
    if by == HOST and (words := _on_host(result)):
        return words
    if by in WAITS:
        return f"of the time is lost to {CAUSE_NAMES[by]}{_mostly(result, answer)}{_beside(answer, ' works')}"
    bound = f" ({answer.bound}-bound)" if answer.bound else ""
    work = f"{_work(result, by)}{_mostly(result, answer)}{_beside(answer)}"
    return f"of the time {_worker(by)} works{bound}{work}"


def _beside(answer: Answer, verb: str = "") -> str:
    """Name the busiest unit or memory beside the bottleneck, also if it works longer; empty if it works little."""
    busy = {name: share for name, share in answer.busy.items() if name != answer.reason.by}
    most = max(busy, key=lambda name: busy[name], default="")
    return f"; {_worker(most)}{verb} {show.percent(busy[most])}" if busy.get(most, 0) >= LEAST_BUSY else ""


def _worker(name: str) -> str:
    """Return a unit or a memory as it is named in a sentence."""
    return _UNITS.get(name) or f"the {bound_name(name)} port"


def _work(result: RunResult, by: str) -> str:
    """Return the bytes that pass a memory's port and its bandwidth; empty for a unit."""
    spaces = [space for space in result.hardware.outer_spaces if result.hardware.memory_name(space) == by]
    if not spaces:
        return ""
    names = f"{by}_read_byte", f"{by}_write_byte"
    moved = sum(actions.get(name, 0) for actions in result.execution.layer_actions for name in names)
    return f": {show.size(moved)} at {result.hardware.gb_per_s(spaces[0]):g} GB/s"


def _on_host(result: RunResult) -> str:
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
    return f"of the time is {show.plural(len(held), 'operator')} on the host: {named}{more}" if held else ""


def _mostly(result: RunResult, answer: Answer) -> str:
    """Name the layer with most of the bottleneck's cycles, if one dominates; else empty."""
    layer = answer.reason.layer
    if layer is None:
        return ""
    return f", {show.percent(answer.reason.layer_share)} of it in {layer_name(result, layer)}"


def layer_name(result: RunResult, index: int, width: int = NAME_WIDTH) -> str:
    """Return the name of a layer for a sentence."""
    return short_names([layer.name for layer in result.layers], width)[index]


def idlest(result: RunResult) -> str:
    """Name the layer that lowers the mean utilization of the MAC array most; empty if none stands out."""
    layers, total = result.layers, int(result.cycles)
    idle = [layer.cycles * (1 - layer.utilization) for layer in layers]
    if len(layers) < 2 or not sum(idle):
        return ""
    at = max(range(len(idle)), key=lambda position: idle[position])
    if idle[at] < LEAST_NAMED * sum(idle):
        return ""
    return (
        f"{layer_name(result, at, NARROW_NAME)} uses {show.percent(layers[at].utilization)} during "
        f"{show.percent(layers[at].cycles / total)} of the time"
    )
