"""Compares npusim with another program that computes the same model, layer by layer.

The other program is LiteRT, ONNX Runtime or the Khronos runtime (`peers`). Two things are compared:

**Layers.** Every layer is computed with its operator's numpy reference from npusim's own values, and each of its
results is compared with the tensor of the same name or number that the other leaves. A layer that differs is computed
once more from the other's values: if it then agrees, only what went in was different, and it `follows` an earlier
layer.

**Outputs.** The compiled program is executed by the machine; its outputs are compared with those of the references,
byte by byte. So layers show faults of the arithmetic, and outputs show faults of the compiler or of the machine. Where
outputs differ, the network is compiled once more with every tensor as an output, which tells from which layer on the
machine's bytes differ.

Integers must be equal. Sums of floats depend on their order: a float tensor whose elements are within a share of the
largest magnitude of the other's is `close`; it does not count as a difference, and neither does what follows from it.
ONNX Runtime adds up quantized values between DequantizeLinear and QuantizeLinear as float32; npusim adds them up
exactly and rounds once. A float64 evaluation of the same operands tells which of the two is off (`exact`). Where ONNX
Runtime is one step off, the tensor is `rounded`; where it saturates products of uint8 by int8, `saturated`. Neither
counts as a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from npusim.isa.base.errors import CompileError, NpusimError
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.bind import Sizes
from npusim.kernels.graph.graph import NCHW, Graph, Node
from npusim.kernels.graph.reference import beginning, results
from npusim.kernels.table import operator
from npusim.session import inputs as values
from npusim.session.api import DEFAULT_HARDWARE, compile_program, simulate
from npusim.verification import peers
from npusim.verification.peers import Named, Peer
from npusim.verification.verdicts import (
    VERDICTS,
    Difference,
    Judgement,
    Off,
    TensorVerdict,
    Verdict,
    Verification,
    apart,
    close,
    count_differing,
    distance,
    most_apart,
    nearer,
    one_apart,
    right,
    same,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.isa.hardware.hardware import Hardware
    from npusim.isa.program.program import Program
    from npusim.session.inputs import Inputs

Values = Mapping[int, Array]
"""Values of tensors by their number in the graph."""


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
    """Compare npusim with another runtime that computes a model file or built-in model, layer by layer.

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
        program = compile_program(graph, hw or DEFAULT_HARDWARE)
        drawn = _drawn(program, inputs, samples, seed)
        walk = _Walk(graph, program, peer)
        for sample, drawn_inputs in enumerate(drawn):
            try:
                theirs = peer.run(drawn_inputs)
            except NpusimError as refusal:
                raise type(refusal)(f"{path}: {refusal}") from None
            walk.compare(sample, drawn_inputs, theirs)
            if progress:
                progress(sample + 1, len(drawn))
    return Verification(
        model=graph.name,
        hardware=program.hardware.name,
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
    """Return sets of inputs: those that are given, or random ones."""
    if inputs is None:
        return [values.draw(program.inputs, seed + i) for i in range(samples)]
    if isinstance(inputs, Path):
        return [values.read_npz(inputs, program.inputs)]
    return [values.bind(program.inputs, inputs)]


class _Alone(NamedTuple):
    """The results of a layer for the other program's values.

    results:    its results by number; none if the other keeps too little.
    in_float32: whether quantized values are requantized in float32 in between.
    operands:   the tensors, by name, whose values of the other went in.
    """

    results: dict[int, Array]
    in_float32: bool
    operands: frozenset[str]


class _Walk:
    """Walks a graph for one set of inputs after the other, and keeps the worst verdict of every result."""

    _ORDER: tuple[Verdict, ...] = ("not kept", *VERDICTS[:-1])

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
            self._judge(sample, node, ours, theirs, named)
        self._machine(sample, inputs, ours)

    def _judge(self, sample: int, node: Node, ours: Values, theirs: Values, named: Named) -> None:
        """Judge the results of one layer."""
        if not any(i in theirs and not same(ours[i], theirs[i]) for i in node.outputs):
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
        alone: _Alone | None = None
        for index in node.outputs:
            if index not in kept:
                self._note(node, index, "not kept")
                continue
            actual, expected = kept[index]
            verdict: Verdict = "equal" if same(actual, expected) else "close"
            if self._close(actual, expected):
                self._note(node, index, verdict, count_differing(actual, expected))
                continue
            alone = self._alone(node, theirs) if alone is None else alone
            if index not in alone.results or not _alike(alone.results[index], expected):
                # Without the operands, or with a result of another type, npusim's own value is all there is.
                judged = Judgement(
                    "different", apart(actual, expected) if _alike(actual, expected) else np.ones(1, np.bool_)
                )
            elif self._close(alone.results[index], expected):
                judged = Judgement("follows", apart(actual, expected))
            else:
                # The operands may differ already, so judge what the layer alone gives on the other's operands.
                actual = alone.results[index]
                judged = self._apart(index, actual, expected, alone, named)
            if judged.verdict == "different":
                where = (self.graph, node, index)
                self._differs(
                    _difference(sample, "layer", *where, actual, expected, self.peer.name, judged.elements)
                )
            self._note(node, index, judged.verdict, int(judged.elements.sum()), judged.off)

    def _apart(self, index: int, actual: Array, expected: Array, alone: _Alone, named: Named) -> Judgement:
        """Judge by the exact value a result that differs for equal operands."""
        name, elements = self.graph.tensors[index].name, apart(actual, expected)
        in_sums = name in self.peer.sums_in_floats
        exact = self.peer.exact(name, named, alone.operands) if self.peer.exact else None
        fitting = [] if exact is None else _orders(exact.array, actual.shape)
        if exact is None or not fitting:
            rounded = in_sums and alone.in_float32 and one_apart(actual, expected)
            return Judgement("rounded" if rounded else "different", elements)
        array = min(fitting, key=lambda order: distance(expected, order)).astype(np.float64)
        share = self._share(actual)
        wrong, theirs_wrong = (
            elements & ~right(side, array, share).reshape(-1) for side in (actual, expected)
        )
        if wrong.any():
            return Judgement("different", wrong, "npusim")
        if actual.dtype.kind == "f" and theirs_wrong.any():  # other bytes alone are no difference of floats
            elements = theirs_wrong
        off: Off | None = "other" if nearer(actual, expected, array)[elements].all() else None
        if in_sums and most_apart(actual, expected) <= 1:
            return Judgement("rounded", elements, off)
        saturated = exact.may_saturate and self.peer.saturates()
        return Judgement("saturated" if saturated else "different", elements, off)

    def _share(self, a: Array) -> float:
        return max(self.peer.close, self.peer.halves if a.dtype == np.float16 else 0.0)

    def _close(self, a: Array, b: Array) -> bool:
        return close(a, b, self._share(a))

    def _alone(self, node: Node, theirs: Values) -> _Alone:
        """Compute a layer from the other's values; values that it does not keep are computed from earlier ones."""
        # Constants and states are ours: the other's states are those after the run.
        known = {**theirs, **beginning(self.graph)}
        needed, nodes = {number for number in node.inputs if number is not None}, [node]
        for before in reversed(self.graph.nodes[: self.graph.nodes.index(node)]):
            if any(number in needed and number not in known for number in before.outputs):
                nodes.append(before)
                needed.update(number for number in before.inputs if number is not None)
        produced = {number for computed_node in nodes for number in computed_node.outputs}
        if any(number not in known and number not in produced for number in needed):
            return _Alone({}, False, frozenset())
        operands = frozenset(self.graph.tensors[number].name for number in needed if number in theirs)
        for computed_node in reversed(nodes):
            known |= zip(computed_node.outputs, results(self.graph, computed_node, known), strict=True)
        in_float32 = any(computed_node.parameters.rescale == "float32" for computed_node in nodes)
        return _Alone({number: known[number] for number in node.outputs}, in_float32, operands)

    def _note(
        self, node: Node, index: int, verdict: Verdict, differing: int = 0, off: Off | None = None
    ) -> None:
        tensor = self.graph.tensors[index]
        before = self.rows.get(index)
        if before is not None and before.verdict == verdict:
            differing += before.differing
            off = "npusim" if "npusim" in (off, before.off) else off
        elif before is not None and self._ORDER.index(before.verdict) > self._ORDER.index(verdict):
            verdict, differing, off = before.verdict, before.differing, before.off
        elements = prod(tensor.type.shape) + (0 if before is None else before.elements)
        of = (node.name, node.op, tensor.name, tensor.type.dtype, tensor.type.size_bytes)
        self.rows[index] = TensorVerdict(*of, verdict, elements, differing, off)

    def _differs(self, difference: Difference) -> None:
        if self.first is None:
            self.first = difference

    # The machine

    def _machine(self, sample: int, inputs: Sequence[Array], ours: Values) -> None:
        """Compare the outputs of the compiled program with the references."""
        outputs = simulate(self.program, list(inputs), states={}).outputs
        wrong = [
            (index, actual)
            for index, actual in zip(self.graph.outputs, outputs, strict=True)
            if not same(actual, ours[index])
        ]
        if wrong:
            index, actual = self._where(inputs, ours) or wrong[0]
            self._differs(
                _difference(
                    sample,
                    "machine",
                    self.graph,
                    self._writer(index),
                    index,
                    actual,
                    ours[index],
                    "the reference",
                )
            )

    def _writer(self, index: int) -> Node:
        """Return the layer that computes a tensor; a model may give an input or a constant as an output."""
        given = Node(self.graph.tensors[index].name, "input", (), (index,))
        return next((node for node in self.graph.nodes if index in node.outputs), given)

    def _where(self, inputs: Sequence[Array], ours: Values) -> tuple[int, Array] | None:
        """Return the first tensor that differs on the machine, with its value, if all tensors are outputs."""
        computed = tuple(index for node in self.graph.nodes for index in node.outputs)
        try:
            program = compile_program(replace(self.graph, outputs=computed), self.program.hardware)
        except CompileError:
            return None
        pairs = zip(computed, simulate(program, list(inputs), states={}).outputs, strict=True)
        return next(((index, value) for index, value in pairs if not same(value, ours[index])), None)


def by_number(graph: Graph, named: Named, ours: Values) -> dict[int, Array]:
    """Return the other's values by the numbers of tensors.

    Where they go by names, a tensor of the graph may hold the value with the channels last. Where both orders have its
    shape, that is taken which is nearer to the value that npusim has.
    """
    holding = _holding(graph)
    arrays = {number: value for number, value in named.items() if isinstance(number, int)}
    texts = {name: value for name, value in named.items() if isinstance(name, str)}
    for number, tensor in enumerate(graph.tensors if texts else ()):
        value = None if tensor.constant else texts.get(tensor.name)
        if (
            value is None
            or value.dtype != tensor.type.numpy_dtype
            or number not in ours
            or number not in holding
        ):
            continue
        fitting = _orders(value, tensor.type.shape)
        if fitting:
            arrays[number] = min(fitting, key=lambda order: distance(ours[number], order))
    return arrays


def _holding(graph: Graph) -> set[int]:
    """Return the tensors that hold the value that they are named after.

    An operation of the file may become several layers, whose results are all named after it. The last one holds its
    value, and so does what is only moved between there and another layer.
    """
    last = {graph.tensors[number].name: number for number in graph.inputs}
    moves = []
    for node in graph.nodes:
        last |= {graph.tensors[number].name: number for number in node.outputs}
        if node.op in ("transpose", "reshape"):
            ends = {number for number in (node.inputs[0], node.outputs[0]) if number is not None}
            moves += [ends] if len({graph.tensors[number].name for number in ends}) == 1 else []
    holding = set(last.values())
    for ends in (*reversed(moves), *moves):
        holding |= ends if holding & ends else set()
    return holding


def _orders(value: Array, shape: tuple[int, ...]) -> list[Array]:
    """Return the value in its own layout and with channels last, if these have the expected shape."""
    orders = [value, value.transpose(NCHW.image)] if value.ndim == len(NCHW.image) else [value]
    return [np.array(order, order="C") for order in orders if order.shape == shape]


def _alike(a: Array, b: Array) -> bool:
    return (a.dtype, a.shape) == (b.dtype, b.shape)


def _difference(
    sample: int,
    place: Literal["layer", "machine"],
    graph: Graph,
    node: Node,
    index: int,
    actual: Array,
    expected: Array,
    other: str,
    elements: NDArray[np.bool_] | None = None,
) -> Difference:
    """Return the first element at which two values of a tensor have other bytes, of the `elements` if given."""
    name = graph.tensors[index].name
    if not _alike(actual, expected):
        raise NpusimError(
            f'{graph.name}: layer "{node.name}" ({node.op}): tensor "{name}" is {actual.dtype} {list(actual.shape)}, '
            f"{other} computes {expected.dtype} {list(expected.shape)}: the file says what its operators do not give"
        )
    elements = apart(actual, expected) if elements is None else elements
    at = int(np.flatnonzero(elements)[0])
    return Difference(
        sample=sample,
        place=place,
        layer=node.name,
        op=node.op,
        tensor=name,
        index=tuple(int(i) for i in np.unravel_index(at, actual.shape)),
        npusim=actual.reshape(-1)[at].item(),
        other=expected.reshape(-1)[at].item(),
        differing=int(elements.sum()),
        elements=actual.size,
    )
