"""How many of the quantized cases of ../shared run wholly on the NPU, and why the others do not.

python -m tests.npusim.hal.test_share      the list of those with an operator on the host, by reason
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import npusim.hal as hal
from npusim.frontends.tflite import reader as tflite
from npusim.isa.hardware.file import hardware
from npusim.scheduler import compile_graph
from tests.conftest import shared_folder
from tests.examples import some

from .examples import all_examples, model, operations, request

LEAST_SHARE = 0.85


class Placed(NamedTuple):
    """A case: what it is of, and why an operator of it runs on the host, if one does."""

    what: str
    host: tuple[str, ...]


def of_examples(shared: Path) -> Iterator[Placed]:
    """The NNAPI examples with a quantized operand that give outputs."""
    timing, computing = hal.Device("edge-128", timing_only=True), hal.Device("edge-128")
    for _, example in all_examples(shared / "nnapi_examples"):
        graphs = [example["main"], *example.get("referenced", ())]
        kinds = {operand["type"] for graph in graphs for operand in graph["operands"]}
        if example["expectFailure"] or not any("QUANT" in kind for kind in kinds):
            continue
        made = model(example)
        given = request(example, made).request
        # Few need their data to be placed, to decide or to read a shape; computing it for all takes twice as long.
        timed = timing.prepareModel(made).unwrap().execute(given)
        if timed.status is hal.ErrorStatus.GENERAL_FAILURE:
            timed = computing.prepareModel(made).unwrap().execute(given)
        host = tuple(f"{call.op}: {call.reason}" for call in timed.unwrap().run.program.host_calls)
        yield Placed("+".join(operations(example)), host)


def of_litert(shared: Path) -> Iterator[Placed]:
    """The single operators whose outputs are LiteRT's."""
    machine = hardware("edge-128")
    for file in sorted((shared / "ops_litert_ref").glob("*.npz")):
        with np.load(file) as arrays:
            models = [name for name in sorted(arrays.files) if name.endswith("_model")]
            for name in some(models, 3, file.stem):
                program = compile_graph(tflite.parse(arrays[name].tobytes(), name), machine)
                yield Placed(file.stem, tuple(f"{call.op}: {call.reason}" for call in program.host_calls))


def share(cases: list[Placed]) -> float:
    """The part of the cases that runs wholly on the NPU."""
    return sum(not case.host for case in cases) / len(cases)


@pytest.mark.slow
def test_quantized_operations_run_on_the_npu(shared: Path) -> None:
    examples, litert = list(of_examples(shared)), list(of_litert(shared))
    reasons = Counter(reason for case in (*examples, *litert) for reason in case.host)
    assert share([*examples, *litert]) >= LEAST_SHARE, reasons.most_common(10)
    # Of the examples a sixth decides, sorts boxes, or reads where values say; nothing else may move to the host.
    assert share(examples) >= LEAST_SHARE - 0.01, reasons.most_common(10)
    assert all(reason.partition(": ")[2] for reason in reasons), "every host layer says why"


if __name__ == "__main__":
    folder = shared_folder()
    if folder is None:
        raise SystemExit("../shared is not beside this checkout")
    for title, cases in (("NNAPI examples", of_examples(folder)), ("LiteRT operators", of_litert(folder))):
        found = list(cases)
        on_npu = sum(not case.host for case in found)
        print(f"{title}: {on_npu} of {len(found)} quantized cases wholly on the NPU, {share(found):.1%}")
        for reason, count in Counter(reason for case in found for reason in set(case.host)).most_common():
            print(f"{count:6} {reason}")
