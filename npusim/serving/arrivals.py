"""Requests and when they arrive: from a CSV file, at random with a rate (Poisson), or with a fixed period."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from io import StringIO
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base import user_file
from npusim.isa.base.errors import NpusimError, nearest
from npusim.isa.base.lazy_dataclass import dataclass

Whole = NDArray[np.int64]
MOST_REQUESTS = 10_000_000
MOST_TOKENS = 1 << 30
MOST_CYCLES = 1 << 62
"""Times are int64 cycles, of which sums must not overflow either."""
MOST_GIVEN = 1e12
"""Largest rate, period, deadline and power, so that times in cycles and energies are finite."""

BURST_GPT = {
    "Timestamp": "arrival_s", "Request tokens": "prompt_tokens", "Response tokens": "new_tokens", "Model": "tenant",
}  # fmt: skip
"""The columns of BurstGPT's files that are read, by their names there; the others are ignored."""

COLUMNS = (*BURST_GPT.values(), "model")
"""The columns of a CSV file that are read; the others are ignored."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests in the order of their arrivals, as columns of int64 [requests].

    arrival: cycles of the machine's clock from time 0.
    model:   index of the model that a request is for; of a language model always 0.
    prompt, new: tokens of the prompt, and of the answer; empty without a language model.
    tenant:  index into `tenants`.
    lines:   line of the CSV file that each comes from; empty if they come from a rate or period.
    notes:   remarks of the reader, such as rows that were left out.
    sha256:  digest of the CSV file; empty if they come from a rate or period.
    window:  cycles between which requests could arrive; None for those of a file, from the first to the last arrival.
    file:    the CSV file; None if they come from a rate or period.
    """

    arrival: Whole
    model: Whole
    prompt: Whole
    new: Whole
    tenant: Whole
    tenants: tuple[str, ...]
    lines: Whole
    notes: tuple[str, ...] = ()
    file: Path | None = None
    sha256: str = ""
    window: tuple[int, int] | None = None

    @property
    def begin(self) -> int:
        """The cycle from which rates are counted: that of the first arrival, or 0 if a duration is given."""
        return self.window[0] if self.window else int(self.arrival[0])

    def end(self, last: int) -> int:
        """Return the cycle up to which rates are counted; `last` is the end of the last step.

        It is that of the next request that would arrive. Up to the last arrival, n requests would be n - 1 periods.
        """
        return max(last, self.window[1] if self.window else int(self.arrival[-1]))

    def __len__(self) -> int:
        return len(self.arrival)

    def where(self, number: int) -> str:
        """Return the name of a request in messages: its line in the file, or its number."""
        return f"{self.file}: line {self.lines[number]}" if self.file else f"request {number}"


def at_rates(
    rates: Sequence[float], models: Sequence[str], clock_mhz: float, seed: int, count: int, duration_s: float
) -> Requests:
    """Return the requests of independent Poisson processes, one per model.

    rates: requests per second of each model. The first `count` requests of all models, or those before `duration_s`.
    """
    streams = np.random.SeedSequence(seed).spawn(len(rates))

    def times(model: int) -> NDArray[np.float64]:
        rate, draw = rates[model], np.random.default_rng(streams[model])
        # The first behind the `count` ends the window. Ten standard deviations above the mean, so that the last one
        # drawn is behind the end of a duration.
        number = count + 1 if count else int(rate * duration_s + 10 * (rate * duration_s) ** 0.5 + 10)
        arrivals = draw.exponential(1 / rate, number).cumsum()
        return arrivals if count else arrivals[arrivals < duration_s]

    return _merged([times(model) for model in range(len(rates))], models, clock_mhz, count, duration_s)


def with_periods(
    periods_ms: Sequence[float], models: Sequence[str], clock_mhz: float, count: int, duration_s: float
) -> Requests:
    """Return requests with a fixed period per model, the first of each at time 0."""

    def times(model: int) -> NDArray[np.float64]:
        period_s = periods_ms[model] * 1e-3
        number = count + 1 if count else int(np.ceil(duration_s / period_s))
        arrivals = np.arange(number, dtype=np.float64) * period_s
        # The quotient may be rounded up: 0.07 s / 10 ms is more than 7, and the eighth request comes at the end.
        return arrivals if count else arrivals[arrivals < duration_s]

    return _merged([times(model) for model in range(len(periods_ms))], models, clock_mhz, count, duration_s)


