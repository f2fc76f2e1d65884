"""Mutated compiled models: `.nnc` containers with bytes changed, with entries changed and the checksum mended.

A context must refuse them in one line, or restore what runs or says in one line why it does not. Any change of bytes
that the checksum does not follow is refused; what is not changed computes as before.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

from npusim import nnadapter as nna
from npusim.nnadapter.cache import nnc_container

from ..damage import DAMAGES
from . import programs
from .child import Report
from .harness import Kind

TOKEN = "fuzzed"
LACKING = "NPUSIM_LACKS_OPERATORS=depthwise_conv_2d,max_pool_2d;"
LONGEST_MESSAGE = 600


@contextmanager
def context() -> Iterator[nna.Context]:
    """An NPU that lacks what the host has."""
    with nna.Context([nna.Device.acquire("npusim"), nna.Device.acquire("npusim_host")], LACKING) as made:
        yield made


def gears_model() -> nna.Model:
    """relu(x) + 1 of two sizes."""
    model = nna.Model()
    x = model.add_operand(nna.OperandType(nna.FLOAT32, [-1, 4], dynamic=[[1, 4], [3, 4]]))
    y = model.relu(x)
    model.identify([x], [y, model.add(y, model.add_constant(np.ones((1, 4), np.float32)))])
    model.finish()
    return model


@cache
def bases() -> tuple[bytes, ...]:
    """The containers of two compiled models, which all cases share."""
    made = []
    for model in (nna.from_file("digits_cnn"), gears_model()):
        with context() as devices, tempfile.TemporaryDirectory() as folder:
            compilation = nna.Compilation(model, devices, cache_dir=folder, token=TOKEN)
            compilation.finish()
            assert compilation.cache_path is not None
            made.append(compilation.cache_path.read_bytes())
    return tuple(made)


def entry(data: bytes, rng: random.Random) -> bytes:
    """One to three entries, as what they are or as any bytes, and the checksum mended."""
    entries = nnc_container.read_cache(data)
    for key in rng.sample(list(entries), rng.choice((1, 1, 1, 2, 3))):
        entries[key] = _changed(key, entries[key], rng)
        if rng.randrange(20) == 0:
            entries[rng.choice((key, "more", "cache_9_model_buffer"))] = entries.pop(key)
    return nnc_container.write_cache(entries)


def _changed(key: str, value: bytes, rng: random.Random) -> bytes:
    if key.endswith("_model_buffer") and rng.randrange(4):
        return rng.choice((programs.whole, programs.inside, programs.metadata))(value, rng)
    if value[:1] == b"[" and rng.randrange(4):
        tree = json.loads(value)
        programs.change(tree, rng)
        return json.dumps(tree).encode()
    changed = bytearray(value)
    if len(changed) > 8:
        rng.choice(DAMAGES)(changed, rng)
    else:
        changed[rng.randrange(len(changed) + 1) :] = rng.randbytes(rng.randrange(9))
    return bytes(changed)


def run(seed: int, folder: Path, report: Report) -> None:
    """Change a compiled model, restore it and run it."""
    rng = random.Random(f"cache {seed}")
    before = rng.choice(bases())
    kind = rng.randrange(8)
    after = before if kind == 0 else programs.whole(before, rng) if kind < 3 else entry(before, rng)
    (folder / "nnc_container.nnc").write_bytes(after)
    report.note("run")
    with context() as devices:
        compilation = nna.Compilation(None, devices, token=TOKEN, buffer=after)
        try:
            compilation.finish()
        except nna.NNAdapterError as refused:
            report.note("refused")
            _message(str(refused), report)
            if after == before:
                report.note("broken invariant", f"refused as it was written: {refused}")
            return
        if kind in (1, 2) and after != before:
            report.note("broken invariant", "a damaged container is taken")
        _execute(compilation, report)


def _execute(compilation: nna.Compilation, report: Report) -> None:
    for gear in compilation.gears:
        execution = nna.Execution(compilation)
        try:
            for index, shape in enumerate(gear.shapes):
                execution.set_input(index, np.zeros(shape, compilation.inputs[index].dtype))
            execution.compute()
        except nna.NNAdapterError as refused:
            _message(str(refused), report)


def _message(text: str, report: Report) -> None:
    if not text.isprintable() or len(text) > LONGEST_MESSAGE:
        report.note("bad message", text)


KIND = Kind("mutated compiled models, restored and run", run, prepare=bases)
