"""Whether npusim computes what another program computes: a model on both, layer by layer.

The other is LiteRT, ONNX Runtime or the Khronos runtime (`peers`). Two things are
compared:

**Layers.** Every layer is computed with its operator's numpy reference from npusim's own values, and each of its
results is compared with the tensor of the same name or number that the other leaves. A layer that differs is computed
once more from the other's values: if it then agrees, only what went in was different, and it `follows` an earlier
layer.

**Outputs.** The compiled program is executed by the machine; its outputs are compared with those of the references,
byte by byte. So a fault of the compiler or of the machine shows here, and one of the arithmetic there. Where outputs
differ, the network is compiled once more with every tensor as an output, which says at which layer the machine's bytes
part.

Integers must be equal. Sums of floats depend on their order: a float tensor whose elements are within a share of the
largest magnitude of the other's is `close`; it does not count as a difference, and neither does what follows from it.
ONNX Runtime adds up codes between DequantizeLinear and QuantizeLinear as float32; npusim adds them up exactly and
rounds once. Few codes that are one apart are `rounded` then, and do not count either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from npusim.isa.base.errors import CompileError, NpusimError
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.bind import Sizes
from npusim.kernels.graph.graph import Graph, Node
from npusim.kernels.graph.layout import NCHW
from npusim.kernels.graph.reference import beginning, results
from npusim.kernels.table import operator
from npusim.session import inputs as values
from npusim.session.api import DEFAULT_HARDWARE, compile_program, hardware, simulate
from npusim.verification import peers
from npusim.verification.comparing import bytewise, close, count_differing, distance, one_apart, same
from npusim.verification.peers import Named, Peer

if TYPE_CHECKING:
    from npusim.isa.hardware.hardware import Hardware
    from npusim.isa.program.program import Program
    from npusim.session.inputs import Inputs

Verdict = Literal["equal", "close", "rounded", "follows", "different", "not kept"]
"""What comes of a tensor: the same bytes; floats that are close; codes of which few are one apart, for the other's sums
are rounded on the way; different only because what went in is; different; the other keeps no value of it."""

VERDICTS: tuple[Verdict, ...] = ("equal", "close", "rounded", "follows", "different", "not kept")

Values = Mapping[int, Array]
"""Values of tensors by their number in the graph."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first element of a tensor that differs.

    sample:  which inputs, from 0.
    place:   "layer" where a reference and the other differ, "machine" where machine and reference do.
    index:   of the element, one number per axis.
    npusim, other: the two values; where `place` is "machine", the machine's and the reference's.
    differing: how many of the tensor's `elements` differ.
    """

    sample: int
    place: Literal["layer", "machine"]
    layer: str
    op: str
    tensor: str
    index: tuple[int, ...]
    npusim: int | float | bool
    other: int | float | bool
    differing: int
    elements: int

    @property
    def litert(self) -> int | float | bool:
        """The other's value, which is LiteRT's for TFLite files."""
        return self.other

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"litert": self.other}


@dataclass(frozen=True, slots=True)
class TensorVerdict:
    """Verdict on one result of a layer over all inputs.

    bytes:     its size.
    differing: number of elements that differ from the reference, over all inputs. If the verdict is "rounded" or
               "different", the layer is computed alone on the reference's operands to count them.
    """

    layer: str
    op: str
    tensor: str
    dtype: str
    bytes: int
    verdict: Verdict
    differing: int = 0


@dataclass(frozen=True)
class Verification:
    """What came of a model.

    other, version, kernels: the other program, which one, and the choice of its kernels in words.
    close:     how far floats may be from the other's, as a share of the largest magnitude in the tensor.
    samples:   on how many inputs.
    tensors:   a row per result of a layer, in the order of the layers; the worst verdict over all inputs.
    outputs:   how many outputs of the machine were compared with the references, over all inputs.
    output_bytes: their bytes.
    first:     the first difference, None if there is none.
    """

    model: str
    hardware: str
    other: str
    version: str
    kernels: str
    close: float
    samples: int
    tensors: tuple[TensorVerdict, ...]
    outputs: int
    output_bytes: int
    first: Difference | None

    @property
    def equal(self) -> bool:
        """Whether npusim computes what the other computes."""
        return self.first is None

    @property
    def litert(self) -> str:
        """The version of the other program, which is LiteRT for TFLite files."""
        return self.version

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
        plain = asdict(self) | {"first": None if self.first is None else self.first.to_dict()}
        plain["litert"] = self.version
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
    inputs: Inputs | Path | None = None,
    *,
    samples: int = 1,
    seed: int = 0,
    sizes: Sizes | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Compare npusim with who else computes a model file or built-in model, layer by layer.

    hw:       the machine: a preset, a file, or a Hardware; edge-128 if None.
    inputs:   as for `npusim.run`, or an npz file of them; if None, `samples` sets of random ones, as `npusim.run` draws
              them for the seeds from `seed` on.
    sizes:    that the file leaves open, as for `npusim.load`.
    progress: called with (sets of inputs done, all).

    Raises NpusimError if the other is not installed, for a file that no other reads, one that npusim or the other
    refuses, and inputs that do not fit.
    """
    if samples < 1:
        raise NpusimError(f"{samples} sets of inputs; may be 1 or more")
    with peers.opened(path, sizes) as (graph, peer):
        machine = (
            hw if hw is not None and not isinstance(hw, str | Path) else hardware(hw or DEFAULT_HARDWARE)
        )
        program = compile_program(graph, machine)
        drawn = _drawn(program, inputs, samples, seed)
        walk = _Walk(graph, program, peer)
        for sample, each in enumerate(drawn):
            try:
                theirs = peer.run(each)
            except NpusimError as refusal:
                raise type(refusal)(f"{path}: {refusal}") from None
            walk.compare(sample, each, theirs)
            if progress:
                progress(sample + 1, len(drawn))
    return Verification(
        model=graph.name,
        hardware=machine.name,
        other=peer.name,
        version=peer.version,
        kernels=peer.how,
        close=peer.close,
        samples=len(drawn),
        tensors=tuple(walk.rows.values()),
        outputs=len(drawn) * len(graph.outputs),
        output_bytes=len(drawn) * sum(graph.tensors[i].type.size_bytes for i in graph.outputs),
        first=walk.first,
    )