def _merged(
    times: Sequence[NDArray[np.float64]],
    models: Sequence[str],
    clock_mhz: float,
    count: int,
    duration_s: float,
) -> Requests:
    """Merge the arrival times of each model, in seconds, and keep the first `count` if that is not 0.

    The window of a count is from the first arrival to the one that is not kept, that of a duration is the duration.
    """
    arrival = _cycles(np.concatenate(times), clock_mhz)
    model = np.repeat(np.arange(len(times), dtype=np.int64), [len(each) for each in times])
    order = np.argsort(arrival, kind="stable")
    if count:
        window = int(arrival[order[0]]), int(arrival[order[count]])
    else:
        window = 0, int(_cycles(np.array([duration_s]), clock_mhz)[0])
    order = order[: count or None]
    none = np.empty(0, np.int64)
    return Requests(
        arrival[order], model[order], none, none, model[order], tuple(models), none, window=window
    )


def _cycles(seconds: NDArray[np.float64], clock_mhz: float) -> Whole:
    """Return times as whole cycles. Raises NpusimError for times that are too late for 64 bits."""
    # Not the product, which may overflow.
    if len(seconds) and seconds.max() > MOST_CYCLES / (clock_mhz * 1e6):
        raise NpusimError(
            f"requests arrive until {seconds.max():g} s, which is more than {MOST_CYCLES} cycles"
        )
    return np.rint(seconds * clock_mhz * 1e6).astype(np.int64)


def read(path: Path, models: Sequence[str], clock_mhz: float, *, tokens: bool) -> Requests:
    """Read requests from a CSV file: `arrival_s,prompt_tokens,new_tokens,tenant`, or the columns of BurstGPT.

    models: the served models; if there are several, a column `model` says which one a request is for.
    tokens: whether the columns of tokens are needed, for a language model. Without a column `tenant` the model is one.

    BurstGPT's rows without response tokens are calls that failed; they are left out, and a note says how many.
    Raises NpusimError with the line of the first fault.
    """
    # Strict, because a quotation mark that is not closed would make one cell of all rows below it.
    text = user_file.text(path, user_file.REQUESTS)
    lines = csv.reader(StringIO(text, newline=""), strict=True)
    head = [name.strip().removeprefix("\N{BYTE ORDER MARK}") for name in next(_rows(lines, path), [])]
    if not head:
        raise NpusimError(f"{path}: is empty; its first line must name the columns, such as arrival_s")
    burst = "Timestamp" in head
    names = [BURST_GPT.get(name, "") if burst else name for name in head]
    needed = ["arrival_s", *(("prompt_tokens", "new_tokens") if tokens else ())]
    needed += ["model"] if len(models) > 1 else []
    missing = [name for name in needed if name not in names]
    if missing:
        raise NpusimError(f"{path}: line 1: no column {' and no '.join(missing)}; it has {', '.join(head)}")
    twice = next((name for name in COLUMNS if names.count(name) > 1), "")
    if twice:
        raise NpusimError(f"{path}: line 1: column {twice} is there twice; leave one of them out")
    place = {name: names.index(name) for name in names if name}
    table = _table(path, lines, place, models, clock_mhz, tokens, burst)
    return replace(table, sha256=sha256(text.encode()).hexdigest())


def _rows(lines: Any, path: Path) -> Iterator[list[str]]:
    """Yield the rows of a CSV file. Raises NpusimError for one that is no CSV."""
    try:
        yield from lines
    except csv.Error as fault:
        raise NpusimError(f"{path}: line {lines.line_num}: is no CSV: {fault}") from None


