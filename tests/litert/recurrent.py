"""Random models of layers that keep a state, in float32; `weighted.lstm` has the one with integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.base.tensor import TensorType
from npusim.models.writer import per_tensor

from .sample import Sample

FUNCTIONS = {"none": 0, "relu": 1, "relu_n1_to_1": 2, "relu6": 3, "tanh": 4}


def _matrix(sample: Sample, *shape: int) -> int:
    """Small weights: sums of large ones close gates, and what comes through is rounding."""
    return sample.matrix(shape, weights=len(shape) == 2)


def _state(sample: Sample, name: str, *shape: int) -> int:
    return sample.writer.state(name, TensorType("float32", shape))


def _reals(*shape: int) -> TensorType:
    return TensorType("float32", shape)


def _function(sample: Sample) -> int:
    """Sums that no function limits would grow without end."""
    return FUNCTIONS[str(sample.one(("relu_n1_to_1", "relu6", "tanh")))]


def _rnn_cell(sample: Sample, way: str, batch: int, inputs: int, units: int) -> list[int]:
    shapes = (units, inputs), (units, units), (units,)
    return [*(_matrix(sample, *shape) for shape in shapes), _state(sample, f"{way}_state", batch, units)]


def rnn(sample: Sample) -> list[int]:
    batch, inputs, units = sample.shape(3, 6)
    operands = [sample.input((batch, inputs)), *_rnn_cell(sample, "one", batch, inputs, units)]
    fields = {"FusedActivationFunction": _function(sample), **sample.rows()}
    return [
        sample.writer.operator("RNN", operands, _reals(batch, units), options="RNNOptions", fields=fields)
    ]


def sequence_rnn(sample: Sample) -> list[int]:
    first, second, inputs, units = sample.shape(4, 6)
    time_major = sample.chance(2)
    cell = _rnn_cell(sample, "one", second if time_major else first, inputs, units)
    fields = {"FusedActivationFunction": _function(sample), "TimeMajor": time_major, **sample.rows()}
    return [
        sample.writer.operator(
            "UNIDIRECTIONAL_SEQUENCE_RNN",
            [sample.input((first, second, inputs)), *cell],
            _reals(first, second, units),
            options="SequenceRNNOptions",
            fields=fields,
        )
    ]


def _auxiliary(sample: Sample, shape: tuple[int, int, int]) -> tuple[int | None, bool, int]:
    """The auxiliary input, whether it has weights of its own, and its depth: LiteRT counts on that of the input."""
    weights = sample.chance(2)
    if sample.chance(2):
        return None, False, shape[2]
    return sample.input(shape), weights, shape[2]


def bidirectional_rnn(sample: Sample) -> list[int]:
    """Batch by batch, LiteRT's backward cell reads the input where it should read an auxiliary one: not drawn.

    With int8 weights, time-major, LiteRT reads and writes beyond its tensors: not drawn.
    """
    shape = (*sample.shape(2, 5), sample.pick(1, 5))
    time_major, merge = sample.chance(2) and not sample.dynamic, sample.chance(2)
    batch = shape[1] if time_major else shape[0]
    ifm = sample.input(shape)
    auxiliary, crossed, depth = _auxiliary(sample, shape)
    crossed = crossed or (auxiliary is not None and not time_major)
    units = sample.pick(1, 5), sample.pick(1, 5)
    cells = [_rnn_cell(sample, way, batch, shape[2], size) for way, size in zip("fb", units, strict=True)]
    links = [_matrix(sample, size, depth) if crossed else None for size in units]
    fields = {
        "FusedActivationFunction": _function(sample),
        "TimeMajor": time_major,
        "MergeOutputs": merge,
        **sample.rows(),
    }
    return list(
        sample.writer.operator_of_many(
            "BIDIRECTIONAL_SEQUENCE_RNN",
            [ifm, *cells[0], *cells[1], auxiliary, *links],
            _outputs(shape, units, merge),
            options="BidirectionalSequenceRNNOptions",
            fields=fields,
        )
    )


def _outputs(shape: tuple[int, ...], depths: tuple[int, int], merge: bool) -> list[TensorType]:
    return [_reals(*shape[:2], depth) for depth in ([sum(depths)] if merge else depths)]


def _lstm_cell(
    sample: Sample, inputs: int, cells: int, outputs: int, projected: bool
) -> tuple[list[int | None], range]:
    """The operands between input and states, and the numbers of the gates that have weights."""
    gates = range(1 if sample.chance(3) else 0, 4)
    operands: list[int | None] = [None] * 17
    for gate in gates:
        operands[gate] = _matrix(sample, cells, inputs)
        operands[4 + gate] = _matrix(sample, cells, outputs)
        operands[11 + gate] = _matrix(sample, cells)
    if sample.chance(2):
        for position, gate in ((8, 0), (9, 1), (10, 3)):
            if gate in gates:
                operands[position] = sample.matrix((cells,))
    if projected:
        operands[15] = _matrix(sample, outputs, cells)
        operands[16] = _matrix(sample, outputs) if sample.chance(2) else None
    return operands, gates


def _clips(sample: Sample) -> dict[str, Any]:
    return {
        "FusedActivationFunction": FUNCTIONS[str(sample.one(("relu6", "tanh")))],
        "CellClip": float(sample.one((0.0, 0.5, 4.0))),
        "ProjClip": float(sample.one((0.0, 0.5))),
        **sample.rows(),
    }


def lstm(sample: Sample) -> list[int]:
    batch, inputs, cells = sample.shape(3, 5)
    projected = sample.chance(2)
    outputs = sample.pick(1, 5) if projected else cells
    operands, gates = _lstm_cell(sample, inputs, cells, outputs, projected)
    norms: list[int | None] = []
    if sample.chance(2):
        norms = [_matrix(sample, cells) if gate in gates else None for gate in range(4)]
    states = [_state(sample, "output_state", batch, outputs), _state(sample, "cell_state", batch, cells)]
    return [
        sample.writer.operator(
            "LSTM",
            [sample.input((batch, inputs)), *operands, *states, *norms],
            _reals(batch, outputs),
            options="LSTMOptions",
            fields=_clips(sample),
        )
    ]


def bidirectional_lstm(sample: Sample) -> list[int]:
    """Batch by batch, LiteRT writes merged outputs over each other, and both cells have the same sizes: not drawn."""
    shape = (*sample.shape(2, 5), sample.pick(1, 5))
    time_major = sample.chance(2)
    merge = time_major and sample.chance(2)
    batch = shape[1] if time_major else shape[0]
    ifm = sample.input(shape)
    auxiliary, crossed, depth = _auxiliary(sample, shape)
    cells, depths = [], []
    operands: list[int | None] = [ifm]
    states: list[int | None] = []
    links: list[int | None] = []
    units, projected = sample.pick(1, 5), sample.chance(3)
    outputs = sample.pick(1, 5) if projected else units
    for way in "fb":
        cell, gates = _lstm_cell(sample, shape[2], units, outputs, projected)
        cells.append(units)
        depths.append(outputs)
        operands += cell
        states += [
            _state(sample, f"{way}_output", batch, outputs),
            _state(sample, f"{way}_cell", batch, units),
        ]
        links += [_matrix(sample, units, depth) if crossed and gate in gates else None for gate in range(4)]
    fields = {**_clips(sample), "TimeMajor": time_major, "MergeOutputs": merge}
    return list(
        sample.writer.operator_of_many(
            "BIDIRECTIONAL_SEQUENCE_LSTM",
            [*operands, *states, auxiliary, *links],
            _outputs(shape, (depths[0], depths[1]), merge),
            options="BidirectionalSequenceLSTMOptions",
            fields=fields,
        )
    )


def svdf(sample: Sample) -> list[int]:
    batch, inputs, units, columns, rank = *sample.shape(4, 6), sample.pick(1, 3)
    filters = units * rank
    shapes = (filters, inputs), (filters, columns)
    state = batch, columns * filters
    if sample.dtype == "int8":
        weights: list[int | None] = [
            sample.constant(shape, per_tensor(2.0 ** sample.rng.uniform(-9, -6), 0), dtype)
            for shape, dtype in zip(shapes, ("int8", "int16"), strict=True)
        ]
        bias = (sample.rng.standard_normal(units) * 10**6).astype(np.int32)
        weights.append(
            sample.writer.constant("bias", bias, per_tensor(2.0**-20, 0)) if sample.chance(2) else None
        )
        memory = TensorType("int16", state, per_tensor(2.0 ** sample.rng.uniform(-12, -8), 0))
        result = TensorType("int8", (batch, units), sample.quantization(2.0 ** sample.rng.uniform(-4, 3)))
    else:
        weights = [_matrix(sample, *shape) for shape in shapes]
        weights.append(_matrix(sample, units) if sample.chance(2) else None)
        memory, result = _reals(*state), _reals(batch, units)
    function = "relu" if sample.dtype == "int8" else str(sample.one(("none", "relu")))
    return [
        sample.writer.operator(
            "SVDF",
            [sample.input((batch, inputs)), *weights, sample.writer.state("memory", memory)],
            result,
            version=3 if sample.dtype == "int8" else 1,
            options="SVDFOptions",
            fields={"Rank": rank, "FusedActivationFunction": FUNCTIONS[function], **sample.rows()},
        )
    ]
