"""Mutated TFLite files: bytes of good ones changed, or fields of tables, operands and constants.

`npusim run` must end with 0 or with one line and 2. Where it runs, and LiteRT runs the file as well, the outputs are
LiteRT's.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from npusim import models
from npusim.frontends.inexpressible import Refusals
from npusim.frontends.tflite import reader as tflite
from npusim.frontends.tflite.export.subgraph_tables import subgraphs_of
from npusim.frontends.tflite.export.tflite_rewrites import expressible
from npusim.frontends.tflite.flatbuffer import FileSubgraph, FileTensor, serialize
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.operator.parameters import ByValue
from npusim.kernels.table import operator
from npusim.verification.litert import LiteRTError, Session, installed

from ..damage import DAMAGES
from ..litert.rows import CLOSE, RECURRENT, ROWS
from ..litert.sample import Sample
from ..random_graphs import random_graph
from .child import Report
from .command import attempt
from .harness import Kind
from .invariants import broken

MODEL, INPUTS, OUTPUTS, RESULT = "model.tflite", "inputs.npz", "outputs.npz", "result.json"
SMALL_BUILT_IN = ("digits_cnn", "ds_cnn")
INTEGERS = (
    -(2**31),
    -65536,
    -129,
    -128,
    -2,
    -1,
    0,
    1,
    2,
    3,
    4,
    7,
    127,
    255,
    256,
    4096,
    65535,
    65536,
    2**31 - 1,
)
SIZES = (0, -1, 1, 2, 3, 5, 17, 64, 255, 1000, 70_000, 2**20, 2**31 - 1)
SCALES = (
    0.0,
    1e-45,
    1e-38,
    1e-20,
    1e-9,
    1e-3,
    0.5,
    1.0,
    255.0,
    1e6,
    1e20,
    3e38,
    float("inf"),
    float("nan"),
    -1.0,
)
DTYPES = ("int8", "uint8", "int16", "int32", "int64", "float32", "bool", "float16")


# Fields


class Mutant:
    """The tables of a good model while they are changed."""

    def __init__(self, model: FileSubgraph, rng: random.Random) -> None:
        self.rng = rng
        self.name, self.description = "mutant", "changed"
        self.tensors, self.operators = list(model.tensors), list(model.operators)
        self.inputs, self.outputs = list(model.inputs), list(model.outputs)

    def data(self) -> bytes:
        rows = FileSubgraph(self.name, self.tensors, self.operators, self.inputs, self.outputs)
        return serialize(self.description, [rows])

    def change(self, gentle: bool) -> None:
        """One change of any field; a gentle one of scales, constants and options, which most readers let pass."""
        if gentle:
            changes = (self.scales, self.scales, self.scales, self.zero, self.data_of)
            at = self.rng.randrange(len(self.tensors))
            if self.rng.randrange(4):
                self.tensors[at] = self.rng.choice(changes)(self.tensors[at])
            else:
                self.option(self.rng.randrange(len(self.operators)))
            return
        self.rng.choice((self.tensor, self.tensor, self.operator, self.operator, self.ends))()

    # Tensors

    def tensor(self) -> None:
        at = self.rng.randrange(len(self.tensors))
        old = self.tensors[at]
        how = self.rng.choice((self.shape, self.dtype, self.scales, self.scales, self.zero, self.data_of))
        self.tensors[at] = how(old)

    def _typed(self, old: FileTensor, **fields: Any) -> FileTensor:
        type_ = replace(old.type, **fields)
        return replace(old, type=type_, data=_fitted(self.rng, old.data, type_))

    def shape(self, old: FileTensor) -> FileTensor:
        shape = list(old.type.shape)
        kind = self.rng.randrange(4)
        if kind == 0 or not shape:
            shape.insert(self.rng.randint(0, len(shape)), self.rng.choice((0, 1, 1, 2, 3)))
        elif kind == 1:
            del shape[self.rng.randrange(len(shape))]
        elif kind == 2:
            self.rng.shuffle(shape)
        else:
            shape[self.rng.randrange(len(shape))] = self.rng.choice(SIZES)
        return self._typed(old, shape=tuple(shape))

    def dtype(self, old: FileTensor) -> FileTensor:
        return self._typed(old, dtype=self.rng.choice(DTYPES))

    def scales(self, old: FileTensor) -> FileTensor:
        scaling = old.type.quantization
        if scaling is None or self.rng.randrange(6) == 0:
            chosen = None if scaling is not None else Quantization((0.5,), (0,))
            return replace(old, type=replace(old.type, quantization=chosen))
        scales = list(scaling.scales)
        at = self.rng.randrange(len(scales))
        scales[at] = (
            self.rng.choice(SCALES)
            if self.rng.randrange(2)
            else scales[at] * 2.0 ** self.rng.randint(-40, 40)
        )
        with np.errstate(over="ignore"):
            scales[at] = float(np.float32(scales[at]))
        if self.rng.randrange(8) == 0:
            scales += scales[:1]
        return replace(old, type=replace(old.type, quantization=replace(scaling, scales=tuple(scales))))

    def zero(self, old: FileTensor) -> FileTensor:
        scaling = old.type.quantization
        if scaling is None:
            return old
        points = list(scaling.zero_points)
        points[self.rng.randrange(len(points))] = self.rng.choice(INTEGERS)
        axis = self.rng.choice((scaling.axis, 0, 1, 3)) if scaling.axis is not None else None
        return replace(
            old, type=replace(old.type, quantization=replace(scaling, zero_points=tuple(points), axis=axis))
        )

    def data_of(self, old: FileTensor) -> FileTensor:
        """A constant with one other value, or that is none; or a constant where there was none."""
        if old.data is None:
            return replace(old, data=_fitted(self.rng, np.zeros(1), old.type))
        if self.rng.randrange(4) == 0:
            return replace(old, data=None)
        data = old.data.copy().reshape(-1)
        if data.size:
            value = self.rng.choice(INTEGERS)
            kind = data.dtype.kind
            data[self.rng.randrange(data.size)] = (
                np.array(value).astype(data.dtype) if kind in "iub" else self.rng.choice(SCALES)
            )
        return replace(old, data=data.reshape(old.data.shape))

    # Operators and ends

    def operator(self) -> None:
        at = self.rng.randrange(len(self.operators))
        how = self.rng.choice((self.option, self.option, self.operands, self.results, self.code, self.order))
        how(at)

    def option(self, at: int) -> None:
        old = self.operators[at]
        fields = dict(old.fields or {})
        if not fields:
            return
        name = self.rng.choice(list(fields))
        value = fields[name]
        if isinstance(value, bool):
            fields[name] = not value
        elif isinstance(value, float):
            fields[name] = float(np.float32(self.rng.choice(SCALES)))
        elif isinstance(value, tuple):
            fields[name] = (*value, self.rng.choice(INTEGERS))
        else:  # enumerations are bytes in the file
            small = name in ("Padding", "FusedActivationFunction", "OutputType")
            fields[name] = self.rng.randrange(8) if small else self.rng.choice(INTEGERS)
        self.operators[at] = replace(old, fields=fields)

    def operands(self, at: int) -> None:
        self.operators[at] = replace(self.operators[at], inputs=self._numbers(self.operators[at].inputs))

    def results(self, at: int) -> None:
        self.operators[at] = replace(self.operators[at], outputs=self._numbers(self.operators[at].outputs))

    def code(self, at: int) -> None:
        other = self.rng.choice([code for code in ROWS if " " not in code])
        if self.rng.randrange(2):
            self.operators[at] = replace(self.operators[at], code=other)
        else:
            self.operators[at] = replace(self.operators[at], version=self.rng.choice((0, 1, 2, 3, 5, 99, -1)))

    def order(self, at: int) -> None:
        other = self.rng.randrange(len(self.operators))
        swapped = self.operators[at], self.operators[other]
        self.operators[other], self.operators[at] = swapped

    def ends(self) -> None:
        which = self.rng.choice(("inputs", "outputs"))
        setattr(self, which, list(self._numbers(tuple(getattr(self, which)))))

    def _numbers(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """Tensor numbers with one more, one less, or another one."""
        found = list(numbers)
        any_number = self.rng.choice((-1, self.rng.randrange(len(self.tensors)), len(self.tensors)))
        kind = self.rng.randrange(3)
        if kind == 0 or not found:
            found.append(any_number)
        elif kind == 1:
            del found[self.rng.randrange(len(found))]
        else:
            found[self.rng.randrange(len(found))] = any_number
        return tuple(found)


def _fitted(rng: random.Random, data: Array | None, type_: TensorType) -> Array | None:
    """Data of another type made from that of a constant; as it was where the type has no sensible size."""
    if data is None or any(size < 0 for size in type_.shape) or type_.elements > 1 << 20:
        return data
    if rng.randrange(8) == 0:
        return data  # a buffer of another size than the shape says
    flat = data.reshape(-1)
    if not flat.size:
        return np.zeros(type_.shape, type_.dtype)
    with np.errstate(all="ignore"):
        return np.resize(flat, type_.elements).astype(type_.dtype).reshape(type_.shape)


# Cases


def _fields(rng: random.Random, seed: int) -> bytes:
    """A single operator or a graph, with one to three changed fields."""
    if rng.randrange(3) == 0:
        generator = np.random.default_rng(seed)
        graph = random_graph(
            lambda low, high: int(generator.integers(low, high + 1)), most_steps=4, portable=True
        )
        refusals = Refusals()
        [model] = subgraphs_of(expressible(graph, refusals), refusals)
    else:
        code = rng.choice(list(ROWS))
        sample = Sample(code, rng.choice(ROWS[code].dtypes), seed)
        model = sample.writer.subgraph(ROWS[code].draw(sample))
    mutant, gentle = Mutant(model, rng), rng.randrange(2) == 0
    for _ in range(rng.choice((1, 1, 2, 3))):
        mutant.change(gentle)
    return mutant.data()


def _bytes(rng: random.Random, seed: int) -> bytes:
    """The bytes of a single operator, a graph or a built-in model, damaged."""
    if rng.randrange(8) == 0:
        data = bytearray(models.path_or_bytes(rng.choice(SMALL_BUILT_IN)))
    else:
        code = rng.choice(list(ROWS))
        sample = Sample(code, rng.choice(ROWS[code].dtypes), seed)
        data = bytearray(sample.writer.finish(ROWS[code].draw(sample)))
    rng.choice((*DAMAGES, poke, poke, poke))(data, rng)
    return bytes(data)


def poke(data: bytearray, rng: random.Random) -> None:
    """Numbers of one, four and eight bytes, aligned as flatbuffers align them."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        size, form = rng.choice(((1, "<b"), (4, "<i"), (4, "<i"), (4, "<f"), (8, "<q")))
        at = rng.randrange(max(len(data) // size, 1)) * size
        value: float = rng.choice(SCALES) if form == "<f" else rng.choice(INTEGERS)
        if form == "<b":
            value = (int(value) + 128) % 256 - 128
        if at + size <= len(data):
            with_float = float(np.float32(value)) if form == "<f" else value
            struct.pack_into(form, data, at, with_float)


MUTATIONS: tuple[Callable[[random.Random, int], bytes], ...] = (_fields, _fields, _bytes)


def run(seed: int, folder: Path, report: Report) -> None:
    """Mutate a model and run it by the command line."""
    rng = random.Random(f"model {seed}")
    try:
        data = rng.choice(MUTATIONS)(rng, seed)
    except (struct.error, OverflowError, ValueError, TypeError, IndexError):
        return  # a change that no file can hold
    path = folder / MODEL
    path.write_bytes(data)
    output, result = folder / OUTPUTS, folder / RESULT
    if attempt(report, ["run", str(path), "--output", str(output), "--json", str(result)]):
        return
    for text in broken(json.loads(result.read_text())):
        report.note("broken invariant", text)


def check(folder: Path, report: Report) -> None:
    """The outputs against LiteRT's, where LiteRT takes the file."""
    path = folder / MODEL
    if not (folder / OUTPUTS).exists() or not installed():
        report.note("not comparable", "no outputs, or no LiteRT")
        return
    data = path.read_bytes()
    graph = tflite.parse(data, "mutant")
    inputs = random_draw(graph)
    with np.load(folder / OUTPUTS) as file:
        found = [file[f"out{i}"] for i in range(len(file.files))]
    try:
        expected = Session(data).run(inputs)
    except LiteRTError as refusal:
        report.note("not comparable", str(refusal))
        return
    if any(_undefined(graph, node) for node in graph.nodes):
        report.note("not comparable", "LiteRT shifts by a number of bits that C does not define")
        return
    report.note("compared")
    if any(operator(node.op).defined for node in graph.nodes):
        if len(graph.nodes) > 1 or graph.outputs != graph.nodes[0].outputs:
            return  # what is left undefined may be anywhere
        row = ROWS["CUSTOM TFLite_Detection_PostProcess"]
        found, expected = row.defined(found), row.defined(expected)
    recurrent = any(node.op.endswith(("lstm", "rnn")) for node in graph.nodes)
    wrong = differing(found, expected, RECURRENT if recurrent else CLOSE)
    if wrong:
        report.note("wrong bytes", wrong)


def _undefined(graph: Any, node: Any) -> bool:
    """Whether LiteRT's kernel shifts by a number of bits that C does not define.

    Comparisons of 8-bit values do with a scale of 1 or more, inverse square roots with a factor below 2^-11.
    """
    kinds = [graph.tensors[operand].type for operand in node.inputs if operand is not None]
    if node.op == "rsqrt" and kinds[0].quantized8:
        scale = graph.tensors[node.outputs[0]].type.quantization.scale
        return bool(kinds[0].quantization.scale ** 0.5 * scale > 2**11)
    compares = isinstance(node.parameters, ByValue)
    return compares and any(kind.quantized8 and max(kind.quantization.scales) >= 1 for kind in kinds)


def random_draw(graph: Any) -> list[Array]:
    """The inputs that `npusim run` draws for seed 0."""
    from npusim.isa.base.tensor import Placement
    from npusim.session.inputs import draw

    tensors = [graph.tensors[index] for index in graph.inputs]
    return draw([Placement(each.name, each.type, 0) for each in tensors], 0)


FINITE = (-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max))


def differing(found: list[Array], expected: list[Array], close: float) -> str | None:
    """Integers must be equal and floats close; what LiteRT gives another shape is not comparable."""
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            return f"output {number}: {ours.dtype}{ours.shape}, LiteRT gives {theirs.dtype}{theirs.shape}"
        if ours.tobytes() == theirs.tobytes():
            continue
        if ours.dtype.kind == "f":
            with np.errstate(all="ignore"):
                finite = np.abs(theirs[np.isfinite(theirs)])
                # LiteRT's fused activation limits infinite results to the largest number; see docs/validation.md.
                ours, theirs = (np.clip(each, *FINITE) for each in (ours, theirs))
                allowed = close * max(float(finite.max(initial=0.0)), 1e-30)
                if np.allclose(ours, theirs, rtol=close, atol=allowed, equal_nan=True):
                    continue
        at = int(np.flatnonzero(ours.reshape(-1) != theirs.reshape(-1))[0])
        count = int((ours != theirs).sum())
        return (
            f"output {number}: {count} of {ours.size} differ, element {at}: {ours.reshape(-1)[at]!r}, "
            f"LiteRT gives {theirs.reshape(-1)[at]!r}"
        )
    return None


KIND = Kind("mutated TFLite files by `npusim run`, against LiteRT where it takes them", run, check)
