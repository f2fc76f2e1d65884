"""Sound ONNX models with damage: to their bytes, or to their fields.

`python -m tests.npusim.frontends.onnx.mutants COUNT [SEED]` reads and runs so many and says what became of them.
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import npusim
from tests.npusim.frontends.onnx.coded_singles import CODED
from tests.npusim.frontends.onnx.models import model_of
from tests.npusim.frontends.onnx.older_singles import OLDER
from tests.npusim.frontends.onnx.singles import SINGLES

WHOLE = [0, 1, -1, 2, 3, 7, 255, -2, 1000, 2**16, 2**31 - 1, -(2**31), 2**40, 2**62, -(2**63)]
REAL = [0.0, -1.0, 0.5, 1e-30, 1e30, float("inf"), float("-inf"), float("nan")]
TEXTS = [
    "",
    "constant",
    "SAME_UPPER",
    "linear",
    "\0",
    "é" * 9,
    "x" * 3000,
    "ij,jk->ik",
    "...",
    "reverse",
    "add",
]

PLACES = ["../x", "/etc/passwd", "weights", "", "a/../../b", "\0"]

MOST_ELEMENTS = 1 << 22
"""Of a tensor of a model that is run, not only read."""


def seeds() -> list[bytes]:
    """The models that mutants are made of."""
    return [model_of(case).SerializeToString() for case in (*SINGLES, *CODED, *OLDER)]


def mutant(data: bytes, chance: random.Random) -> bytes:
    """A model with one to three changes."""
    if chance.random() < 0.25:
        return _bytes(data, chance)
    import onnx

    model = onnx.load_from_string(data)
    for _ in range(chance.randint(1, 3)):
        chance.choice(CHANGES)(model, chance)
    return model.SerializeToString()  # type: ignore[no-any-return]


def _bytes(data: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    return bytes(damaged[: chance.choice([len(damaged)] * 3 + [chance.randrange(len(damaged))])])


def _attribute(model: Any, chance: random.Random) -> None:
    node = chance.choice(model.graph.node)
    if not node.attribute:
        return
    one = chance.choice(node.attribute)
    match chance.randrange(6):
        case 0:
            node.attribute.remove(one)
        case 1:
            one.type = chance.randrange(15)
        case 2:
            one.name = chance.choice(TEXTS)
        case _ if len(one.ints):
            one.ints[chance.randrange(len(one.ints))] = chance.choice(WHOLE)
            if chance.random() < 0.3:
                one.ints.append(chance.choice(WHOLE))
        case _ if one.s:
            one.s = chance.choice(TEXTS).encode()
        case _ if one.type == 1:
            one.f = chance.choice(REAL)
        case _:
            one.i = chance.choice(WHOLE)


def _size(model: Any, chance: random.Random) -> None:
    value = chance.choice(model.graph.input) if model.graph.input else None
    if value is None or not value.type.tensor_type.shape.dim:
        return
    dims = value.type.tensor_type.shape.dim
    match chance.randrange(4):
        case 0:
            dims.add().dim_value = chance.choice(WHOLE)
        case 1:
            del dims[-1]
        case 2:
            chance.choice(dims).dim_param = chance.choice(["N", ""])
        case _:
            chance.choice(dims).dim_value = chance.choice(WHOLE)


def _type(model: Any, chance: random.Random) -> None:
    if model.graph.input:
        chance.choice(model.graph.input).type.tensor_type.elem_type = chance.randrange(28)


def _constant(model: Any, chance: random.Random) -> None:
    import onnx

    if not model.graph.initializer:
        return
    one = chance.choice(model.graph.initializer)
    match chance.randrange(5):
        case 0:
            one.data_type = chance.randrange(28)
        case 1:
            one.dims.append(chance.choice(WHOLE))
        case 2 if len(one.dims):
            one.dims[chance.randrange(len(one.dims))] = chance.choice(WHOLE)
        case 3:
            one.data_location = 1
            entry = one.external_data.add()
            entry.key, entry.value = (
                "location",
                chance.choice(PLACES),
            )
        case _:
            try:
                array = onnx.numpy_helper.to_array(one).copy()
            except Exception:  # damaged by the change before
                return
            choices: Sequence[float] = WHOLE if array.dtype.kind in "iu" else REAL
            if array.size and array.dtype.kind in "iuf":
                with np.errstate(all="ignore"):
                    array.reshape(-1)[chance.randrange(array.size)] = np.array(chance.choice(choices)).astype(
                        array.dtype
                    )
                one.CopyFrom(onnx.numpy_helper.from_array(array, one.name))


def _names(model: Any, chance: random.Random) -> None:
    node = chance.choice(model.graph.node)
    names = [*node.input, *node.output, "", "nothing"]
    side = chance.choice([node.input, node.output])
    match chance.randrange(4):
        case 0 if len(side):
            side[chance.randrange(len(side))] = chance.choice(names)
        case 1 if len(side):
            del side[-1]
        case 2:
            side.append(chance.choice(names))
        case _:
            node.op_type = chance.choice([case.name for case in SINGLES])


def _whole(model: Any, chance: random.Random) -> None:
    match chance.randrange(6):
        case 0:
            model.graph.node.append(chance.choice(model.graph.node))
        case 1:
            model.opset_import[0].version = chance.choice([0, 7, 11, 12, 13, 18, 24, 99, 2**62])
        case 2:
            chance.choice(model.graph.node).domain = chance.choice(["com.microsoft", "ai.onnx", "x"])
        case 3:
            model.graph.output.add().name = chance.choice(["in0", "out0", "nothing", ""])
        case 4:
            del model.graph.input[:]
        case _:
            model.graph.initializer.extend(model.graph.initializer[:1])


CHANGES: tuple[Callable[[Any, random.Random], None], ...] = (
    *(
        _attribute,
        _attribute,
        _attribute,
        _size,
        _size,
        _type,
        _constant,
        _constant,
        _constant,
        _names,
        _names,
        _whole,
    ),
)


def outcome(data: bytes, folder: Path) -> str:
    """ "" for a model that runs, else the line that says why it does not; anything else raises."""
    path = folder / "mutant.onnx"
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            graph = npusim.load(path)
            small = all(0 <= tensor.type.elements <= MOST_ELEMENTS for tensor in graph.tensors)
            if small and len(graph.nodes) < 200:
                npusim.run(path)
        except npusim.NpusimError as fault:
            return str(fault)
    return ""


def _kept(number: int) -> Path:
    """Where a mutant is left for whoever looks into it."""
    return Path(tempfile.gettempdir()) / f"onnx_mutant_{number}.onnx"


def main() -> None:
    """Counts what became of mutants."""
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 12
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    chance, originals = random.Random(seed), seeds()
    counted: Counter[str] = Counter()
    peak = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            data = mutant(chance.choice(originals), chance)
            try:
                said = outcome(data, Path(folder))
            except Exception:
                counted["traceback"] += 1
                print(f"--- {number}", *traceback.format_exc().splitlines()[-7:], sep="\n", flush=True)
                _kept(number).write_bytes(data)
                continue
            if len(said.splitlines()) > 1:
                print(f"--- {number}: {said!r}", flush=True)
            counted[
                "runs" if not said else "refused" if len(said.splitlines()) == 1 else "several lines"
            ] += 1
            now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            if now > peak + 100:
                print(f"--- {number}: peak {now} MiB: {said[:150]}", flush=True)
                _kept(number).write_bytes(data)
                peak = now
    print(dict(counted), f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")


if __name__ == "__main__":
    main()
