"""Mutated ONNX files: single operations and small quantized graphs with one to three changes to fields or bytes.

`npusim run` must end with 0 or with one line and 2. Where it runs, and ONNX Runtime runs the file as well, the outputs
are ONNX Runtime's.
"""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from npusim.frontends import frontend
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.tensor import Array

from ..npusim.frontends.onnx.mutants import mutant, seeds
from ..npusim.frontends.onnx.test_random_groups import sketched
from .child import Report
from .command import attempt, warm_up
from .harness import Kind
from .invariants import broken
from .models import OUTPUTS, RESULT, random_draw

MODEL = "model.onnx"
CLOSE = 1e-4
"""Of floats, relative to the largest of a tensor: sums depend on their order."""

EXACT = {
    *("Abs", "Add", "And", "ArgMax", "ArgMin", "Clip", "Concat", "DequantizeLinear", "Equal", "Expand", "Flatten"),
    *("Gather", "Greater", "Identity", "Less", "Max", "MaxPool", "Min", "Mul", "Neg", "Not", "Or", "Pad"),
    *("QuantizeLinear", "Relu", "Reshape", "Slice", "Split", "Squeeze", "Sub", "Tile", "Transpose", "Unsqueeze"),
    *("Where", "Xor"),
}  # fmt: skip
"""Operations without a choice of order or approximation: integers that they make are compared one by one."""

PER_CODE_OFF = 50
"""Of the other integers one in so many may be a code off, behind a function that ONNX Runtime approximates."""


@cache
def _originals() -> list[bytes]:
    return seeds()


def prepare() -> None:
    """Import and make what every case needs, once."""
    import onnxruntime  # noqa: F401

    warm_up()
    _originals()


def run(seed: int, folder: Path, report: Report) -> None:
    """Mutate a model and run it by the command line."""
    rng = random.Random(f"onnx {seed}")
    if rng.randrange(3):
        data = rng.choice(_originals())
    else:
        data = sketched(rng.randrange(1 << 30), rng.randint(1, 8))[0].SerializeToString()
    path, output, result = folder / MODEL, folder / OUTPUTS, folder / RESULT
    path.write_bytes(mutant(data, rng))
    if attempt(report, ["run", str(path), "--output", str(output), "--json", str(result)]):
        return
    for text in broken(json.loads(result.read_text())):
        report.note("broken invariant", text)


def check(folder: Path, report: Report) -> None:
    """The outputs against ONNX Runtime's, where it takes the file."""
    import onnx
    import onnxruntime

    path = folder / MODEL
    if not (folder / OUTPUTS).exists():
        report.note("not comparable", "no outputs")
        return
    try:
        inputs = random_draw(frontend.read(path))
    except NpusimError as fault:
        report.note("fault", str(fault))
        return
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]
        expected = session.run(None, dict(zip(names, inputs, strict=True)))
    except Exception as refusal:  # it has errors of many kinds
        report.note("not comparable", f"ONNX Runtime: {' '.join(str(refusal).split())[:200]}")
        return
    report.note("compared")
    with np.load(folder / OUTPUTS) as file:
        found = [file[f"out{i}"] for i in range(len(file.files))]
    kinds = {node.op_type for node in onnx.load(str(path)).graph.node}
    if "Pow" in kinds:
        # Powers beyond a whole number's type: ONNX leaves them open. npusim gives the nearest one as for every cast.
        found, expected = _within_whole(found, expected)
    if wrong := _differing(found, expected, kinds <= EXACT):
        report.note("wrong bytes", f"{' '.join(sorted(kinds))}: {wrong}")


def _within_whole(found: list[Array], expected: list[Any]) -> tuple[list[Array], list[Any]]:
    """Return the outputs with zeros where one of both is the largest or the smallest whole number of its type."""
    pairs = []
    for ours, theirs in zip(found, expected, strict=True):
        if ours.dtype.kind == "i" and (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape):
            limits = np.iinfo(ours.dtype)
            at_end = np.isin(ours, (limits.min, limits.max)) & np.isin(theirs, (limits.min, limits.max))
            ours, theirs = np.where(at_end, 0, ours), np.where(at_end, 0, theirs)
        pairs.append((ours, theirs))
    return [ours for ours, _ in pairs], [theirs for _, theirs in pairs]


def _differing(found: list[Array], expected: list[Any], exact: bool) -> str | None:
    """What is wrong with the first output that is not ONNX Runtime's."""
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            return (
                f"output {number}: {ours.dtype}{ours.shape}, ONNX Runtime gives {theirs.dtype}{theirs.shape}"
            )
        if ours.tobytes() == theirs.tobytes() or not ours.size:
            continue
        with np.errstate(all="ignore"):
            apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
            if ours.dtype.kind == "f":
                finite = np.abs(theirs[np.isfinite(theirs)].astype(np.float64))
                same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
                off = ~(same | (apart <= CLOSE * max(float(finite.max(initial=0.0)), 1e-30)))
            else:
                off = apart > (0 if exact else 1)
                if not exact and np.count_nonzero(apart) > max(1, ours.size // PER_CODE_OFF):
                    off = apart > 0
        if off.any():
            at = int(np.flatnonzero(off)[0])
            return (
                f"output {number}: {int(off.sum())} of {ours.size} differ, element {at}: {ours.reshape(-1)[at]!r}, "
                f"ONNX Runtime gives {theirs.reshape(-1)[at]!r}"
            )
    return None


KIND = Kind(
    "mutated ONNX files by `npusim run`, against ONNX Runtime where it takes them", run, check, prepare
)