def _drawn(program: Program, inputs: Inputs | Path | None, samples: int, seed: int) -> list[list[Array]]:
    """Sets of inputs: those that are given, or random ones."""
    if inputs is None:
        return [values.draw(program.inputs, seed + i) for i in range(samples)]
    if isinstance(inputs, Path):
        return [values.read_npz(inputs, program.inputs)]
    return [values.bind(program.inputs, inputs)]


class _Walk:
    """Walks a graph for one set of inputs after the other, and keeps the worst verdict of every result."""

    _ORDER: tuple[Verdict, ...] = ("not kept", "equal", "close", "rounded", "follows", "different")

    def __init__(self, graph: Graph, program: Program, peer: Peer) -> None:
        self.graph, self.program, self.peer = graph, program, peer
        self.rows: dict[int, TensorVerdict] = {}
        self.first: Difference | None = None

    def compare(self, sample: int, inputs: Sequence[Array], named: Named) -> None:
        """Compare layers with the other and the machine with the layers."""
        ours = beginning(self.graph) | dict(zip(self.graph.inputs, inputs, strict=True))
        for node in self.graph.nodes:
            ours |= zip(node.outputs, results(self.graph, node, ours), strict=True)
        theirs = by_number(self.graph, named, ours)
        # LiteRT keeps one tensor per state; after a run it holds the next value.
        theirs |= {state.after: theirs[state.before] for state in self.graph.states if state.before in theirs}
        for node in self.graph.nodes:
            self._judge(sample, node, ours, theirs)
        self._machine(sample, inputs, ours)

    def _judge(self, sample: int, node: Node, ours: Values, theirs: Values) -> None:
        """Verdicts of the results of one layer."""
        apart = [i for i in node.outputs if i in theirs and not same(ours[i], theirs[i])]
        if not apart:
            for index in node.outputs:
                self._note(node, index, "equal" if index in theirs else "not kept")
            return
        part = operator(node.op).defined
        if part is not None and all(index in theirs for index in node.outputs):
            defined = zip(
                part([ours[i] for i in node.outputs]), part([theirs[i] for i in node.outputs]), strict=True
            )
            kept = dict(zip(node.outputs, defined, strict=True))
        else:
            kept = {i: (ours[i], theirs[i]) for i in node.outputs if i in theirs}
        alone: tuple[dict[int, Array], bool] | None = None
        for index in node.outputs:
            if index not in kept:
                self._note(node, index, "not kept")
                continue
            found, expected = kept[index]
            verdict: Verdict = "equal" if same(found, expected) else "close"
            differing = count_differing(found, expected)
            if not self._close(found, expected):
                alone = self._alone(node, theirs) if alone is None else alone
                verdict = self._verdict(alone[0], index, expected, alone[1])
                if verdict != "follows" and index in alone[0] and alone[0][index].shape == expected.shape:
                    # The operands may differ already, so count what the layer alone gives on the reference's operands.
                    found = alone[0][index]
                    differing = count_differing(found, expected)
            if verdict == "different":
                self._differs(
                    _difference(sample, "layer", self.graph, node, index, found, expected, self.peer.name)
                )
            self._note(node, index, verdict, differing)

    def _verdict(self, alone: dict[int, Array], index: int, expected: Array, in_float32: bool) -> Verdict:
        """What comes of a result that differs, from its value for what went into the other's layer."""
        if index not in alone:
            return "different"
        if self._close(alone[index], expected):
            return "follows"
        in_sums = in_float32 and self.graph.tensors[index].name in self.peer.sums_in_floats
        rounded = in_sums and one_apart(alone[index], expected)
        return "rounded" if rounded else "different"

    def _close(self, a: Array, b: Array) -> bool:
        halves = self.peer.halves if a.dtype == np.float16 else 0.0
        return close(a, b, max(self.peer.close, halves))

    def _alone(self, node: Node, theirs: Values) -> tuple[dict[int, Array], bool]:
        """The results of a layer from the other's values, and whether codes are rescaled in float32 on the way there.

        What the other does not keep is computed from what it keeps before. Nothing if it lacks an input.
        """
        # Constants and states are ours: the other's states are those after the run.
        known = {**theirs, **beginning(self.graph)}
        needed, nodes = {number for number in node.inputs if number is not None}, [node]
        for before in reversed(self.graph.nodes[: self.graph.nodes.index(node)]):
            if any(number in needed and number not in known for number in before.outputs):
                nodes.append(before)
                needed.update(number for number in before.inputs if number is not None)
        made = {number for each in nodes for number in each.outputs}
        if any(number not in known and number not in made for number in needed):
            return {}, False
        for each in reversed(nodes):
            known |= zip(each.outputs, results(self.graph, each, known), strict=True)
        in_float32 = any(each.parameters.rescale == "float32" for each in nodes)
        return {number: known[number] for number in node.outputs}, in_float32

    def _note(self, node: Node, index: int, verdict: Verdict, differing: int = 0) -> None:
        tensor = self.graph.tensors[index]
        before = self.rows.get(index)
        if before is not None:
            differing += before.differing
            verdict = max(verdict, before.verdict, key=self._ORDER.index)
        size = tensor.type.size_bytes
        self.rows[index] = TensorVerdict(
            node.name, node.op, tensor.name, tensor.type.dtype, size, verdict, differing
        )

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
            if not same(found, ours[index])
        ]
        if wrong:
            index, found = self._where(inputs, ours) or wrong[0]
            self._differs(
                _difference(
                    sample,
                    "machine",
                    self.graph,
                    self._writer(index),
                    index,
                    found,
                    ours[index],
                    "the reference",
                )
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
        return next(((index, value) for index, value in found if not same(value, ours[index])), None)


def by_number(graph: Graph, named: Named, ours: Values) -> dict[int, Array]:
    """The other's values by the numbers of tensors.

    Where they go by names, a tensor of the graph may hold the value with the channels last. Where both orders have its
    shape, that is taken which is nearer to the value that npusim has.
    """
    found = {number: value for number, value in named.items() if isinstance(number, int)}
    texts = {name: value for name, value in named.items() if isinstance(name, str)}
    for number, tensor in enumerate(graph.tensors if texts else ()):
        value = None if tensor.constant else texts.get(tensor.name)
        if value is None or value.dtype != tensor.type.numpy_dtype or number not in ours:
            continue
        orders = [value, value.transpose(NCHW.image)] if value.ndim == len(NCHW.image) else [value]
        fitting = [np.array(order, order="C") for order in orders if order.shape == tensor.type.shape]
        if fitting:
            found[number] = min(fitting, key=lambda order: distance(ours[number], order))
    return found


def _difference(
    sample: int,
    place: Literal["layer", "machine"],
    graph: Graph,
    node: Node,
    index: int,
    found: Array,
    expected: Array,
    other: str,
) -> Difference:
    """The first element at which two values of a tensor have other bytes."""
    name = graph.tensors[index].name
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        raise NpusimError(
            f'{graph.name}: layer "{node.name}" ({node.op}): tensor "{name}" is {found.dtype} {list(found.shape)}, '
            f"{other} computes {expected.dtype} {list(expected.shape)}: the file says what its operators do not give"
        )
    apart = (bytewise(found) != bytewise(expected)).any(axis=1)
    at = int(np.flatnonzero(apart)[0])
    return Difference(
        sample=sample,
        place=place,
        layer=node.name,
        op=node.op,
        tensor=name,
        index=tuple(int(i) for i in np.unravel_index(at, found.shape)),
        npusim=found.reshape(-1)[at].item(),
        other=expected.reshape(-1)[at].item(),
        differing=int(apart.sum()),
        elements=found.size,
    )