def _table(
    path: Path, lines: Any, place: Mapping[str, int], models: Sequence[str], clock_mhz: float, tokens: bool, burst: bool
) -> Requests:  # fmt: skip
    """Read the rows below the head; `place` is the position of each column by its name."""
    seconds, columns = array("d"), {name: array("q") for name in ("model", "prompt", "new", "tenant", "line")}
    tenants: dict[str, int] = {}
    failed = 0
    for cells in _rows(lines, path):
        if not cells:
            continue
        where = f"{path}: line {lines.line_num}"
        if len(cells) <= max(place.values()):
            raise NpusimError(f"{where}: has {len(cells)} cells, fewer than the columns of line 1")
        text = {name: cells[at].strip() for name, at in place.items()}
        arrival = _number(where, "arrival_s", text["arrival_s"], 0.0)
        if seconds and arrival < seconds[-1]:
            raise NpusimError(
                f"{where}: arrives at {arrival:g} s, before the one above ({seconds[-1]:g} s); sort the file by it"
            )
        new = _tokens(where, "new_tokens", text["new_tokens"], 0 if burst else 1) if tokens else 0
        if tokens and not new:
            failed += 1
            continue
        if len(seconds) == MOST_REQUESTS:
            raise NpusimError(f"{where}: a file may have {MOST_REQUESTS} requests at most")
        served = _model(where, text["model"], models) if len(models) > 1 else 0
        seconds.append(arrival)
        columns["model"].append(served)
        if tokens:
            columns["prompt"].append(_tokens(where, "prompt_tokens", text["prompt_tokens"], 1))
            columns["new"].append(new)
        tenant = text.get("tenant", models[served])
        if not tenant:
            raise NpusimError(f"{where}: tenant is empty, must be a name")
        columns["tenant"].append(tenants.setdefault(tenant, len(tenants)))
        columns["line"].append(lines.line_num)
    if not seconds:
        raise NpusimError(f"{path}: has no requests; each is a line below that of the columns")
    notes = (f"requests without response tokens, which were left out: {failed}",) if failed else ()
    model, prompt, new_tokens, who, line = (np.array(each, np.int64) for each in columns.values())
    arrivals = _cycles(np.array(seconds), clock_mhz)
    return Requests(arrivals, model, prompt, new_tokens, who, tuple(tenants), line, notes, path)


def _model(where: str, name: str, models: Sequence[str]) -> int:
    if name in models:
        return models.index(name)
    near = nearest(name, models)
    hint = f", did you mean {near}?" if near else ";"
    raise NpusimError(f"{where}: model {name} is not served{hint} served are {', '.join(models)}")


def number(text: str, kind: Callable[[str], Any]) -> Any:
    """Return the number in a text. Raises ValueError also for digits with underscores, which only Python reads."""
    if "_" in text:
        raise ValueError
    return kind(text)


def _number(where: str, column: str, text: str, least: float) -> float:
    """Return the number in a cell. Raises NpusimError with the line for anything else."""
    try:
        value: float = number(text, float)
    except ValueError:
        raise NpusimError(f"{where}: {column} is {text or 'empty'}, must be a number") from None
    if not least <= value <= MOST_TOKENS:
        raise NpusimError(f"{where}: {column} is {text}, must be {least:g} to {MOST_TOKENS}")
    return value


def _tokens(where: str, column: str, text: str, least: int) -> int:
    """Return the number of tokens in a cell. Raises NpusimError as `_number` does, also for a fraction."""
    value = _number(where, column, text, least)
    if not value.is_integer():
        raise NpusimError(f"{where}: {column} is {text}, must be a whole number")
    return int(value)


COUNT = 1000
"""Requests of a rate or period, by default."""


