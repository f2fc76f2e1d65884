"""Random models of operators with weights: convolutions, matrix product, LSTM, and detections."""

from __future__ import annotations

from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from npusim.isa.base.tensor import Quantization, TensorType
from npusim.models.options import window_fields
from npusim.models.writer import per_tensor

from .sample import PADDINGS, Sample


def _window(sample: Sample, size: tuple[int, int]) -> dict[str, Any]:
    """Kernel, strides, dilations and padding of a window that fits into an image of `size`."""
    padding = sample.one(PADDINGS)
    dilations = (1, 1) if sample.chance(2) else (sample.pick(1, 3), sample.pick(1, 3))
    kernel = [sample.pick(1, 4), sample.pick(1, 4)]
    if padding == "valid":
        kernel = [min(k, (s - 1) // d + 1) for k, s, d in zip(kernel, size, dilations, strict=True)]
    strides = (sample.pick(1, 3), sample.pick(1, 3))
    return {"kernel": tuple(kernel), "strides": strides, "dilations": dilations, "padding": padding}


def conv_2d(sample: Sample) -> list[int]:
    shape = sample.image()
    window = _window(sample, shape[1:3])
    kernel, channels = window.pop("kernel"), sample.pick(1, 9)
    groups = sample.one([count for count in range(2, shape[3] + 1) if shape[3] % count == 0] or [1])
    groups = groups if sample.chance(3) else 1
    channels *= groups
    ifm = sample.input(shape)
    weights = sample.weights((channels, *kernel, shape[3] // groups), 0, grouped=groups > 1)
    terms = kernel[0] * kernel[1] * shape[3] // groups
    bias = sample.bias(channels, ifm, weights, terms)
    result = sample.quantization(sample.sum_scale(ifm, weights, terms))
    return [
        sample.writer.conv_2d(ifm, weights, bias, result, activation=sample.activation(), **window)  # type: ignore[arg-type]
    ]


def depthwise_conv_2d(sample: Sample) -> list[int]:
    shape = sample.image()
    window = _window(sample, shape[1:3])
    kernel, channels = window.pop("kernel"), shape[3] * (1 if sample.chance(2) else sample.pick(2, 4))
    ifm = sample.input(shape)
    weights = sample.weights((1, *kernel, channels), 3, grouped=True)
    terms = kernel[0] * kernel[1]
    bias = None if sample.chance(4) else sample.bias(channels, ifm, weights, terms, narrow=False)
    result = sample.quantization(sample.sum_scale(ifm, weights, terms))
    return [
        sample.writer.depthwise_conv_2d(
            ifm,
            weights,
            bias,
            result,  # type: ignore[arg-type]
            activation=sample.activation(),
            **window,
        )
    ]


def transpose_conv(sample: Sample) -> list[int]:
    """LiteRT passes over zero points of int8 weights; the size of the output is an operand."""
    shape = sample.image()
    kernel, strides = (sample.pick(1, 4), sample.pick(1, 4)), (sample.pick(1, 3), sample.pick(1, 3))
    padding, channels = sample.one(PADDINGS), sample.pick(1, 9)
    natural = [
        size * step if padding == "same" else (size - 1) * step + taps
        for size, step, taps in zip(shape[1:3], strides, kernel, strict=True)
    ]
    if padding == "same":  # all these sizes lead back to that of the input
        natural = [size - sample.pick(0, step - 1) for size, step in zip(natural, strides, strict=True)]
    ifm = sample.input(shape)
    weights = sample.weights((channels, *kernel, shape[3]), 0, shifted=True)
    terms = kernel[0] * kernel[1] * shape[3]
    operands = [sample.operand(shape[0], *natural, channels), weights, ifm]
    narrow: dict[str, int] = {}
    if sample.chance(2):
        operands.append(bias := sample.bias(channels, ifm, weights, terms))
        narrow = sample.writer.accumulator_fields(ifm, bias)
    scale = sample.sum_scale(ifm, weights, terms)
    # LiteRT adds in float32, tap by tap: what it loses is small beside the sums, not beside what is left of them.
    activation = sample.activation() if sample.dtype != "float32" else str(sample.one(("none", "relu")))
    return [
        sample.writer.operator(
            "TRANSPOSE_CONV",
            operands,
            sample.type((shape[0], *natural, channels), scale),
            version=3 if len(operands) > 3 else 2,
            options="TransposeConvOptions",
            fields=window_fields(strides, padding, activation) | narrow,
        )
    ]


def fully_connected(sample: Sample) -> list[int]:
    depth, units = sample.pick(1, 40), sample.pick(1, 20)
    shape = (*sample.shape(sample.pick(0, 2), 4), depth)
    if sample.chance(4):
        shape = (sample.pick(1, 4), depth, sample.pick(1, 3))
    ifm = sample.input(shape)
    computed = sample.dtype == "int8" and sample.chance(4)
    weights = sample.input((units, depth)) if computed else sample.weights((units, depth), 0, shifted=True)
    bias = None if sample.chance(4) else sample.bias(units, ifm, weights, depth)
    result = sample.quantization(sample.sum_scale(ifm, weights, depth))
    keep = shape[-1] == depth and len(shape) > 1 and sample.chance(2)
    return [
        sample.writer.fully_connected(
            ifm,
            weights,
            bias,
            result,  # type: ignore[arg-type]
            activation=sample.activation(),
            keep_num_dims=keep,
            asymmetric=any(sample.rows().values()),
        )
    ]


def batch_matmul(sample: Sample) -> list[int]:
    rows, inner, columns = sample.shape(3, 14)
    batch = sample.shape(sample.pick(0, 3), 3)
    batches = [batch, batch]
    for side in (0, 1):
        if sample.chance(3):
            batches[side] = tuple(1 if sample.chance(2) else size for size in batch)
        if sample.chance(4):
            batches[side] = batches[side][sample.pick(0, len(batch)) :]
    flips = sample.chance(2), sample.chance(2)
    shapes = [
        (*before, *(sizes[::-1] if flip else sizes))
        for before, sizes, flip in zip(batches, ((rows, inner), (inner, columns)), flips, strict=True)
    ]
    x = sample.input(shapes[0])
    y = sample.weights(shapes[1], -2 if flips[1] else -1) if sample.dynamic else sample.input(shapes[1])
    shape = (*np.broadcast_shapes(*batches), rows, columns)
    scale = sample.sum_scale(x, y, inner) * (256 if sample.dtype == "int16" else 1)
    result = sample.type(shape, float(np.float32(scale)))
    fields = {"AdjX": flips[0], "AdjY": flips[1], **sample.rows()}
    return [
        sample.writer.operator("BATCH_MATMUL", (x, y), result, options="BatchMatMulOptions", fields=fields)
    ]


# The LSTM layer


def lstm(sample: Sample) -> list[int]:
    batch, steps, inputs, cells = sample.shape(4, 5)
    projected = sample.chance(3)
    outputs = sample.pick(1, 5) if projected else cells
    peephole = not projected and sample.chance(3)
    gates = range(1, 4) if sample.chance(4) else range(4)
    integer = sample.dtype == "int8"
    weight, small = ("int8", "int16") if integer else ("float32", "float32")
    time_major = sample.chance(2)
    shape = (steps, batch, inputs) if time_major else (batch, steps, inputs)

    operands: list[int | None] = [None] * (20 if sample.chance(2) else 24)
    input_scale, state_scale = 2.0 ** sample.rng.uniform(-8, -5), 2.0 ** sample.rng.uniform(-8, -6)
    operands[0] = ifm = sample.input(shape, input_scale)
    state = sample.quantization(state_scale)

    def matrix(shape: tuple[int, ...], scale: float, dtype: str = weight, norm: bool = False) -> int:
        if sample.dynamic:
            return sample.matrix(shape, not norm)
        return sample.constant(shape, per_tensor(scale, 0) if integer else None, dtype)

    for gate in gates:
        operands[1 + gate] = matrix((cells, inputs), 2.0 ** sample.rng.uniform(-9, -6))
        operands[5 + gate] = matrix((cells, outputs), 2.0 ** sample.rng.uniform(-9, -6))
        operands[12 + gate] = _lstm_bias(sample, cells)
    if peephole:
        for position, gate in ((9, 0), (10, 1), (11, 3)):
            if gate in gates:
                operands[position] = matrix((cells,), 2.0**-15, small)
    if projected:
        operands[16] = matrix((outputs, cells), 2.0 ** sample.rng.uniform(-8, -5))
        if sample.chance(2):
            operands[17] = _lstm_bias(sample, outputs)
    cell = Quantization((2.0 ** -sample.pick(9, 15),), (0,)) if integer else None
    operands[18] = sample.writer.state("output_state", TensorType(sample.dtype, (batch, outputs), state))
    operands[19] = sample.writer.state("cell_state", TensorType(small, (batch, cells), cell))
    fields: dict[str, Any] = {
        "FusedActivationFunction": 4,
        "CellClip": float(sample.one((0.0, 0.5, 4.0))),
        "ProjClip": float(sample.one((0.0, 0.5))) if projected else 0.0,
        "TimeMajor": time_major,
        **sample.rows(),
    }
    hidden = per_tensor(2.0 ** sample.rng.uniform(-8, -6), sample.zero_point("int8"))
    normalized = len(operands) == 24 and sample.chance(2)
    if normalized:
        for gate in gates:
            operands[20 + gate] = matrix((cells,), 2.0 ** sample.rng.uniform(-16, -13), small, norm=True)
    scales = [per_tensor(2.0 ** sample.rng.uniform(-13, -8) if normalized else 2.0**-12, 0)] * 4 + [hidden]
    intermediates = [
        sample.writer.tensor(f"intermediate_{i}", TensorType("int8" if i == 4 else "int16", (), each))
        for i, each in enumerate(scales if integer else [])
    ]
    return [
        sample.writer.operator(
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            operands,
            TensorType(sample.dtype, (*sample.writer.type(ifm).shape[:2], outputs), state),
            version=3 if integer else 1,
            options="UnidirectionalSequenceLSTMOptions",
            fields=fields,
            intermediates=intermediates,
        )
    ]


def _lstm_bias(sample: Sample, size: int) -> int:
    if sample.dtype == "float32":
        return sample.constant((size,), None, "float32")
    codes = (sample.rng.standard_normal(size) * 3000).astype(np.int32)
    return sample.writer.constant("bias", codes, per_tensor(2.0**-14, 0))


# Detections


def detection(sample: Sample) -> list[int]:
    boxes, classes = sample.pick(1, 12), sample.pick(1, 4)
    background = sample.pick(0, 1)
    coded = sample.dtype == "uint8"
    per_box = sample.pick(1, classes)
    options = {
        "max_detections": sample.pick(1, boxes + 2),
        "max_classes_per_detection": per_box,
        "detections_per_class": sample.pick(1, 20),
        "use_regular_nms": sample.chance(2),
        "nms_score_threshold": float(np.float32(sample.one((sample.rng.uniform(0, 0.5), -20.0)))),
        "nms_iou_threshold": float(np.float32(sample.rng.uniform(0.2, 1))),
        "num_classes": classes,
        **dict.fromkeys(("y_scale", "x_scale"), float(sample.one((10.0, -10.0)))),
        **dict.fromkeys(("h_scale", "w_scale"), float(sample.one((5.0, -5.0)))),
    }
    if options["use_regular_nms"]:
        per_box = options["max_classes_per_detection"] = 1
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in options.items():
            builder.Key(name)
            builder.Bool(value) if isinstance(value, bool) else (
                builder.Float(value, 4) if isinstance(value, float) else builder.Int(value)
            )
    encodings = sample.writer.input(
        "encodings", TensorType(sample.dtype, (1, boxes, 4), per_tensor(0.05, 128) if coded else None)
    )
    scores = sample.writer.input(
        "scores",
        TensorType(sample.dtype, (1, boxes, classes + background), per_tensor(1 / 256, 0) if coded else None),
    )
    anchors = sample.rng.uniform(0.1, 0.9, (boxes, 4)).astype(np.float32)
    scaling = None
    if coded:
        anchors, scaling = (anchors * 255).astype(np.uint8), per_tensor(1 / 255, 0)  # type: ignore[assignment]
    corners = sample.writer.constant("anchors", anchors, scaling)
    rows = int(options["max_detections"]) * per_box
    shapes = ((1, rows, 4), (1, rows), (1, rows), (1,))
    outputs = [TensorType("float32", shape) for shape in shapes]
    return list(
        sample.writer.operator_of_many(
            sample.code,
            (encodings, scores, corners),
            outputs,
            custom_options=bytes(builder.Finish()),
        )
    )
