"""Space files: changed, with values and expressions of any kind, by `npusim explore`."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from npusim.isa.hardware.parameters import parameters

from . import study_lines
from .child import Report
from .command import attempt
from .harness import Kind
from .texts import NUMBERS, mutant, value

FILE = "space.toml"
KEYS = tuple(each.path for each in parameters())
VARIED = (
    "mac_array.rows = [8, 16]", "vector.lanes = [4, 8]", "scratchpad.size_kib = { from = 64, to = 256, factor = 2 }",
    "clock_mhz = { from = 100, to = 400, count = 3, log = true }",
    "dram.bandwidth_gb_per_s = { from = 1, to = 2, step = 1 }",
    'mac_array.dataflow = ["both", "output_stationary"]', "mac_array.shadow_weights = [true, false]",
)  # fmt: skip
OBJECTIVES = (
    "latency", "energy", "area", "power", "cycles.mac", "lost_cycles.host", "layers.0.cycles", "hardware.clock_mhz",
    "inferences_per_s", "macs", "nothing", "cycles", "edp", "performance_info.execTime",
)  # fmt: skip
OPERATORS = (
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "<",
    "<=",
    "==",
    "!=",
    "in",
    "and",
    "or",
    "if 1 else",
    "<<",
    "@",
)
FUNCTIONS = ("min", "max", "abs", "round", "floor", "ceil", "sqrt", "log2", "eval", "not ", "-", "--")


def expression(rng: random.Random, depth: int = 0) -> str:
    """An expression, most of them sound, some of any size."""
    kind = rng.randrange(10) if depth < 5 else 0
    if kind < 3:
        return rng.choice(
            (*KEYS[:12], *NUMBERS, "'text'", "mac_array.rows", "clock_mhz", "rows", "True", "None")
        )
    if kind < 7:
        return f"{expression(rng, depth + 1)} {rng.choice(OPERATORS)} {expression(rng, depth + 1)}"
    if kind < 9:
        inside = ", ".join(expression(rng, depth + 1) for _ in range(rng.choice((1, 1, 2, 3))))
        return f"{rng.choice(FUNCTIONS)}({inside})"
    return f"({expression(rng, depth + 1)}, {expression(rng, depth + 1)})"


def mutants(rng: random.Random) -> Iterator[bytes]:
    """Space files without end, some of them sound and small."""
    while True:
        text = _sound(rng)
        yield text.encode("utf-8", "surrogatepass") if rng.randrange(3) else mutant(text, rng)


def _sound(rng: random.Random) -> str:
    lines = ['extends = "edge-128"']
    lines.append(f"objectives = {json.dumps(rng.sample(OBJECTIVES, rng.choice((1, 2, 3))))}")
    if rng.randrange(3) == 0:
        lines.append(f"constraints = {json.dumps([expression(rng) for _ in range(rng.choice((1, 1, 3)))])}")
    if rng.randrange(4) == 0:
        lines.append(f'combine = "{rng.choice(("mean", "sum", "geomean", "max"))}"')
    lines += ["[parameters]", *rng.sample(VARIED, rng.choice((1, 1, 2)))]
    if rng.randrange(4) == 0:
        lines.append(f"{rng.choice(KEYS)} = [{value(rng)}, {value(rng)}]")
    if rng.randrange(3) == 0:
        lines += ["[derived]", f"{rng.choice(KEYS)} = {json.dumps(expression(rng))}"]
    if rng.randrange(4) == 0:
        lines += ["[limits]", f"{rng.choice(OBJECTIVES)} = {json.dumps(f'<= {rng.choice(NUMBERS)}')}"]
    if rng.randrange(2):
        kind = rng.choice(("random", "nsga2", "tpe", "grid"))
        lines += [
            "[sampler]",
            f'kind = "{kind}"',
            f"points = {rng.choice((1, 2, 4))}",
            f"seed = {rng.choice((0, 7))}",
        ]
        lines += ["batch = 2"] if kind in ("nsga2", "tpe") else []
    if rng.randrange(3) == 0:
        lines += ["[models]", f'"digits_cnn" = {rng.choice(NUMBERS)}']
    return "\n".join(lines) + "\n"


def run(seed: int, folder: Path, report: Report) -> None:
    """Search the space of a changed file, if it is small enough to be searched."""
    rng = random.Random(f"space {seed}")
    path = folder / FILE
    path.write_bytes(next(mutants(rng)))
    if _large(path, report):
        return
    words = ["explore", "digits_cnn", str(path), "--study", str(folder / "study"), "-j", "1"]
    if attempt(report, words) == 0:
        attempt(report, words)  # it is complete: the same study once more


def _large(path: Path, report: Report) -> bool:
    """Whether nobody would wait for the search; reading is judged by the command `explore`, which refuses or begins."""
    from npusim.isa.base.errors import NpusimError
    from npusim.study.space_file import read_space

    try:
        file = read_space(path)
    except NpusimError:
        return False
    points = file.space.size if file.sampling.kind == "grid" else file.sampling.points
    if points * (1 + file.space.effort) > 12:
        report.note("run")
        return True
    return False


KIND = Kind(
    "space files with changed values and expressions by `npusim explore`", run, prepare=study_lines.finished
)
