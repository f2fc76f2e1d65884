"""The operation cases of ../shared/nnadapter/ops as models of NNAdapter, and their tolerance.

`python -m tests.npusim.nnadapter.operations` tries each of them in all ways, and prints a table by operation. Words
name operations or cases.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import npusim
import npusim.nnadapter as nna
from npusim.frontends.nnadapter.nnadapter_codes import NNAdapterError, OperationType, Precision
from npusim.frontends.nnadapter.operand import Operand
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.tensor import Array

COUNT = 270
WAYS = ("graph", "npusim", "npusim_host", "npusim+npusim_host")
"""The graph of the whole model on the default machine; then contexts of these devices."""


@dataclass
class Case:
    """One operation: its definition, and the values of all operands by their index."""

    id: str
    operation: str
    operands: list[dict[str, Any]]
    inputs: list[int | None]
    outputs: list[int]
    tolerance: float
    values: list[Array]


@dataclass
class Built:
    """A case as a finished model, and what goes in and should come out."""

    model: nna.Model
    given: list[Array] = field(default_factory=list)
    expected: list[Array] = field(default_factory=list)


@cache
def cases(shared: Path) -> dict[str, Case]:
    """Every case by its name."""
    folder = shared / "nnadapter" / "ops"
    lines = [json.loads(line) for line in (folder / "cases.jsonl").read_text().splitlines()]
    with np.load(folder / "data.npz") as data:
        return {
            line["id"]: Case(
                *(line[key] for key in ("id", "operation", "operands", "inputs", "outputs", "tolerance")),
                [data[f"{line['id']}/{number}"] for number in range(len(line["operands"]))],
            )
            for line in lines
        }


def operand_type(row: dict[str, Any]) -> OperandType:
    """The type of an operand of a case."""
    scaling = {key: row[key] for key in ("scale", "zero_point", "scales", "channel_dim") if key in row}
    return OperandType(Precision[row["precision"]], row["dimensions"], **scaling)


def built(case: Case) -> Built:
    """The model of a case. Raises NNAdapterError for one that is refused."""
    model = nna.Model(case.id)
    made = Built(model)
    ends: dict[str, list[Operand]] = {"input": [], "output": []}
    operands = []
    for row, value in zip(case.operands, case.values, strict=True):
        operand = model.add_operand(operand_type(row))
        operands.append(operand)
        if row["role"] == "constant":
            model.set_operand_value(operand, value.astype(operand.type.dtype, copy=False))
            continue
        ends[row["role"]].append(operand)
        (made.given if row["role"] == "input" else made.expected).append(value)
    inputs = [None if number is None else operands[number] for number in case.inputs]
    model.add_operation(OperationType[case.operation], inputs, [operands[number] for number in case.outputs])
    model.identify(ends["input"], ends["output"])
    model.finish()
    return made


def outputs_of(made: Built, way: str) -> list[Array]:
    """What a case gives in one way."""
    if way == "graph":
        return outputs_of_graph(made)
    context = nna.Context([nna.Device.acquire(name) for name in way.split("+")])
    compilation = nna.Compilation(made.model, context)
    compilation.finish()
    execution = nna.Execution(compilation)
    for index, value in enumerate(made.given):
        execution.set_input(index, value)
    return list(execution.compute().outputs)


def outputs_of_graph(made: Built) -> list[Array]:
    """What the graph of the whole model gives on the default machine."""
    network = made.model.network()
    graph = network.piece(range(len(network.steps))).graph
    program = npusim.compile(graph)
    return [np.asarray(output) for output in npusim.simulate(program, made.given).outputs]


def fault(case: Case, way: str) -> str:
    """What is wrong with the outputs of a case; "" where nothing is."""
    try:
        made = built(case)
        outputs = outputs_of(made, way)
    except NNAdapterError as error:
        return f"{error.code.name}: {error}"
    except NpusimError as error:
        return f"{type(error).__name__}: {error}"
    for number, (got, wanted) in enumerate(zip(outputs, made.expected, strict=True)):
        if got.shape != wanted.shape:
            return f"outputs[{number}] has shape {list(got.shape)}, must be {list(wanted.shape)}"
        if got.dtype != wanted.dtype:
            return f"outputs[{number}] has type {got.dtype}, must be {wanted.dtype}"
        if not close(got, wanted, case.tolerance):
            return f"outputs[{number}] differs: {_difference(got, wanted)}"
    return ""


def close(got: Array, wanted: Array, tolerance: float) -> bool:
    """|got - wanted| <= tolerance * (1 + |wanted|) for every element; 0: equal."""
    if not tolerance or got.dtype.kind != "f":
        return np.array_equal(got, wanted)
    error = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
    return bool(np.all(error <= tolerance * (1 + np.abs(wanted.astype(np.float64)))))


def _difference(got: Array, wanted: Array) -> str:
    error = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
    place = np.unravel_index(np.argmax(error), error.shape)
    wrong = f"{(error > 0).sum()} of {error.size}, most at {[int(at) for at in place]}"
    return f"{wrong}: {got[place]}, not {wanted[place]}"


def chosen(shared: Path, names: Sequence[str]) -> Iterator[Case]:
    """The cases of operations, or cases, with these names; all of them without names."""
    for case in cases(shared).values():
        if not names or case.operation in names or case.id in names:
            yield case


def main(names: Sequence[str]) -> None:
    """Prints a table by operation, then what failed."""
    from tests.conftest import shared_folder

    folder = shared_folder()
    if folder is None:
        raise SystemExit("../shared is not beside this checkout")
    counts: dict[str, Counter[str]] = {}
    faults = []
    for case in chosen(folder, [name.upper() for name in names]):
        row = counts.setdefault(case.operation, Counter())
        row["n"] += 1
        for way in WAYS:
            try:
                why = fault(case, way)
            except Exception as error:
                why = f"raised {type(error).__name__}: {error}"
            row[way] += not why
            if why:
                faults.append(f"{case.id} {way}: {why}")
    print(f"{'operation':28} {'n':>4} " + " ".join(f"{way:>18}" for way in WAYS))
    for operation, row in sorted(counts.items()):
        passed = " ".join(f"{row[way]:18}" for way in WAYS)
        mark = "" if all(row[way] == row["n"] for way in WAYS) else "  <--"
        print(f"{operation:28} {row['n']:4} {passed}{mark}")
    total = sum((row for row in counts.values()), Counter())
    print(f"{'all':28} {total['n']:4} " + " ".join(f"{total[way]:18}" for way in WAYS))
    print("\n".join(["", *faults]))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
