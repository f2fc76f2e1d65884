"""The terminal summary of served requests: rates first, then times, energy, and what limits them."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text

from npusim.base.csv_text import csv_text
from npusim.numbers.bounds import UNBOUND
from npusim.numbers.layers import share
from npusim.reports.run.terminal import facts
from npusim.reports.words import claims
from npusim.reports.words import quantities as show
from npusim.reports.words.grids import Column, table, titled
from npusim.reports.words.names import bound_name
from npusim.serving.log import Outcome
from npusim.serving.served import Serving, Spread

MOST_PROGRAMS = 8


def summary(result: Serving, width: int) -> RenderableType:
    """Return the summary for a terminal of `width` columns."""
    parts: list[RenderableType] = [heading(result), Text()]
    if result.is_language:
        parameters = show.count(result.parameters)
        parts.append(Text(f"ESTIMATE without weights: {result.weights}, {parameters} parameters\n"))
    parts.append(facts(_answer(result), width))
    parts += titled("Times, in ms", times(result))
    parts += titled("What limits", facts(_limits(result), width))
    parts += titled(*_programs(result))
    return Group(*parts)


def csv(result: Serving) -> str:
    """Return the requests as CSV, a row for each."""
    columns = result.columns()
    return csv_text(list(columns), zip(*columns.values(), strict=True))


def heading(result: Serving) -> Text:
    """Return models, machine and policy."""
    return Text.assemble(
        (", ".join(map(show.printable, result.models)), "bold"),
        " on ",
        (show.printable(result.hardware.name), "bold"),
        (f"\n{machine(result)}\n{policy(result)}", "dim"),
    )


def machine(result: Serving) -> str:
    """Return the machine as a line."""
    *parts, node = show.machine(result.hardware).split(", ")
    return ", ".join([*parts, show.ports(result.hardware), node])


def policy(result: Serving) -> str:
    """Return where requests come from, and how they share the machine, as a line."""
    given = result.policy
    source = f"from {show.printable(given['requests'])}" if "requests" in given else ""
    for key, unit in (("rate", "per second at random"), ("period_ms", "ms between two")):
        if key in given:
            source = f"{', '.join(f'{value:g}' for value in given[key])} {unit}"
    words = [f"{show.plural(len(result.requests), 'request')}, {source}"]
    if result.is_language:
        words.append(f"batching {given['batching']}")
        words += [f"at most {given['max_batch']} at once"] if given["max_batch"] > 1 else []
        words += [f"chunks of {given['chunk']} tokens"] if given.get("chunk") else []
    else:
        words += [f"priority {', '.join(map(str, given['priority']))}"] if given["priority"] else []
        deadlines = ", ".join(f"{value:g}" for value in given["deadline_ms"])
        words += [f"deadline {deadlines} ms"] if deadlines else []
        words += ["preempted between layers"] if given["preempt"] else []
        words += [f"at most {given['queue']} wait"] if given["queue"] is not None else []
    return "; ".join(words)


def _answer(result: Serving) -> Iterable[tuple[str, str, str]]:
    group = result.total
    answered = f"{show.whole(group.answered)} of {show.plural(group.requests, 'request')} answered"
    yield (
        "Throughput",
        f"{show.digits(result.requests_per_s)}/s",
        f"{answered} in {show.time(result.seconds * 1e3)}, on average {show.digits(result.mean_in_system)} of them "
        "at a time",
    )
    if result.is_language:
        yield "Tokens", f"{show.digits(result.tokens_per_s)}/s", f"{show.whole(group.tokens)} generated"
    refused = {
        name: number for name, number in group.outcomes.items() if number and name != Outcome.NONE.name
    }
    if refused:
        words = ", ".join(f"{name} {show.whole(number)}" for name, number in refused.items())
        yield "Not answered", show.percent(share(sum(refused.values()), group.requests)), words
    spread = group.request_uj
    claim = claims.sentence(*(result.uncertainty.words(each) for each in ("latency", "energy")))
    each = f"per request, the machine while it waits apart; p99 {show.energy(spread.p99)}"
    if group.answered:
        yield "Energy", show.energy(spread.mean), f"{each}\n{claim}"
    else:
        yield "Energy", "-", f"no request was answered\n{claim}"
    if result.is_language:
        yield "", show.energy(group.token_uj), "per generated token, prompts included"
    idle, power = show.energy(result.idle_uj), show.power(result.idle_mw)
    yield (
        "",
        show.energy(result.energy_uj),
        f"in all: requests, and {idle} of the machine while it waits ({power})",
    )
    if result.log.moved_uj:
        stops = show.plural(sum(result.log.stops), "preemption")
        yield "", show.energy(result.log.moved_uj), f"of it for {stops}: the scratchpad to the DRAM and back"
    duty = f"average; a program runs {show.percent(result.utilization)} of the time"
    yield "Power", show.power(result.mean_mw), duty
    if result.battery_h is not None:
        yield "", _life(result.battery_h), f"until a battery of {result.battery_wh:g} Wh is empty"
    for note in result.requests.notes:
        yield "Note", "", note


def _life(hours: float) -> str:
    """Return the life of a battery in hours, or in days from two on."""
    return f"{show.digits(hours)} hours" if hours < 48 else f"{show.digits(hours / 24)} days"


def spreads(result: Serving) -> list[tuple[str, str, Spread]]:
    """Return the times of all requests and of each tenant: the group, the kind of time, and its spread."""
    rows = []
    for group in (result.total, *result.by_tenant):
        kinds = [("queue", group.queue_ms), ("end to end", group.total_ms)]
        if result.is_language:
            kinds[1:1] = [("first token", group.first_token_ms), ("per token", group.token_ms)]
            kinds += [("between tokens", result.gaps)] if group is result.total else []
        rows += [(show.printable(group.name), *kind) for kind in kinds]
    return rows


def times(result: Serving) -> RenderableType:
    """Return the table of times of all requests, and of each tenant."""
    rows = spreads(result)
    firsts = [at == 0 or rows[at - 1][0] != name for at, (name, *_) in enumerate(rows)]
    columns = [Column("", [name * first for (name, *_), first in zip(rows, firsts, strict=True)])]
    columns.append(Column("time", [kind for _, kind, _ in rows]))
    for head in Spread._fields:
        columns.append(Column(head, [show.digits(getattr(spread, head)) for *_, spread in rows], right=True))
    return table(columns if result.by_tenant else columns[1:], indent=1)


def limits(result: Serving) -> Iterable[tuple[str, float, str]]:
    """Yield what limits the requests: a name, a share, and what it is the share of."""
    group = result.total
    yield (
        "queue",
        share(group.queue_ms.mean, group.total_ms.mean),
        "of the mean time of a request: the wait for its first step",
    )
    yield "machine", result.utilization, "of the time a program runs"
    for phase in result.phases:
        busiest = phase.limited_by
        if busiest == UNBOUND:
            continue  # its program never ran
        rest = sorted((name for name in phase.busy if name != busiest), key=lambda name: -phase.busy[name])[
            :2
        ]
        others = ", ".join(
            f"{bound_name(name)} {show.percent(share(phase.busy[name], phase.cycles))}" for name in rest
        )
        runs = f"{show.plural(phase.runs, 'run')}, {show.percent(share(phase.cycles, result.cycles))} of the time"
        yield (
            phase.name,
            share(phase.busy[busiest], phase.cycles),
            f"{bound_name(busiest)} is busy; {others}; {runs}, {show.energy(phase.energy_uj)}",
        )


def _limits(result: Serving) -> Iterable[tuple[str, str, str]]:
    for name, part, words in limits(result):
        yield name, show.percent(part), words
    cache = result.cache
    if cache:
        size = f"{show.plural(cache.pages, 'page')} of {show.plural(cache.page, 'token')}, {show.size(cache.bytes)}"
        words = f"on average of {size}; at most {show.percent(cache.peak / cache.pages)}"
        yield "cache", show.percent(cache.mean / cache.pages), words
        if cache.stops:
            again = show.plural(cache.again, "token")
            yield (
                "",
                show.whole(cache.stops),
                f"times it was full: the youngest request was stopped, {again} computed again",
            )


def _programs(result: Serving) -> tuple[str, RenderableType]:
    """Return title and table of the programs, those with the most cycles first."""
    steps = sorted(
        zip(result.log.steps, result.runs, strict=True), key=lambda each: -each[0].cycles * each[1]
    )
    shown, ms = steps[:MOST_PROGRAMS], result.hardware.us_of_cycles(1) * 1e-3
    cycles = result.busy_cycles
    columns = [
        Column("program", [step.name for step, _ in shown]),
        Column("runs", [show.whole(runs) for _, runs in shown], right=True),
        Column("each", [show.time(step.cycles * ms) for step, _ in shown], right=True),
        Column(
            "share", [show.percent(share(step.cycles * runs, cycles)) for step, runs in shown], right=True
        ),
        Column("energy", [show.energy(step.energy_uj) for step, _ in shown], right=True),
        Column("limited by", [bound_name(step.limited_by) for step, _ in shown]),
    ]
    more = f", {len(shown)} of them" if len(steps) > len(shown) else ""
    each = "each " if len(steps) > 1 else ""
    return f"{show.plural(len(steps), 'program')}, {each}simulated once{more}", table(columns, indent=1)
