"""Whether npusim computes what LiteRT computes: a model on both, layer by layer.

Two things are compared, both byte by byte:

**Layers.** Every layer is computed with its operator's numpy reference from npusim's own values, and each of its
results is compared with the tensor that LiteRT's reference kernels (BUILTIN_REF) leave. A layer that differs is
computed once more from LiteRT's values: if it then agrees, only what went in was different, and it `follows` an earlier
layer.

**Outputs.** The compiled program is executed by the machine; its outputs are compared with those of the references. So
a fault of the compiler or of the machine shows here, and one of the arithmetic there. Where outputs differ, the network
is compiled once more with every tensor as an output, which says at which layer the machine's bytes part.

Sums of floats depend on their order. A float32 tensor whose elements are within `CLOSE` times the largest magnitude of
LiteRT's is `close`; it does not count as a difference, and neither does what follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from mmap import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from npusim.frontends.tflite import reader as tflite
from npusim.isa.base import user_file
from npusim.isa.base.errors import CompileError, FormatError, NpusimError
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.bind import Sizes
from npusim.kernels.graph.graph import Graph, Node
from npusim.kernels.graph.reference import beginning, results
from npusim.kernels.table import operator
from npusim.session import inputs as values
from npusim.session.api import DEFAULT_HARDWARE, compile_program, hardware, simulate
from npusim.session.opening import PROGRAM_SUFFIX
from npusim.verification import litert as litert_reference

if TYPE_CHECKING:
    from npusim.isa.hardware.hardware import Hardware
    from npusim.isa.program.program import Program
    from npusim.session.inputs import Inputs

CLOSE = 1e-5
"""How far floats may be from LiteRT's, as a share of the largest magnitude in the tensor."""

Verdict = Literal["equal", "close", "follows", "different", "not kept"]
"""What comes of a tensor: the same bytes; floats within `CLOSE`; different only because what went in is; different;
LiteRT keeps no value of it."""

VERDICTS: tuple[Verdict, ...] = ("equal", "close", "follows", "different", "not kept")

Values = Mapping[int, Array]
"""Values of tensors by their number in the file."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first element of a tensor that differs.

    sample:  which inputs, from 0.
    place:   "layer" where a reference and LiteRT differ, "machine" where machine and reference do.
    index:   of the element, one number per axis.
    npusim, litert: the two values; where `place` is "machine", the machine's and the reference's.
    differing: how many of the tensor's `elements` differ.
    """

    sample: int
    place: Literal["layer", "machine"]
    layer: str
    op: str
    tensor: str
    index: tuple[int, ...]
    npusim: int | float | bool
    litert: int | float | bool
    differing: int
    elements: int


@dataclass(frozen=True, slots=True)
class TensorVerdict:
    """What came of one result of a layer, over all inputs; `bytes` is its size."""

    layer: str
    op: str
    tensor: str
    dtype: str
    bytes: int
    verdict: Verdict


@dataclass(frozen=True)
class Verification:
    """What came of a model.

    litert:    the version of LiteRT.
    samples:   on how many inputs.
    tensors:   a row per result of a layer, in the order of the layers; the worst verdict over all inputs.
    outputs:   how many outputs of the machine were compared with the references, over all inputs.
    output_bytes: their bytes.
    first:     the first difference, None if there is none.
    """

    model: str
    hardware: str
    litert: str
    samples: int
    tensors: tuple[TensorVerdict, ...]
    outputs: int
    output_bytes: int
    first: Difference | None

    @property
    def equal(self) -> bool:
        """Whether npusim computes what LiteRT computes, floats within `CLOSE`."""
        return self.first is None

    @property
    def compared_tensors(self) -> int:
        """How many tensors were compared, over all inputs."""
        return self.samples * sum(row.verdict != "not kept" for row in self.tensors)

    @property
    def compared_bytes(self) -> int:
        """Their bytes."""
        return self.samples * sum(row.bytes for row in self.tensors if row.verdict != "not kept")

    def count(self, verdict: Verdict) -> int:
        """How many results of layers came out so."""
        return sum(row.verdict == verdict for row in self.tensors)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        plain = asdict(self)
        sums = {
            "equal": self.equal,
            "compared_tensors": self.compared_tensors,
            "compared_bytes": self.compared_bytes,
        }
        return {"model": plain.pop("model"), "hardware": plain.pop("hardware"), **sums, **plain}


Progress = Callable[[int, int], None]


