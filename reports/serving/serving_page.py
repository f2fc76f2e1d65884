"""Served requests as one self-contained HTML page: rates and times first, then a timeline of requests and units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.numbers.layers import share
from npusim.reports.page.page import page
from npusim.reports.serving import serving_text
from npusim.reports.words import claims
from npusim.reports.words import quantities as show
from npusim.reports.words.names import bound_name, bound_style
from npusim.serving.log import Outcome
from npusim.serving.served import Serving, Spread
from npusim.serving.steps import DECODE, INFERENCE, PREEMPTION, PREFILL

FILES = (
    ("serving.html", "this page"),
    ("serving.json", "every number, for programs"),
    ("requests.csv", "the requests, for a spreadsheet"),
)
"""Files of the `--report` folder, with what they are for."""
SCRIPTS = ("page.js", "time.js", "serving.js")
MOST_DRAWN = 5000
"""Requests of the timeline: the first of them, because a page with more takes seconds to draw."""
WINDOWS = 4000
"""Windows over which busy units are averaged, a few for each pixel, so that zooming in still shows more."""
PHASE_COLOURS: Mapping[str, str] = {
    INFERENCE: "accent", PREFILL: "k-constants", DECODE: "accent", PREEMPTION: "k-maps",
}  # fmt: skip


class Point(NamedTuple):
    """A phase in the roofline: multiply-accumulates per DRAM byte and per cycle, and the most that the roof allows."""

    name: str
    colour: str
    macs_per_byte: float
    macs_per_cycle: float
    roof: float


def render(result: Serving) -> str:
    """Return the page as HTML text."""
    models = ", ".join(map(show.printable, result.models))
    return page(
        "serving.html",
        SCRIPTS,
        data(result),
        title=f"{models} on {show.printable(result.hardware.name)}",
        result=result,
        models=models,
        lines=(serving_text.machine(result), serving_text.policy(result)),
        claim=claims.sentence(*(result.uncertainty.words(each) for each in ("latency", "energy"))),
        percentiles=Spread._fields[1:],
        spreads=serving_text.spreads(result),
        refused=[(name, n) for name, n in result.total.outcomes.items() if n and name != Outcome.NONE.name],
        limits=list(serving_text.limits(result)),
        points=list(roofline(result)),
        steps=sorted(
            zip(result.log.steps, result.runs, strict=True), key=lambda each: -each[0].cycles * each[1]
        ),
        phase_colours=PHASE_COLOURS,
        ms=result.hardware.us_of_cycles(1) * 1e-3,
        share=share,
        bound_name=bound_name,
        bound_style=bound_style,
        drawn=min(len(result.requests), MOST_DRAWN),
        files=FILES,
    )


def roofline(result: Serving) -> Iterator[Point]:
    """Yield the phases with DRAM traffic: what they reach, below the array's peak and the bandwidth."""
    hardware = result.hardware
    for phase in result.phases:
        if phase.dram_bytes and phase.macs:
            intensity = phase.macs / phase.dram_bytes
            roof = min(float(hardware.macs_per_cycle), hardware.dram_bytes_per_cycle * intensity)
            yield Point(phase.name, PHASE_COLOURS[phase.name], intensity, phase.macs / phase.cycles, roof)


