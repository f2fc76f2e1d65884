"""How each operator is said in NNAPI: its operation, and the arguments that are not called as a parameter is.

The others follow from the operation's signature: tensors are the node's operands in their order, scalars and lists the
parameters of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from npusim.frontends.nn_hal.enumerations import OperationType
from npusim.isa.base.errors import GraphError
from npusim.kernels.operator.operator import Call

_T = OperationType


@dataclass(frozen=True, slots=True)
class Said:
    """An operation, but for its operands.

    values:  arguments by their names in the signature.
    form:    which of its signatures.
    results: the results of the node as the operation has them, -1 for one that nobody reads; () where they are alike.
    scratch: the size of that one.
    """

    type: OperationType
    values: Mapping[str, Any] = field(default_factory=dict)
    form: int = 0
    results: tuple[int, ...] = ()
    scratch: tuple[int, ...] = ()


Say = Callable[[Call], Said]


def said(op: str, call: Call) -> Said:
    """An operator in NNAPI's words. Raises GraphError where NNAPI has no operation for it."""
    say = OPERATIONS.get(op)
    if say is None:
        raise GraphError(f"NNAPI has no operation for {op}")
    return say(call)


def _plain(type_: OperationType) -> Say:
    return lambda call: Said(type_)


def _window(how: Any) -> dict[str, Any]:
    (top, bottom), (left, right) = how.padding
    values = {"padding_left": left, "padding_right": right, "padding_top": top, "padding_bottom": bottom}
    values |= {"stride_height": how.strides[0], "stride_width": how.strides[1], "nchw": False}
    if hasattr(how, "filter"):
        values |= {"filter_height": how.filter[0], "filter_width": how.filter[1]}
    if hasattr(how, "dilations"):
        values |= {"dilation_height": how.dilations[0], "dilation_width": how.dilations[1]}
    return values


def _pool(type_: OperationType) -> Say:
    return lambda call: Said(type_, _window(call.parameters))


def _convolution(call: Call) -> Said:
    image, weights = call.inputs[:2]
    assert image is not None
    assert weights is not None
    groups, values = image.shape[3] // weights.shape[3], _window(call.parameters)
    if groups == 1:
        return Said(_T.CONV_2D, values)
    return Said(_T.GROUPED_CONV_2D, values | {"groups": groups})


def _depthwise(call: Call) -> Said:
    return Said(
        _T.DEPTHWISE_CONV_2D, _window(call.parameters) | {"multiplier": call.parameters.depth_multiplier}
    )


def _transposed(call: Call) -> Said:
    """With paddings where they say the size; otherwise with the size, and no padding."""
    how = call.parameters
    if how.padding[0][0] >= 0 and _reaches(call):
        return Said(_T.TRANSPOSE_CONV_2D, _window(how))
    values = _window(how) | {"output_shape": call.outputs[0].shape, "padding": 2}
    return Said(_T.TRANSPOSE_CONV_2D, values, form=1)


def _reaches(call: Call) -> bool:
    """Whether windows less padding give the size of the result."""
    image, weights = call.inputs[:2]
    assert image is not None
    assert weights is not None
    how = call.parameters
    covered = [
        (image.shape[1 + axis] - 1) * how.strides[axis] + weights.shape[1 + axis] - sum(how.padding[axis])
        for axis in range(2)
    ]
    return tuple(covered) == call.outputs[0].shape[1:3]


def _product(call: Call) -> Said:
    how = call.parameters
    return Said(_T.BATCH_MATMUL, {"adj_first": how.adj_x, "adj_second": how.adj_y})


def _resize(type_: OperationType) -> Say:
    def say(call: Call) -> Said:
        height, width = call.parameters.size
        return Said(type_, {"height": height, "width": width, "nchw": False})

    return say


def _image(type_: OperationType) -> Say:
    return lambda call: Said(type_, {"nchw": False})


def _pad(call: Call) -> Said:
    value = call.parameters.pad_value
    if value is None:
        return Said(_T.PAD)
    return Said(_T.PAD_V2, {"value": value})


def _mirror_pad(call: Call) -> Said:
    return Said(_T.MIRROR_PAD, {"mode": ("reflect", "symmetric").index(call.parameters.mode)})


def _strided_slice(call: Call) -> Said:
    """An end before the first element cannot be numbered, so its mask says it; axes that are dropped are shrunk."""
    from npusim.frontends.rewriting import dropped_axes

    how = call.parameters
    ends = [first + size * step for first, size, step in zip(how.begin, how.size, how.strides, strict=True)]
    masked = sum(1 << axis for axis, end in enumerate(ends) if end < 0)
    shrunk = sum(1 << axis for axis in dropped_axes(how.size, call.outputs[0].shape) or ())
    masks = {"begin_mask": 0, "end_mask": masked, "shrink_axis_mask": shrunk}
    return Said(_T.STRIDED_SLICE, {"end": [max(end, 0) for end in ends], **masks})


def _split(call: Call) -> Said:
    if len(set(call.parameters.sizes)) != 1:
        raise GraphError("NNAPI's SPLIT gives equal parts")
    return Said(_T.SPLIT, {"count": len(call.outputs)})


