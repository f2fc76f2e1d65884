"""The single-operator cases of the reference material: what npusim makes of each.

`python -m tests.npusim.frontends.onnx.cases [FAMILY ...] [--reference] [--wrong]` counts them by family.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import npusim
from npusim.frontends import frontend
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.reference import evaluate

TOLERANCE = 1e-5
"""Of float results, relative."""


class Case(NamedTuple):
    """One model with its inputs in the order of the graph, and what ONNX Runtime gives without optimisation."""

    name: str
    family: str
    model: bytes
    inputs: list[Array]
    outputs: list[Array]
    said: dict[str, Any]


def families(folder: Path) -> list[str]:
    """Every family, by name."""
    return sorted(path.stem for path in (folder / "onnx/ops").glob("*.json"))


def cases(folder: Path, family: str) -> Iterator[Case]:
    """The cases of a family."""
    said = json.loads((folder / f"onnx/ops/{family}.json").read_text())
    with np.load(folder / f"onnx/ops/{family}.npz") as archive:
        names = set(archive.files)
        for number, case in enumerate(said["cases"]):
            inputs = [archive[f"c{number}_x{k}"] for k in range(99) if f"c{number}_x{k}" in names]
            outputs = [archive[f"c{number}_y{k}"] for k in range(99) if f"c{number}_y{k}" in names]
            yield Case(
                f"{family}[{number}]", family, archive[f"c{number}_model"].tobytes(), inputs, outputs, case
            )


def outcome(case: Case, *, by_machine: bool = True) -> tuple[str, int]:
    """ "" or what is wrong, and how many values differ."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.onnx"
        path.write_bytes(case.model)
        sizes = open_sizes(case)
        try:
            if by_machine:
                outputs = npusim.run(path, inputs=case.inputs, sizes=sizes).outputs or ()
            else:
                graph = frontend.read(path, sizes)
                values = evaluate(graph, case.inputs)
                outputs = tuple(values[number] for number in graph.outputs)
        except npusim.NpusimError as fault:
            return str(fault).partition("case.onnx: ")[2] or str(fault), 0
    return compared(case, outputs)


def open_sizes(case: Case) -> dict[str, tuple[int, ...]]:
    """The shapes of those inputs whose sizes the model leaves open."""
    import onnx

    graph = onnx.load_from_string(case.model).graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    return {
        value.name: data.shape
        for value, data in zip(inputs, case.inputs, strict=True)
        if any(not size.HasField("dim_value") for size in value.type.tensor_type.shape.dim)
    }


def compared(case: Case, outputs: Any) -> tuple[str, int]:
    """ "" or how outputs differ from those of a case, and how many values do."""
    if len(outputs) != len(case.outputs):
        return f"{len(outputs)} outputs, expected {len(case.outputs)}", 0
    differing = 0
    for found, wanted in zip(outputs, case.outputs, strict=True):
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            return f"{found.dtype}{list(found.shape)}, expected {wanted.dtype}{list(wanted.shape)}", 0
        if wanted.dtype.kind == "f":
            same = np.isclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
        else:
            same = found == wanted
        differing += int(np.size(same) - np.count_nonzero(same))
    return (f"{differing} values differ" if differing else ""), differing


def main() -> None:
    """Counts by family."""
    folder = Path(__file__).parents[5] / "shared"
    asked = [word for word in sys.argv[1:] if not word.startswith("--")]
    right = total = 0
    for family in families(folder):
        if asked and not any(family.startswith(word) for word in asked):
            continue
        results = [
            (case, *outcome(case, by_machine="--reference" not in sys.argv)) for case in cases(folder, family)
        ]
        good = sum(not wrong for _, wrong, _ in results)
        right, total = right + good, total + len(results)
        print(f"{family}: {good} of {len(results)}", flush=True)
        if "--wrong" in sys.argv:
            for case, wrong, _ in results:
                if wrong:
                    print(f"    {case.name} {case.said['ops']}: {wrong[:180]}")
    print(f"together {right} of {total}")


if __name__ == "__main__":
    main()
