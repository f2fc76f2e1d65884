"""The NNAPI examples of ../shared/nnapi_examples as models and requests of the HAL, and the tolerance of their suite.

An example is a JSON object (its README says what the keys mean). It is tried in several ways:

    plain      as it is: parameters and weights are constants of the model, sizes are known
    fed        constant tensors are inputs of the model instead, as the suite's own variation has it
    sizes      sizes of inputs and of what lies between are open in the model; the request gives them
    outputs    sizes of outputs are open, from V1_2 on also their rank; buffers are longer than needed
    short      each output in turn has one byte too few: the status says so, the shapes are the true ones
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import npusim.hal as hal
from npusim.hal import ErrorStatus, HalVersion, OperandLifeTime, OperandType, OperationType

Json = Mapping[str, Any]

WAYS = ("plain", "fed", "sizes", "outputs", "short")

DTYPES = {
    "FLOAT32": "float32",
    "INT32": "int32",
    "UINT32": "uint32",
    "TENSOR_FLOAT32": "float32",
    "TENSOR_INT32": "int32",
    "TENSOR_QUANT8_ASYMM": "uint8",
    "BOOL": "bool",
    "TENSOR_QUANT16_SYMM": "int16",
    "TENSOR_FLOAT16": "float16",
    "TENSOR_BOOL8": "bool",
    "FLOAT16": "float16",
    "TENSOR_QUANT8_SYMM_PER_CHANNEL": "int8",
    "TENSOR_QUANT16_ASYMM": "uint16",
    "TENSOR_QUANT8_SYMM": "int8",
    "TENSOR_QUANT8_ASYMM_SIGNED": "int8",
}
"""How the elements of each operand type lie in memory."""

_LIFETIMES = {"SUBGRAPH_INPUT": "MODEL_INPUT", "SUBGRAPH_OUTPUT": "MODEL_OUTPUT"}
_GUARD = 0xA5
"""What bytes of output pools hold before and, where nothing is to be written, after."""
_SPARE_BYTES = 24


class Outcome(NamedTuple):
    """What became of an example: passed, or why not."""

    passed: bool
    why: str = ""
    cycles: int = 0


def load(file: Path) -> list[Json]:
    """The examples of one file."""
    with gzip.open(file) as stream:
        examples: list[Json] = json.load(stream)["examples"]
    return examples


def files(folder: Path) -> list[Path]:
    """All files of examples, in order."""
    return sorted(folder.glob("*/*.json.gz"))


def operations(example: Json) -> tuple[str, ...]:
    """The operations of an example, those of its referenced graphs included, each once."""
    graphs = (example["main"], *example["referenced"])
    return tuple(dict.fromkeys(each["type"] for graph in graphs for each in graph["operations"]))


def element_type(example: Json) -> str:
    """The type that an example is counted under: that of the first tensor of its first operation."""
    main = example["main"]
    kinds = [main["operands"][number]["type"] for number in main["operations"][0]["inputs"]]
    return next((kind for kind in kinds if kind.startswith("TENSOR")), kinds[0])


def holds(array: np.ndarray[Any, Any]) -> bytes:
    """The bytes of an array as memory has them."""
    return np.ascontiguousarray(array).tobytes()


def value_of(operand: Json) -> np.ndarray[Any, Any]:
    """The value of an operand in its shape."""
    with np.errstate(over="ignore"):
        flat = np.array(operand["value"], np.float64 if "FLOAT" in operand["type"] else None)
        flat = flat.astype(DTYPES[operand["type"]])
    dims = operand["dims"]
    if "TENSOR" not in operand["type"]:
        return flat.reshape(())
    if 0 in dims and flat.size:
        return flat.reshape([-1 if size == 0 else size for size in dims])
    return flat.reshape(dims)


def _is_omitted(operand: Json) -> bool:
    """Inputs without a value are optional ones that are left out: no model has an input of size zero."""
    return operand["lifetime"] == "SUBGRAPH_INPUT" and operand["value"] == []


class Maker:
    """The model of an example, one way."""

    def __init__(self, example: Json, way: str) -> None:
        self.example = example
        self.way = way
        self.version = HalVersion[example["version"]]
        self.copied = bytearray()
        self.pool = bytearray()
        self.fed: list[int] = []

    def model(self) -> hal.Model:
        """The model."""
        main = self._graph(self.example["main"], outermost=True)
        referenced = [self._graph(graph) for graph in self.example["referenced"]]
        return hal.Model(
            main.operands,
            main.operations,
            main.inputIndexes,
            main.outputIndexes,
            operandValues=bytes(self.copied),
            pools=[self.pool] if self.pool else [],
            relaxComputationFloat32toFloat16=self.example["relaxed"],
            referenced=referenced,
            version=self.version,
        )

    def _graph(self, graph: Json, outermost: bool = False) -> hal.Subgraph:
        consumers = Counter(number for each in graph["operations"] for number in each["inputs"])
        operands = [
            self._operand(operand, consumers[number], number if outermost else None)
            for number, operand in enumerate(graph["operands"])
        ]
        done = [
            hal.Operation(OperationType[each["type"]], list(each["inputs"]), list(each["outputs"]))
            for each in graph["operations"]
        ]
        inputs = [*graph["inputIndexes"], *(self.fed if outermost else ())]
        return hal.Subgraph(operands, done, inputs, list(graph["outputIndexes"]))

    def _operand(self, operand: Json, consumers: int, number: int | None) -> hal.Operand:
        lifetime = _LIFETIMES.get(operand["lifetime"], operand["lifetime"])
        dims = list(operand["dims"])
        if "channelQuant" not in operand and number is not None:
            dims = self._dims(operand, dims)
        made = hal.Operand(
            OperandType[operand["type"]],
            dims,
            consumers,
            float(np.float32(operand["scale"])),
            operand["zeroPoint"],
            OperandLifeTime[lifetime],
        )
        if operand.get("channelQuant"):
            scales = [float(np.float32(scale)) for scale in operand["channelQuant"]["scales"]]
            made.extraParams = hal.SymmPerChannelQuantParams(scales, operand["channelQuant"]["channelDim"])
        if lifetime == "SUBGRAPH":
            made.location = hal.DataLocation(0, operand["value"][0], 0)
        if lifetime.startswith("CONSTANT"):
            if self._feeds(operand, number):
                assert number is not None
                self.fed.append(number)
                made.lifetime = OperandLifeTime.MODEL_INPUT
            else:
                target = self.copied if lifetime == "CONSTANT_COPY" else self.pool
                data = holds(value_of(operand))
                target.extend(bytes(-len(target) % 4))
                made.location = hal.DataLocation(0, len(target), len(data))
                target.extend(data)
        return made

    def _feeds(self, operand: Json, number: int | None) -> bool:
        """Constants that are inputs instead: tensors of the main graph that hold something."""
        wanted = self.way == "fed" and number is not None and operand["type"].startswith("TENSOR")
        return wanted and bool(operand["value"])

    def _dims(self, operand: Json, dims: list[int]) -> list[int]:
        if not operand["type"].startswith("TENSOR"):
            return dims
        lifetime, late = operand["lifetime"], self.version >= HalVersion.V1_2
        if self.way == "sizes" and (
            lifetime in ("SUBGRAPH_INPUT", "TEMPORARY_VARIABLE")
            or (lifetime == "SUBGRAPH_OUTPUT" and not late)
        ):
            return [0] * len(dims)
        if self.way == "outputs" and late and lifetime in ("SUBGRAPH_OUTPUT", "TEMPORARY_VARIABLE"):
            return [] if sum(dims) % 2 else [0] * len(dims)
        return dims


def model(example: Json, way: str = "plain") -> hal.Model:
    """The model of an example."""
    return Maker(example, way).model()


class Given(NamedTuple):
    """A request, and where its outputs lie in its pools: (pool, offset, bytes of the value, spare bytes)."""

    request: hal.Request
    outputs: list[tuple[bytearray, int, int, int]]


def request(example: Json, made: hal.Model, way: str = "plain", short: int | None = None) -> Given:
    """The request of an example for a model of it; output `short` has a byte too few."""
    operands = example["main"]["operands"]
    pool, arguments = bytearray(b"\xff"), []  # at any alignment
    for number in made.inputIndexes:
        operand = operands[number]
        if _is_omitted(operand):
            arguments.append(hal.RequestArgument(hasNoValue=True))
            continue
        value = value_of(operand)
        data = holds(value)
        dims = list(value.shape) if way == "sizes" else []
        arguments.append(
            hal.RequestArgument(location=hal.DataLocation(0, len(pool), len(data)), dimensions=dims)
        )
        pool += data
    written, results, places = bytearray(), [], []
    for position, number in enumerate(made.outputIndexes):
        operand = operands[number]
        value = value_of(operand)
        size = len(holds(value))
        spare = _SPARE_BYTES if way == "outputs" or not size else 0
        length = size + spare - (position == short)
        early = way == "sizes" and made.version < HalVersion.V1_2
        dims = list(value.shape) if early else []
        results.append(
            hal.RequestArgument(location=hal.DataLocation(1, len(written), length), dimensions=dims)
        )
        places.append((written, len(written), size, spare))
        written += bytes([_GUARD]) * length
    return Given(hal.Request(arguments, results, [pool, written]), places)


def outcome(device: hal.Device, example: Json, way: str = "plain") -> Outcome:
    """Prepares and executes an example, and compares what comes."""
    made = model(example, way)
    prepared = device.prepareModel(made)
    if prepared.status is not ErrorStatus.NONE:
        return _failed(example, "prepareModel", prepared.status, prepared.message)
    if way == "short":
        return _too_short(prepared.value, example, made)
    given = request(example, made, way)
    done = prepared.value.execute(given.request)
    if done.status is not ErrorStatus.NONE:
        return _failed(example, "execute", done.status, done.message)
    if example["expectFailure"]:
        return Outcome(False, "succeeded, must fail")
    why = differences(example, given, done.value)
    return Outcome(not why, why, int(done.value.run.cycles))


def _failed(example: Json, call: str, status: hal.ErrorStatus, message: str) -> Outcome:
    if example["expectFailure"]:
        wanted = {ErrorStatus.INVALID_ARGUMENT, ErrorStatus.MISSED_DEADLINE_TRANSIENT}
        return Outcome(status in wanted, f"{call}: {status.name}: {message}")
    return Outcome(False, f"{call}: {status.name}: {message}")


def differences(example: Json, given: Given, done: hal.Execution) -> str:
    """What an execution gave that the example does not expect; empty if nothing."""
    operands, outputs = example["main"]["operands"], example["main"]["outputIndexes"]
    for position, (number, place) in enumerate(zip(outputs, given.outputs, strict=True)):
        operand, shape = operands[number], done.outputShapes[position]
        wanted = value_of(operand)
        if list(shape.dimensions) != list(wanted.shape) or not shape.isSufficient:
            return f"outputs[{position}]: shape {shape}, must be {list(wanted.shape)}"
        pool, offset, size, spare = place
        if any(byte != _GUARD for byte in pool[offset + size : offset + size + spare]):
            return f"outputs[{position}]: bytes behind it were written"
        if operand.get("ignored"):
            continue
        got = np.frombuffer(bytes(pool[offset : offset + size]), wanted.dtype).reshape(wanted.shape)
        why = _difference(example, operand["type"], got, wanted)
        if why:
            return f"outputs[{position}]: {why}"
    return ""


def _difference(example: Json, kind: str, got: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> str:
    if example["multinomialTolerance"]:
        return _frequencies(example, got)
    if kind == "TENSOR_BOOL8":
        wrong = got != wanted
        return f"{wrong.sum()} of {wrong.size} truths differ" if wrong.any() else ""
    absolute, relative = _tolerance(example, kind)
    with np.errstate(invalid="ignore"):
        near = np.abs(got.astype(np.float64) - wanted) <= absolute + relative * np.abs(
            wanted.astype(np.float64)
        )
    near |= (got == wanted) | ((got != got) & (wanted != wanted))
    if near.all():
        return ""
    first = np.unravel_index(int(np.argmin(near)), near.shape)
    where = list(map(int, first))
    return f"{(~near).sum()} of {near.size} elements differ, at {where} {got[first]}, not {wanted[first]}"


def _tolerance(example: Json, kind: str) -> tuple[float, float]:
    """(absolute, relative) of a type, as the suite has it."""
    if "FLOAT" not in kind:
        return (3.0 if "mobilenet" in example["test"] else 1.0), 0.0
    graphs = (example["main"], *example["referenced"])
    half = any(each["type"] == "TENSOR_FLOAT16" for graph in graphs for each in graph["operands"])
    return (5 * 2**-10, 5 * 2**-10) if half or example["relaxed"] else (1e-5, 5 * 2**-23)


def _frequencies(example: Json, samples: np.ndarray[Any, Any]) -> str:
    """How far the classes of samples [batch, n] are from the distributions of the input [batch, classes]."""
    main = example["main"]
    logits = value_of(main["operands"][main["operations"][0]["inputs"][0]]).astype(np.float64)
    odds = np.exp(logits - logits.max(-1, keepdims=True))
    odds /= odds.sum(-1, keepdims=True)
    counts = [np.bincount(row, minlength=odds.shape[-1])[: odds.shape[-1]] for row in samples]
    worst = np.abs(np.array(counts) / samples.shape[-1] - odds).max()
    return "" if worst <= example["multinomialTolerance"] else f"frequencies are off by {worst:.3g}"


def _too_short(prepared: hal.PreparedModel, example: Json, made: hal.Model) -> Outcome:
    """Each output with a byte in turn."""
    for position in range(len(made.outputIndexes)):
        given = request(example, made, short=position)
        if not given.outputs[position][2]:
            continue
        done = prepared.execute(given.request)
        if example["expectFailure"]:
            return _failed(example, "execute", done.status, done.message)
        if done.status is not ErrorStatus.OUTPUT_INSUFFICIENT_SIZE:
            return Outcome(False, f"outputs[{position}] short: {done.status.name}: {done.message}")
        shapes = [list(value_of(example["main"]["operands"][number]).shape) for number in made.outputIndexes]
        wanted = [hal.OutputShape(shape, at != position) for at, shape in enumerate(shapes)]
        if done.value is None or list(done.value.outputShapes) != wanted:
            return Outcome(
                False, f"outputs[{position}] short: shapes {done.value and done.value.outputShapes}"
            )
        if not done.message.startswith(f"outputs[{position}]"):
            return Outcome(False, f"outputs[{position}] short: message {done.message!r}")
    return Outcome(True)


def all_examples(folder: Path, names: Sequence[str] = ()) -> Iterator[tuple[Path, Json]]:
    """Every example with its file; of those whose file or operations have one of `names` in them."""
    for file in files(folder):
        for example in load(file):
            text = " ".join((file.parent.name, file.name, example["test"], *operations(example)))
            if not names or any(name in text for name in names):
                yield file, example


def main(names: Sequence[str]) -> None:
    """Prints a table by operation and type, then what failed. Words name files, tests or operations; a way in front."""
    import time

    from tests.conftest import shared_folder

    ways = [name for name in names if name in WAYS] or list(WAYS)
    folder = shared_folder()
    if folder is None:
        raise SystemExit("../shared is not beside this checkout")
    table: dict[tuple[str, str], Counter[str]] = {}
    failures: Counter[tuple[str, str, str]] = Counter()
    first: dict[tuple[str, str, str], str] = {}
    begin = time.process_time()
    device = hal.Device()
    for _, example in all_examples(folder / "nnapi_examples", [name for name in names if name not in WAYS]):
        key = "+".join(operations(example)), element_type(example)
        row = table.setdefault(key, Counter())
        row["n"] += 1
        for way in ways:
            try:
                done = outcome(device, example, way)
            except Exception as fault:
                done = Outcome(False, f"raised {type(fault).__name__}: {fault}")
            row[way] += done.passed
            if not done.passed:
                reason = key[0], way, done.why[:230]
                failures[reason] += 1
                first.setdefault(reason, f"{example['version']}/{example['spec']} {example['test']}")
    seconds = time.process_time() - begin
    print(f"{'operation':44} {'type':32} {'n':>5} " + " ".join(f"{way:>8}" for way in ways))
    for (operation, kind), row in sorted(table.items()):
        counts = " ".join(f"{row[way]:8}" for way in ways)
        mark = "" if all(row[way] == row["n"] for way in ways) else "  <--"
        print(f"{operation:44.44} {kind:32} {row['n']:5} {counts}{mark}")
    total = sum((row for row in table.values()), Counter())
    print(f"{'all':77} {total['n']:5} " + " ".join(f"{total[way]:8}" for way in ways))
    print(f"{seconds:.0f} s of CPU\n")
    for (operation, way, why), count in sorted(failures.items()):
        print(f"{count:4} {operation:30.30} {way:8} {why}  [{first[operation, way, why]}]")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