def verify(
    path: str | Path,
    hw: str | Path | Hardware | None = None,
    inputs: Inputs | None = None,
    *,
    samples: int = 1,
    seed: int = 0,
    sizes: Sizes | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Compare npusim with LiteRT on a TFLite file or built-in model, layer by layer.

    hw:       the machine: a preset, a file, or a Hardware; edge-128 if None.
    inputs:   as for `npusim.run`; if None, `samples` sets of random ones, as `npusim.run` draws them for the seeds
              from `seed` on.
    sizes:    that the file leaves open, as for `npusim.load`.
    progress: called with (sets of inputs done, all).

    Raises NpusimError if LiteRT is not installed, for a file that is no TFLite model, one that npusim or LiteRT
    refuses, and inputs that do not fit.
    """
    litert_reference.require()
    if samples < 1:
        raise NpusimError(f"{samples} sets of inputs; may be 1 or more")
    data, graph = _model(path, sizes)
    machine = hw if hw is not None and not isinstance(hw, str | Path) else hardware(hw or DEFAULT_HARDWARE)
    program = compile_program(graph, machine)
    drawn: list[list[Array]] = (
        [values.draw(program.inputs, seed + i) for i in range(samples)]
        if inputs is None
        else [values.bind(program.inputs, inputs)]
    )
    walk = _Walk(graph, program)
    with litert_reference.apart(data, len(graph.tensors)) as litert:
        for sample, each in enumerate(drawn):
            try:
                theirs = litert.run(each)
            except litert_reference.LiteRTError as refusal:
                raise type(refusal)(f"{path}: {refusal}") from None
            walk.compare(sample, each, theirs)
            if progress:
                progress(sample + 1, len(drawn))
    return Verification(
        model=graph.name,
        hardware=machine.name,
        litert=_litert_version(),
        samples=len(drawn),
        tensors=tuple(walk.rows.values()),
        outputs=len(drawn) * len(graph.outputs),
        output_bytes=len(drawn) * sum(graph.tensors[i].type.size_bytes for i in graph.outputs),
        first=walk.first,
    )


def _model(path: str | Path, sizes: Sizes | None) -> tuple[bytes | mmap, Graph]:
    """The bytes of a model, read once so that both sides have the same, and its graph."""
    from npusim import models

    file = Path(path)
    data: bytes | mmap
    if not file.exists() and str(path) in models.names():
        data = models.path_or_bytes(str(path))
        return data, tflite.parse(data, str(path), sizes)
    if file.suffix.lower() == PROGRAM_SUFFIX:
        raise NpusimError(f"{path}: is a compiled program; LiteRT needs the model that it was compiled from")
    data = user_file.mapped(file, user_file.MODEL, FormatError)
    if not tflite.recognises(file, data[:64]):
        raise FormatError(f"{path}: is not a TensorFlow Lite file, which is what LiteRT reads")
    try:
        return data, tflite.parse(data, file.stem, sizes)
    except NpusimError as fault:
        raise type(fault)(f"{path}: {fault}") from fault


def _litert_version() -> str:
    try:
        return version("ai-edge-litert")
    except PackageNotFoundError:
        return "unknown"


class _Walk:
    """Walks a graph for one set of inputs after the other, and keeps the worst verdict of every result."""

    _ORDER: tuple[Verdict, ...] = ("not kept", "equal", "close", "follows", "different")

    def __init__(self, graph: Graph, program: Program) -> None:
        self.graph, self.program = graph, program
        self.rows: dict[int, TensorVerdict] = {}
        self.first: Difference | None = None

    def compare(self, sample: int, inputs: Sequence[Array], litert: Values) -> None:
        """Compare layers with LiteRT and the machine with the layers."""
        ours = beginning(self.graph) | dict(zip(self.graph.inputs, inputs, strict=True))
        # LiteRT keeps one tensor per state; after a run it holds the next value.
        after = {state.after: litert[state.before] for state in self.graph.states if state.before in litert}
        litert = {**litert, **after}
        for node in self.graph.nodes:
            ours |= zip(node.outputs, results(self.graph, node, ours), strict=True)
            self._judge(sample, node, ours, litert)
        self._machine(sample, inputs, ours)

    def _judge(self, sample: int, node: Node, ours: Values, litert: Values) -> None:
        """Verdicts of the results of one layer."""
        apart = [i for i in node.outputs if i in litert and not _same(ours[i], litert[i])]
        if not apart:
            for index in node.outputs:
                self._note(node, index, "equal" if index in litert else "not kept")
            return
        part = operator(node.op).defined
        if part is not None and all(index in litert for index in node.outputs):
            defined = zip(
                part([ours[i] for i in node.outputs]), part([litert[i] for i in node.outputs]), strict=True
            )
            kept = dict(zip(node.outputs, defined, strict=True))
        else:
            kept = {i: (ours[i], litert[i]) for i in node.outputs if i in litert}
        alone: dict[int, Array] | None = None
        for index in node.outputs:
            if index not in kept:
                self._note(node, index, "not kept")
                continue
            found, expected = kept[index]
            verdict: Verdict = "equal" if _same(found, expected) else "close"
            if not _close(found, expected):
                alone = self._alone(node, litert) if alone is None else alone
                agrees = index in alone and _close(alone[index], litert[index])
                verdict = "follows" if agrees else "different"
            if verdict == "different":
                self._differs(_difference(sample, "layer", self.graph, node, index, found, expected))
            self._note(node, index, verdict)

    def _alone(self, node: Node, litert: Values) -> dict[int, Array]:
        """The results of a layer from LiteRT's values; nothing if LiteRT lacks one."""
        known = beginning(self.graph) | dict(litert)
        if any(i is not None and i not in known for i in node.inputs):
            return {}
        # Constants and states are ours: LiteRT's states are those after the run.
        known |= beginning(self.graph)
        return dict(zip(node.outputs, results(self.graph, node, known), strict=True))

    def _note(self, node: Node, index: int, verdict: Verdict) -> None:
        tensor = self.graph.tensors[index]
        row = TensorVerdict(
            node.name, node.op, tensor.name, tensor.type.dtype, tensor.type.size_bytes, verdict
        )
        before = self.rows.get(index)
        if before is None or self._ORDER.index(verdict) > self._ORDER.index(before.verdict):
            self.rows[index] = row

    def _differs(self, difference: Difference) -> None:
        if self.first is None:
            self.first = difference

    # The machine

    def _machine(self, sample: int, inputs: Sequence[Array], ours: Values) -> None:
        """The outputs of the compiled program against the references."""
        outputs = simulate(self.program, list(inputs), states={}).outputs
        wrong = [
            (index, found)
            for index, found in zip(self.graph.outputs, outputs, strict=True)
            if not _same(found, ours[index])
        ]
        if wrong:
            index, found = self._where(inputs, ours) or wrong[0]
            self._differs(
                _difference(sample, "machine", self.graph, self._writer(index), index, found, ours[index])
            )

    def _writer(self, index: int) -> Node:
        """The layer that computes a tensor; a model may give an input or a constant as an output."""
        given = Node(self.graph.tensors[index].name, "input", (), (index,))
        return next((node for node in self.graph.nodes if index in node.outputs), given)

    def _where(self, inputs: Sequence[Array], ours: Values) -> tuple[int, Array] | None:
        """The first tensor at which the machine differs when it gives all of them, with its value."""
        computed = tuple(index for node in self.graph.nodes for index in node.outputs)
        try:
            program = compile_program(replace(self.graph, outputs=computed), self.program.hardware)
        except CompileError:
            return None
        found = zip(computed, simulate(program, list(inputs), states={}).outputs, strict=True)
        return next(((index, value) for index, value in found if not _same(value, ours[index])), None)


def _same(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _close(a: Array, b: Array) -> bool:
    """The same bytes, or floats within `CLOSE` of the largest magnitude (NaN beside NaN, infinities equal)."""
    if _same(a, b):
        return True
    if a.dtype != b.dtype or a.shape != b.shape or a.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        finite = np.abs(b[np.isfinite(b)].astype(np.float64))
        allowed = CLOSE * max(float(finite.max(initial=0.0)), float(np.finfo(np.float32).tiny))
        return bool(np.allclose(a.astype(np.float64), b.astype(np.float64), 0.0, allowed, equal_nan=True))


def _difference(
    sample: int,
    place: Literal["layer", "machine"],
    graph: Graph,
    node: Node,
    index: int,
    found: Array,
    expected: Array,
) -> Difference:
    """The first element at which two values of a tensor have other bytes."""
    name = graph.tensors[index].name
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        raise NpusimError(
            f'{graph.name}: layer "{node.name}" ({node.op}): tensor "{name}" is {found.dtype} {list(found.shape)}, '
            f"LiteRT computes {expected.dtype} {list(expected.shape)}: the file says what its operators do not give"
        )
    apart = (_bytewise(found) != _bytewise(expected)).any(axis=1)
    at = int(np.flatnonzero(apart)[0])
    return Difference(
        sample=sample,
        place=place,
        layer=node.name,
        op=node.op,
        tensor=name,
        index=tuple(int(i) for i in np.unravel_index(at, found.shape)),
        npusim=found.reshape(-1)[at].item(),
        litert=expected.reshape(-1)[at].item(),
        differing=int(apart.sum()),
        elements=found.size,
    )


def _bytewise(array: Array) -> Array:
    """The bytes of each element: -0.0 and 0.0 differ, a NaN equals itself."""
    return np.frombuffer(array.tobytes(), np.uint8).reshape(-1, array.itemsize)
