"""Hardware files: presets written out or extended, with keys at and beyond their limits, by `hw check` and `run`."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

from npusim.isa.hardware.file import hardware, list_presets, to_toml
from npusim.isa.hardware.parameters import parameters

from .child import Report
from .command import attempt
from .harness import Kind
from .invariants import broken
from .texts import mutant, value

FILE = "chip.toml"
ALLOWED = {each.path: each.allowed for each in parameters()}


def mutants(rng: random.Random) -> Iterator[bytes]:
    """Hardware files without end, some of them sound."""
    while True:
        yield _one(rng)


def _one(rng: random.Random) -> bytes:
    if rng.randrange(2):
        return mutant(to_toml(hardware(rng.choice(list_presets()))), rng)
    keys = rng.sample(sorted(ALLOWED), rng.choice((1, 1, 2, 3, 6)))
    odd = rng.randrange(3) == 0
    text = "".join(f"{key} = {value(rng) if odd else _near_a_limit(key, rng)}\n" for key in keys)
    text = f"extends = {value(rng)}\n{text}" if rng.randrange(8) == 0 else f'extends = "edge-128"\n{text}'
    return mutant(text, rng) if rng.randrange(3) == 0 else text.encode("utf-8", "surrogatepass")


def _near_a_limit(key: str, rng: random.Random) -> str:
    """The least or the largest value of a key, just beyond it, or one between; by what messages say it may be."""
    limits = [float(word) for word in ALLOWED[key].split() if re.fullmatch(r"[\d.e+-]+", word)]
    if ALLOWED[key].startswith("one of"):
        chosen = rng.choice(ALLOWED[key].removeprefix("one of ").split(", "))
        return chosen if chosen.isdigit() else json.dumps(chosen)
    if len(limits) != 2:
        return rng.choice(("true", "false", '"text"'))
    low, high = limits
    found = rng.choice((low, low, high, high, low * 2, high / 2, (low * high) ** 0.5, low - 1, high + 1))
    return str(int(found)) if ALLOWED[key].startswith("a whole") else repr(float(found))


def run(seed: int, folder: Path, report: Report) -> None:
    """Check a changed file, and run a small model on what it describes."""
    rng = random.Random(f"hardware {seed}")
    path = folder / FILE
    path.write_bytes(next(mutants(rng)))
    if attempt(report, ["hw", "check", str(path)]):
        return
    attempt(report, ["hw", "show", str(path)])
    result = folder / "result.json"
    more = ["--what-if"] if rng.randrange(40) == 0 else []
    if (
        attempt(
            report, ["run", "digits_cnn", "--hw", str(path), "--timing-only", "--json", str(result), *more]
        )
        == 0
    ):
        for text in broken(json.loads(result.read_text())):
            report.note("broken invariant", text)


KIND = Kind("hardware files with changed keys and values by `npusim hw check`, `hw show` and `run`", run)