def _reverse(call: Call) -> Said:
    if len(call.parameters.axes) != 1:
        raise GraphError("NNAPI's REVERSE has one axis")
    return Said(_T.REVERSE, {"axis": call.parameters.axes})


def _gather(call: Call) -> Said:
    if call.parameters.batch_dims:
        raise GraphError("NNAPI's GATHER has no batch dimensions")
    return Said(_T.GATHER)


def _lstm(call: Call) -> Said:
    """Scratch memory has a column per gate and unit."""
    cell = call.inputs[19]
    assert cell is not None
    gates = 4 if call.inputs[1] is not None else 3
    size = (cell.shape[0], gates * cell.shape[1])
    has_scratch = len(call.outputs) > _LSTM_RESULTS
    return Said(_T.LSTM, results=(_LSTM_RESULTS if has_scratch else -1, 1, 2, 0), scratch=size)


_LSTM_RESULTS = 3


def _regions(type_: OperationType) -> Say:
    def say(call: Call) -> Said:
        how = call.parameters
        values = {"height": how.size[0], "width": how.size[1], "nchw": False}
        if hasattr(how, "samples"):
            values |= {"height_samples": how.samples[0], "width_samples": how.samples[1]}
        return Said(type_, values)

    return say


def _limited_boxes(call: Call) -> Said:
    how = call.parameters
    kernel = ("hard", "linear", "gaussian").index(how.kernel)
    return Said(_T.BOX_WITH_NMS_LIMIT, {"max_boxes": how.most, "kernel": kernel})


_ALIKE = (
    *(
        "abs",
        "cast",
        "dequantize",
        "elu",
        "exp",
        "floor",
        "hard_swish",
        "log",
        "logical_not",
        "logistic",
        "neg",
    ),
    *("quantize", "relu", "relu6", "rsqrt", "sin", "sqrt", "tanh"),
    *("add", "div", "maximum", "minimum", "mul", "pow", "prelu", "sub"),
    *(
        "equal",
        "greater",
        "greater_equal",
        "less",
        "less_equal",
        "not_equal",
        "logical_and",
        "logical_or",
        "select",
    ),
    *("mean", "reduce_all", "reduce_any", "reduce_max", "reduce_min", "reduce_prod"),
    *(
        "axis_aligned_bbox_transform",
        "bidirectional_sequence_lstm",
        "bidirectional_sequence_rnn",
        "channel_shuffle",
    ),
    *("concatenation", "embedding_lookup", "fully_connected", "hashtable_lookup", "l2_normalization"),
    *(
        "local_response_normalization",
        "log_softmax",
        "pack",
        "quantized_16bit_lstm",
        "random_multinomial",
        "slice",
    ),
    *("softmax", "tile", "topk_v2", "unidirectional_sequence_lstm", "unidirectional_sequence_rnn"),
)
"""Operators that NNAPI calls alike, whose arguments are called as operands and parameters are."""

OPERATIONS: dict[str, Say] = {
    "box_with_nms_limit": _limited_boxes,
    "heatmap_max_keypoint": _image(_T.HEATMAP_MAX_KEYPOINT),
    "roi_align": _regions(_T.ROI_ALIGN),
    "roi_pooling": _regions(_T.ROI_POOLING),
    **{op: _plain(OperationType[op.upper()]) for op in _ALIKE},
    "relu_n1_to_1": _plain(_T.RELU1),
    "sum": _plain(_T.REDUCE_SUM),
    "arg_max": _plain(_T.ARGMAX),
    "arg_min": _plain(_T.ARGMIN),
    "average_pool_2d": _pool(_T.AVERAGE_POOL_2D),
    "batch_matmul": _product,
    "batch_to_space_nd": _image(_T.BATCH_TO_SPACE_ND),
    "conv_2d": _convolution,
    "depth_to_space": _image(_T.DEPTH_TO_SPACE),
    "depthwise_conv_2d": _depthwise,
    "floor_div": lambda call: Said(_T.DIV, {"activation": "none"}),
    "gather": _gather,
    "instance_normalization": _image(_T.INSTANCE_NORMALIZATION),
    "l2_pool_2d": _pool(_T.L2_POOL_2D),
    "lstm": _lstm,
    "max_pool_2d": _pool(_T.MAX_POOL_2D),
    "mirror_pad": _mirror_pad,
    "pad": _pad,
    "reshape": lambda call: Said(_T.RESHAPE, {"shape": call.outputs[0].shape}),
    "resize_bilinear": _resize(_T.RESIZE_BILINEAR),
    "resize_nearest_neighbor": _resize(_T.RESIZE_NEAREST_NEIGHBOR),
    "reverse_v2": _reverse,
    "rnn": lambda call: Said(_T.RNN, results=(1, 0)),
    "space_to_batch_nd": _image(_T.SPACE_TO_BATCH_ND),
    "space_to_depth": _image(_T.SPACE_TO_DEPTH),
    "split": _split,
    "strided_slice": _strided_slice,
    "svdf": lambda call: Said(_T.SVDF, results=(1, 0)),
    "transpose": lambda call: Said(_T.TRANSPOSE, {"permutation": call.parameters.perm}),
    "transpose_conv": _transposed,
}
"""By the operator."""
