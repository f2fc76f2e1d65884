"""Random graphs on random hardware: LiteRT's bytes, interpreter and machine alike, timing alone alike, sums hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import npusim
from npusim.frontends.tflite import reader as tflite
from npusim.isa.base.errors import CompileError, GraphError
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.file import to_toml
from npusim.isa.program.interpreter import interpret
from npusim.session.api import host_functions
from npusim.verification.litert import LiteRTError, installed

from ..litert.live import by_litert, difference
from ..litert.rows import ROWS, UNDEFINED, inputs_of, model
from ..random_graphs import deep_graph, random_graph
from .child import Report
from .hardware import random_hardware
from .harness import Kind
from .invariants import broken

MODEL, INPUTS, OUTPUTS, MACHINE = "model.tflite", "inputs.npz", "outputs.npz", "hardware.toml"
CODES = tuple(ROWS)


def draw(seed: int) -> tuple[str, bytes]:
    """A model: a graph of several operators three times out of four, or a single one. First what it is."""
    from npusim.frontends.tflite.export import written

    rng = np.random.default_rng([seed, 0])
    if rng.integers(4) == 0:
        code = CODES[rng.integers(len(CODES))]
        dtype = ROWS[code].dtypes[rng.integers(len(ROWS[code].dtypes))]
        return f"{code} {dtype}", model(code, dtype, int(rng.integers(2**31)))
    grow = deep_graph if rng.integers(3) == 0 else random_graph
    graph = grow(lambda low, high: int(rng.integers(low, high + 1)), portable=True)
    return "graph", written(graph)


def allowed(refusal: Exception) -> bool:
    """Whether a good model may be refused so: it does not fit, or LiteRT has no result for its scales either."""
    return "smallest tile" in str(refusal) or UNDEFINED.search(str(refusal)) is not None


def run(seed: int, folder: Path, report: Report) -> None:
    """Compile and run; the outputs stay in the folder for the comparison with LiteRT."""
    rng = np.random.default_rng([seed, 1])
    machine = random_hardware(rng)
    what, data = draw(seed)
    (folder / MODEL).write_bytes(data)
    (folder / MACHINE).write_text(to_toml(machine))
    (folder / "what").write_text(what)
    graph = tflite.parse(data, f"seed_{seed}")
    types = [graph.tensors[index].type for index in graph.inputs]
    inputs = inputs_of([(each.dtype, each.shape) for each in types], seed)
    np.savez(folder / INPUTS, *inputs)
    report.note("run")
    try:
        program = npusim.compile(graph, machine)
    except (CompileError, GraphError) as refusal:
        report.note("refused", str(refusal))
        if not allowed(refusal):
            report.note("bad message", str(refusal))
        return
    result = npusim.simulate(program, inputs)
    for text in broken(result.to_dict()):
        report.note("broken invariant", text)
    wrong = difference(interpret(program, inputs, host_functions(program)), result.outputs)
    if wrong:
        report.note("broken invariant", f"interpreter against machine: {wrong}")
    cycles = int(npusim.simulate(program, timing_only=True).cycles)
    if cycles != int(result.cycles):
        report.note("broken invariant", f"{int(result.cycles)} cycles, {cycles} with timing only")
    np.savez(folder / OUTPUTS, *result.outputs)


def arrays(path: Path) -> list[Array]:
    """The arrays of an npz file in their order."""
    with np.load(path) as file:
        return [file[f"arr_{i}"] for i in range(len(file.files))]


def check(folder: Path, report: Report) -> None:
    """The machine's bytes against LiteRT's."""
    if not installed():
        report.note("not comparable", "LiteRT is not installed")
        return
    what = (folder / "what").read_text()
    row = ROWS.get(what.rpartition(" ")[0])
    found = arrays(folder / OUTPUTS)
    try:
        expected = by_litert((folder / MODEL).read_bytes(), arrays(folder / INPUTS))
    except LiteRTError as refusal:  # of scales that no network has
        report.note("not comparable", str(refusal))
        return
    report.note("compared")
    if row is not None:
        found, expected = row.defined(found), row.defined(expected)
    wrong = difference(found, expected, row.tolerance if row is not None else 0.0)
    if wrong:
        report.note("wrong bytes", f"{what}: {wrong}")


KIND = Kind("random graphs on random hardware, against LiteRT", run, check)