def data(result: Serving) -> dict[str, Any]:
    """Return what `serving.js` draws: the times of requests in rows, and the shares of units in windows."""
    edges = np.linspace(result.begin, result.end, min(WINDOWS, max(result.cycles, 1)) + 1)
    requests, log = result.requests, result.log
    drawn = slice(0, MOST_DRAWN)
    arrival = requests.arrival[drawn].tolist()
    end = [max(each, at) for each, at in zip(log.end[drawn], arrival, strict=True)]
    base = result.begin
    return {
        "cycles": result.cycles,
        "us": result.hardware.us_of_cycles(1),
        "requests": {
            "arrival": [at - base for at in arrival],
            "start": [at - base if at >= 0 else -1 for at in log.start[drawn]],
            "first": [at - base if at >= 0 else -1 for at in log.first[drawn]],
            "end": [at - base for at in end],
            "row": _rows(arrival, end),
            "tenant": requests.tenant[drawn].tolist(),
            "outcome": list(log.outcome[drawn]),
            "tokens": list(zip(requests.prompt[drawn].tolist(), requests.new[drawn].tolist(), strict=True)),
        },
        "tenants": [show.printable(name) for name in requests.tenants],
        "outcomes": [each.name for each in Outcome],
        "lanes": list(_lanes(result, edges)),
        "roofline": {
            "peak": result.hardware.macs_per_cycle,
            "rate": result.hardware.dram_bytes_per_cycle,
            "points": [each[:4] for each in roofline(result)],
        },
    }


def _rows(arrival: Sequence[int], end: Sequence[int]) -> list[int]:
    """Return a row for each request so that no two in a row are there at the same time, with the fewest rows."""
    free: list[int] = []
    ends: list[tuple[int, int]] = []
    rows = []
    for at, until in zip(arrival, end, strict=True):
        while ends and ends[0][0] <= at:
            heappush(free, heappop(ends)[1])
        rows.append(heappop(free) if free else len(ends))
        heappush(ends, (until, rows[-1]))
    return rows


def _lanes(result: Serving, edges: NDArray[np.float64]) -> Iterator[dict[str, Any]]:
    """Yield the amounts below the requests: each a title, a colour, its largest value, and a share of it per window."""
    log = result.log
    runs = np.frombuffer(log.run_begin, np.int64), np.frombuffer(log.run_end, np.int64)
    which = np.frombuffer(log.run_step, np.int64)
    for phase in result.phases:
        belongs = np.array([float(step.phase == phase.name) for step in log.steps])
        yield _lane(phase.name, PHASE_COLOURS[phase.name], _mean_share(runs, belongs[which], edges))
    for unit, busy in result.busy.items():
        if busy > 0:
            part = np.array([share(step.busy.get(unit, 0), step.cycles) for step in log.steps])
            yield _lane(bound_name(unit), f"r-{bound_style(unit)}", _mean_share(runs, part[which], edges))
    if result.cache:
        taken = _mean_steps(np.frombuffer(log.pages_at, np.int64), np.frombuffer(log.pages, np.int64), edges)
        yield _lane("cache", "k-input", taken / result.cache.pages, show.plural(result.cache.pages, "page"))


def _lane(title: str, colour: str, shares: NDArray[np.float64], most: str = "") -> dict[str, Any]:
    """Return a lane; shares are whole thousandths of its height, which the largest fills if there is a `most`."""
    top = float(shares.max(initial=0.0)) if most else 1.0
    heights = np.rint(shares / (top or 1.0) * 1000).astype(int).tolist()
    return {"title": title, "colour": colour, "top": top, "most": most, "shares": heights}


def _mean_share(
    runs: tuple[NDArray[np.int64], NDArray[np.int64]], part: NDArray[np.float64], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean over each window of a share that each run has while it lasts, by its integral."""
    begin, end = runs
    grown = np.cumsum((end - begin) * part)
    moments = np.column_stack([begin, end]).ravel()
    integral = np.column_stack([grown - (end - begin) * part, grown]).ravel()
    return _windows(moments, integral, edges)


def _mean_steps(
    at: NDArray[np.int64], value: NDArray[np.int64], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean over each window of a value that changes at some moments, by its integral."""
    integral = np.concatenate([[0], np.cumsum(value[:-1] * np.diff(at))])
    return _windows(at, integral, edges)


def _windows(
    moments: NDArray[Any], integral: NDArray[Any], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    if not len(moments):
        return np.zeros(len(edges) - 1)
    means: NDArray[np.float64] = np.diff(np.interp(edges, moments, integral)) / np.diff(edges)
    return means