@dataclass(frozen=True, slots=True)
class Load:
    """Where requests come from: exactly one of a file, rates and periods.

    file:       a CSV file (`read`).
    rates:      requests per second of each model (`at_rates`); periods_ms: time between two (`with_periods`).
    count, duration_s: how many of all models, or until when they arrive; `COUNT` if neither is given.
    prompt, new: tokens of each request that comes from a rate or period.
    """

    file: Path | None = None
    rates: Sequence[float] = ()
    periods_ms: Sequence[float] = ()
    count: int = 0
    duration_s: float = 0.0
    seed: int = 0
    prompt: int = 0
    new: int = 0

    def check(self, models: Sequence[str], *, tokens: bool) -> None:
        """Raise NpusimError for what does not fit together."""
        sources = {"--requests": self.file, "--rate": self.rates, "--period-ms": self.periods_ms}
        given = [option for option, value in sources.items() if value]
        if len(given) != 1:
            raise NpusimError(
                f"{' and '.join(given) or 'no requests'}: give one of --requests F.csv, --rate N (per second), "
                "--period-ms N"
            )
        for option, values in (("--rate", self.rates), ("--period-ms", self.periods_ms)):
            check_numbers(option, values, models, 0.0, MOST_GIVEN)
        extra = {"--count": self.count, "--duration-s": self.duration_s}
        extra |= {"--prompt-tokens": self.prompt, "--new-tokens": self.new}
        for option, value in extra.items():
            if self.file and value:
                raise NpusimError(
                    f"{option}: goes with --rate or --period-ms; the file says it for --requests"
                )
            if not 0 <= value <= MOST_TOKENS:
                raise NpusimError(f"{option} {value:g}: must be more than 0 and at most {MOST_TOKENS}")
        if self.count and self.duration_s:
            raise NpusimError("--count and --duration-s: give one of them")
        if not self.file and tokens and not (self.prompt and self.new):
            raise NpusimError("--prompt-tokens and --new-tokens: each request to a language model needs both")
        rates = [*self.rates, *(1e3 / period for period in self.periods_ms)]
        if max(self.count, self.duration_s * sum(rates)) > MOST_REQUESTS:
            raise NpusimError(f"more than {MOST_REQUESTS} requests; give a smaller --count or --duration-s")

    def to_dict(self, requests: Requests) -> dict[str, Any]:
        """Return what these requests can be made from again, as in the JSON."""
        named = {
            "requests": self.file and self.file.name,
            "requests_sha256": requests.sha256,
            "rate": list(self.rates),
            "period_ms": list(self.periods_ms),
            "duration_s": self.duration_s,
            "count": 0 if self.file or self.duration_s else len(requests),
            "prompt_tokens": self.prompt,
            "new_tokens": self.new,
        }
        return {key: value for key, value in named.items() if value} | (
            {"seed": self.seed} if self.rates else {}
        )

    def requests(self, models: Sequence[str], clock_mhz: float, *, tokens: bool) -> Requests:
        """Return the requests. Raises NpusimError for a file with a fault."""
        if self.file:
            return read(self.file, models, clock_mhz, tokens=tokens)
        count = 0 if self.duration_s else self.count or COUNT
        if self.rates:
            made = at_rates(self.rates, models, clock_mhz, self.seed, count, self.duration_s)
        else:
            made = with_periods(self.periods_ms, models, clock_mhz, count, self.duration_s)
        if not len(made):
            raise NpusimError(f"--duration-s {self.duration_s:g}: no request arrives in this time")
        if not tokens:
            return made
        prompt, new = (np.full(len(made), each, np.int64) for each in (self.prompt, self.new))
        return replace(made, prompt=prompt, new=new)


def check_numbers(
    option: str, values: Sequence[float], models: Sequence[str], above: float = -inf, most: float = inf
) -> None:
    """Raise NpusimError unless an option has a finite number within limits for each model, or is not given."""
    if values and len(values) != len(models):
        raise NpusimError(
            f"{option} {','.join(map(_text, values))}: the models ({', '.join(models)}) are {len(models)}, the "
            f"numbers {len(values)}; give one for each"
        )
    for value in values:
        if not (above < value <= most and value < inf):
            limits = f"more than {above:g} and at most {most:g}" if most < inf else "a finite number"
            raise NpusimError(f"{option} {_text(value)}: must be {limits}")


def _text(value: float) -> str:
    """Return a number in a message. A whole one may be too large for a float."""
    return str(value) if isinstance(value, int) else f"{value:g}"
