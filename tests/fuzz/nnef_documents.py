"""NNEF models: texts, folders and archives whose elements, data files or bytes were changed, by `npusim run`."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import numpy as np

from npusim.frontends.nnef.tensor_file import dump

from ..npusim.frontends.nnef.documents import flat
from ..npusim.frontends.nnef.mutants import CODES, SEEDS, mutant
from ..npusim.frontends.nnef.test_container import folder, tar, written
from .child import Report
from .command import attempt, warm_up
from .harness import Kind

NETWORK = flat("w = variable(shape = [4,4,3,3], label = 'block/w'); z = conv(x, w); y = relu(z);")
WEIGHTS = dump(np.arange(144, dtype=np.float32).reshape(4, 4, 3, 3))
MUTANTS = 12
"""Of each case: so many texts, and as many models with data."""


def run(seed: int, place: Path, report: Report) -> None:
    """Changed texts that stand alone, and changed models with data, in folders and archives."""
    rng = random.Random(f"nnef {seed}")
    for index in range(MUTANTS):
        path = written(place / f"{index}.nnef", _bytes(mutant(rng.choice(SEEDS), rng)))
        attempt(report, ("run", str(path), "--timing-only"))
        attempt(report, ("run", str(_model(place / f"model{index}", rng))))


def _model(path: Path, rng: random.Random) -> Path:
    """A folder or an archive with one thing changed."""
    files = {"graph.nnef": _bytes(NETWORK), "graph.quant": _bytes(CODES), "block/w.dat": WEIGHTS}
    name = rng.choice(sorted(files))
    files[name] = (
        _changed(files[name], rng) if name.endswith(".dat") else _bytes(mutant(files[name].decode(), rng))
    )
    match rng.randrange(3):
        case 0:
            return folder(path, files)
        case 1:
            return written(path.with_suffix(".tar"), _changed(tar(files), rng))
        case _:
            return written(path.with_suffix(".tgz"), gzip.compress(_changed(tar(files), rng), 1))


def _changed(data: bytes, rng: random.Random) -> bytes:
    """One or two bytes changed, or the end cut off, or nothing."""
    changed = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 2))):
        changed[rng.choice((rng.randrange(128), rng.randrange(len(data))))] = rng.randrange(256)
    return bytes(changed[: rng.choice((len(data), len(data), len(data), rng.randrange(len(data))))])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


KIND = Kind("changed NNEF models", run, prepare=warm_up)
