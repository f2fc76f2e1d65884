"""Every operation as the text defines it: its operands in order, and a small example with its result.

The operands are transcribed from the text (the checklist where the text has a misprint): "?" behind one that may be
omitted, "+" behind one that stands for several. Results are written with numpy or as plain loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from npusim import nnadapter as nna

from . import plain_loops as loops

RANDOM = np.random.default_rng(20)


def reals(*shape: int, low: float = -2.0, high: float = 2.0) -> Any:
    """Floating-point values that differ from steps of quantized ones."""
    return RANDOM.uniform(low, high, shape).astype(np.float32)


class Case(NamedTuple):
    """An example.

    operands:  of the definition, "inputs > outputs".
    given:     the tensors, in their order; a list for an argument of several.
    arguments: the parameters by name.
    wanted:    tensors -> what each output is.
    coded:     whether the text lets the first tensor be QUANT_INT8_SYMM_PER_LAYER, with outputs of its type.
    """

    operands: str
    given: Sequence[Any]
    arguments: Mapping[str, Any]
    wanted: Callable[..., Any]
    coded: bool = True


IMAGE, PAIR = reals(1, 4, 4, 6), (reals(2, 1, 3), reals(2, 4, 3))
TRUTHS = (np.array([[True], [False]]), np.array([[True, False, True]]))
CHANNELS = [reals(4, low=0.5) for _ in range(4)]
POOL = {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [0, 1, 1, 0]}
WINDOW = {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}
BIAS = reals(6)
FILTER, TRANSPOSED = reals(6, 2, 2, 2), reals(4, 3, 2, 2)


def unary(of: Callable[[Any], Any], low: float = -2.0, **arguments: Any) -> Case:
    """A function of elements."""
    names = " ".join(("input", *arguments))
    return Case(f"{names} > output", [reals(2, 3, 2, low=low)], arguments, of)


def fused(of: Callable[[Any, Any], Any], low: float = -2.0) -> Case:
    """A function of two tensors that broadcast, with RELU1 behind it."""
    pair = [np.clip(one, low, None) for one in PAIR]
    return Case(
        "input0 input1 fuse_code > output",
        pair,
        {"fuse_code": nna.FUSED_RELU1},
        lambda a, b: np.clip(of(a, b), -1, 1),
    )


def comparison(of: Any) -> Case:
    """A truth of two tensors that broadcast."""
    pair = [np.round(one) for one in PAIR]
    return Case("input0 input1 > output", pair, {}, of, coded=False)


def logic(of: Any) -> Case:
    return Case("input0 input1 > output", TRUTHS, {}, of, coded=False)


def reduced(of: Any) -> Case:
    return Case(
        "input axes keepdim > output",
        [IMAGE],
        {"axes": [1, -1], "keepdim": True},
        lambda x: of(x, axis=(1, 3), keepdims=True),
    )


def moved(
    operands: str, shape: Sequence[int], arguments: Mapping[str, Any], of: Callable[[Any], Any]
) -> Case:
    return Case(f"{operands} > output", [reals(*shape)], arguments, of)


def normal(x: Any, axes: Any) -> Any:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 0.01)


def softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def per_channel(number: int) -> Any:
    return CHANNELS[number].reshape(4, 1, 1)


_CONV = "input filter bias? auto_pad pads? strides group dilations"
_POOL = "input auto_pad pads? kernel_shape strides ceil_mode"
_RESIZE = "input shape? scales? align_corners"
_NMS = (
    "bboxes scores rois_num? background_label score_threshold nms_top_k nms_threshold nms_eta keep_top_k normalized"
    " return_index > box out_rois_num index?"
)

CASES: Mapping[str, Case] = {
    "ABS": unary(np.abs),
    "ADAPTIVE_AVERAGE_POOL_2D": Case(
        "input output_shape > output", [IMAGE], {"output_shape": [3, 4]}, lambda x: loops.bins(x, (3, 4), "mean")[0]
    ),
    "ADAPTIVE_MAX_POOL_2D": Case(
        "input output_shape return_indices return_indices_dtype > output indices?",
        [IMAGE],
        {"output_shape": [3, 4], "return_indices": True},
        lambda x: loops.bins(x, (3, 4), "max"),
        coded=False,
    ),
    "ADD": fused(np.add),
    "AND": logic(np.logical_and),
    "ARG_MAX": Case(
        "input axis keepdim dtype > output",
        [IMAGE],
        {"axis": -1, "keepdim": True},
        lambda x: x.argmax(-1, keepdims=True),
        coded=False,
    ),
    "ARG_MIN": Case(
        "input axis keepdim dtype > output", [IMAGE], {"axis": 1}, lambda x: x.argmin(1), coded=False
    ),
    "ASSIGN": unary(lambda x: x),
    "AVERAGE_POOL_2D": Case(
        f"{_POOL} count_include_pad fuse_code > output",
        [IMAGE],
        POOL | {"count_include_pad": True},
        lambda x: loops.pool(x, (0, 1, 1, 0), (2, 3), (2, 2), (2, 3), "mean", True)[0],
    ),
    "BATCH_NORMALIZATION": Case(
        "input scale bias mean variance epsilon > output",
        [IMAGE],
        {**dict(zip(("scale", "bias", "mean", "variance"), CHANNELS, strict=True)), "epsilon": 0.01},
        lambda x: (x - per_channel(2)) / np.sqrt(per_channel(3) + 0.01) * per_channel(0) + per_channel(1),
    ),
    "CAST": Case(
        "input dtype > output", [IMAGE], {"dtype": nna.INT32}, lambda x: x.astype(np.int32), coded=False
    ),
    "CHANNEL_SHUFFLE": moved(
        "input group", (1, 6, 2, 2), {"group": 2}, lambda x: x[:, [0, 3, 1, 4, 2, 5]]
    ),
    "CLIP": unary(lambda x: np.clip(x, -0.5, 1), min=-0.5, max=1.0),
    "CONCAT": Case(
        "inputs+ axis > output", [[reals(2, 3), reals(2, 1)]], {"axis": -1}, lambda a, b: np.concatenate([a, b], 1)
    ),
    "CONV_2D": Case(
        f"{_CONV} fuse_code > output",
        [IMAGE],
        {**WINDOW, "filter": FILTER, "bias": BIAS, "group": 2, "fuse_code": nna.FUSED_RELU},
        lambda x: np.maximum(loops.convolution(x, FILTER, BIAS, [1, 0, 2, 1], [2, 1], 2, [1, 2]), 0),
        coded=False,  # of quantized filters: tests/litert/test_nnadapter.py
    ),
    "CONV_2D_TRANSPOSE": Case(
        f"{_CONV} output_padding? output_shape? fuse_code > output",
        [IMAGE],
        {**WINDOW, "filter": TRANSPOSED, "bias": BIAS, "group": 2, "output_padding": [1, 0]},
        lambda x: loops.transposed_convolution(
            x, TRANSPOSED, BIAS, [1, 0, 2, 1], [2, 1], 2, [1, 2], (8, 5)
        ),
        coded=False,
    ),
    "COS": unary(np.cos),
    "CUM_SUM": Case(
        "input axis exclusive reverse > output",
        [reals(2, 3)],
        {"axis": 1, "exclusive": True, "reverse": True},
        lambda x: np.stack([x[:, 1] + x[:, 2], x[:, 2], 0 * x[:, 0]], 1),
    ),
    "DEFORMABLE_CONV_2D": Case(
        "input offset mask filter bias? pads? strides group deformable_group dilations fuse_code > output",
        [IMAGE, reals(1, 16, 2, 7), reals(1, 8, 2, 7)],
        {**WINDOW, "filter": FILTER, "bias": BIAS, "group": 2, "deformable_group": 2},
        lambda x, offset, mask: loops.deformable(
            x, offset, mask, FILTER, BIAS, [1, 0, 2, 1], [2, 1], 2, 2, [1, 2]
        ),
        coded=False,
    ),
    "DIV": fused(np.divide, low=0.5),
    "EQUAL": comparison(np.equal),
    "EXP": unary(np.exp),
    "EXPAND": moved("input shape", (2, 1, 3), {"shape": [2, 2, 4, -1]}, lambda x: np.broadcast_to(x, (2, 2, 4, 3))),
    "FILL": Case(
        "shape value > output", [], {"shape": [2, 3], "value": np.int64([7])}, lambda: np.full((2, 3), 7), coded=False
    ),
    "FILL_LIKE": Case(
        "input value > output",
        [IMAGE],
        {"value": np.array([True])},
        lambda x: np.full(x.shape, True),
        coded=False,
    ),
    "FLATTEN": moved(
        "input start_axis end_axis", (2, 3, 4, 5), {"start_axis": 1, "end_axis": -2}, lambda x: x.reshape(2, 12, 5)
    ),
    "FLOOR": unary(np.floor),
    "FLOOR_DIV": fused(lambda a, b: np.floor(a / b), low=0.5),
    "FULLY_CONNECTED": Case(
        "input weight bias? fuse_code > output",
        [reals(2, 3, 4)],
        {"weight": BIAS[:, None] * CHANNELS[0], "bias": BIAS},
        lambda x: x.reshape(6, 4) @ (BIAS[:, None] * CHANNELS[0]).T + BIAS,
        coded=False,
    ),
    "GATHER": Case(
        "input indices axis > output", [reals(3, 4), np.int64([[2, 0]])], {"axis": 1}, lambda x, at: x[:, at]
    ),
    "GELU": unary(
        lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), approximate=True
    ),
    "GREATER": comparison(np.greater),
    "GREATER_EQUAL": comparison(np.greater_equal),
    "GRID_SAMPLE": Case(
        "input grid align_corners mode pad_mode > output",
        [IMAGE, reals(1, 2, 3, 2)],
        {"align_corners": True, "mode": nna.INTERPOLATE_MODE_BILINEAR, "pad_mode": nna.PAD_MODE_CONSTANT},
        lambda x, grid: loops.sampled(x, grid, True, False, "zeros"),
    ),
    "GROUP_NORMALIZATION": Case(
        "input scale bias epsilon groups > output",
        [IMAGE],
        {"scale": CHANNELS[0], "bias": CHANNELS[1], "epsilon": 0.01, "groups": 2},
        lambda x: normal(x.reshape(1, 2, 48), 2).reshape(x.shape) * per_channel(0) + per_channel(1),
    ),
    "HARD_SIGMOID": unary(lambda x: np.clip(0.25 * x + 0.5, 0, 1), alpha=0.25, beta=0.5),
    "HARD_SWISH": unary(lambda x: x * np.clip(0.25 * x + 0.5, 0, 1), alpha=0.25, beta=0.5),
    "INSTANCE_NORMALIZATION": Case(
        "input scale bias epsilon > output",
        [IMAGE],
        {"scale": CHANNELS[0], "bias": CHANNELS[1], "epsilon": 0.01},
        lambda x: normal(x, (2, 3)) * per_channel(0) + per_channel(1),
    ),
    "LAYER_NORMALIZATION": Case(
        "input scale bias begin_norm_axis epsilon > output",
        [reals(2, 3, 4)],
        {"scale": CHANNELS[0], "bias": CHANNELS[1], "begin_norm_axis": 2, "epsilon": 0.01},
        lambda x: normal(x, 2) * CHANNELS[0] + CHANNELS[1],
    ),
    "LEAKY_RELU": unary(lambda x: np.where(x < 0, 0.25 * x, x), alpha=0.25),
    "LESS": comparison(np.less),
    "LESS_EQUAL": comparison(np.less_equal),
    "LOG": unary(np.log, low=0.5),
    "LOG_SOFTMAX": unary(lambda x: np.log(softmax(x)), axis=1),
    "LP_NORMALIZATION": unary(
        lambda x: x / (np.sqrt((x**2).sum(1, keepdims=True)) + 0.01), axis=[1], p=2, epsilon=0.01
    ),
    "LRN": Case(
        "input size bias alpha beta > output",
        [IMAGE],
        {"size": 1, "bias": 2.0, "alpha": 0.5, "beta": 0.75},
        lambda x: x / (2 + 0.5 * x**2) ** 0.75,
        coded=False,
    ),
    "MAT_MUL": Case(
        "x y transpose_x transpose_y > output",
        [reals(2, 3, 4), reals(1, 5, 4)],
        {"transpose_y": True},
        lambda x, y: x @ y.swapaxes(1, 2),
        coded=False,
    ),
    "MAX": fused(np.maximum),
    "MAX_POOL_2D": Case(
        f"{_POOL} return_indices return_indices_dtype fuse_code > output indices?",
        [IMAGE],
        POOL | {"pads": [0, 0, 0, 0], "return_indices": True, "ceil_mode": True},
        lambda x: loops.pool(x, (0, 0, 0, 0), (2, 3), (2, 2), (2, 3), "max"),
        coded=False,
    ),
    "MESHGRID": Case(
        "inputs+ > outputs+", [[reals(2), reals(3)]], {}, lambda a, b: tuple(np.meshgrid(a, b, indexing="ij"))
    ),
    "MIN": fused(np.minimum),
    "MUL": fused(np.multiply),
    "NON_MAX_SUPPRESSION": Case(
        _NMS,
        [np.float32([[[0, 0, 4, 4], [0, 0, 4, 3.9], [5, 5, 7, 7]]]), np.float32([[[0.6, 0.9, 0.7]]])],
        {"score_threshold": 0.1, "nms_top_k": 10, "nms_threshold": 0.5, "keep_top_k": 10},
        lambda boxes, scores: (np.float32([[0, 0.9, 0, 0, 4, 3.9], [0, 0.7, 5, 5, 7, 7]]), np.int32([2])),
        coded=False,
    ),
    "NOT": Case("input > output", TRUTHS[:1], {}, np.logical_not, coded=False),
    "NOT_EQUAL": comparison(np.not_equal),
    "OR": logic(np.logical_or),
    "PAD": moved(
        "input pads mode value?",
        (2, 3),
        {"pads": [0, 1, 2, 0], "mode": nna.PAD_MODE_REFLECT},
        lambda x: np.pad(x, [(0, 1), (2, 0)], "reflect"),
    ),
    "POW": Case(
        "input0 input1 fuse_code > output", [reals(2, 3, low=0.5), reals(3)], {}, lambda a, b: a**b
    ),
    "PRELU": Case(
        "input slope > output",
        [IMAGE],
        {"slope": CHANNELS[0]},
        lambda x: np.where(x < 0, x * per_channel(0), x),
    ),
    "PRIOR_BOX": Case(
        "input image min_sizes max_sizes? aspect_ratios? variances flip clip step_w step_h offset"
        " min_max_aspect_ratios_order > boxes variances",
        [reals(1, 1, 1, 2), reals(1, 3, 4, 8)],
        {"min_sizes": [2.0], "variances": [0.1, 0.1, 0.2, 0.2]},
        lambda x, image: (
            np.float32([[[[0.125, 0.25, 0.375, 0.75]], [[0.625, 0.25, 0.875, 0.75]]]]),
            np.tile(np.float32([0.1, 0.1, 0.2, 0.2]), (1, 2, 1, 1)),
        ),
        coded=False,
    ),
    "QUANTIZE": Case(
        "input axis scale zero_point > output",
        [np.float32([[0.25, -0.75, 100.0]])],
        {"scale": [0.5], "zero_point": [0]},
        lambda x: np.int8([[1, -2, 127]]),
        coded=False,
    ),
    "DEQUANTIZE": Case("input > output", [np.int8([[-128, 3]])], {}, lambda x: x * np.float32(0.5), coded=False),
    "RANGE": Case(
        "start end step > output", [], {"start": np.int32([2]), "end": np.int32([9]), "step": np.int32([3])},
        lambda: np.int32([2, 5, 8]), coded=False,
    ),
    "REDUCE_MAX": reduced(np.max),
    "REDUCE_MEAN": reduced(np.mean),
    "REDUCE_SUM": reduced(np.sum),
    "RELU": unary(lambda x: np.maximum(x, 0)),
    "RELU6": Case("input > output", [4 * IMAGE], {}, lambda x: np.clip(x, 0, 6)),
    "RESHAPE": moved("input shape", (2, 3, 4), {"shape": [0, -1]}, lambda x: x.reshape(2, 12)),
    "RESIZE_LINEAR": Case(
        f"{_RESIZE} align_mode? > output",
        [IMAGE],
        {"shape": [7, 5], "align_corners": False, "align_mode": 0},
        lambda x: loops.resized(x, (7, 5), (4 / 7, 6 / 5), "halves"),
    ),
    "RESIZE_NEAREST": Case(
        f"{_RESIZE} > output",
        [IMAGE],
        {"shape": [7, 5], "align_corners": False},
        lambda x: x[:, :, [i * 4 // 7 for i in range(7)]][..., [i * 6 // 5 for i in range(5)]],
    ),
    "ROI_ALIGN": Case(
        "input rois batch_indices output_height output_width sampling_ratio spatial_scale aligned > output",
        [IMAGE, np.float32([[1, 1, 9, 7]]), np.int32([0])],
        {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "spatial_scale": 0.5, "aligned": True},
        lambda x, rois, images: loops.regions(x, rois, images, (2, 3), 2, 0.5, True),
    ),
    "ROLL": moved(
        "input shifts axes?", (3, 4), {"shifts": [5, -1], "axes": [1, 0]}, lambda x: np.roll(x, (5, -1), (1, 0))
    ),
    "RSQRT": unary(lambda x: x**-0.5, low=0.5),
    "SHAPE": Case("input dtype > output", [IMAGE], {"dtype": nna.INT64}, lambda x: np.array(x.shape), coded=False),
    "SIGMOID": unary(lambda x: 1 / (1 + np.exp(-x))),
    "SIN": unary(np.sin),
    "SLICE": moved(
        "input axes? starts ends steps?",
        (4, 5),
        {"axes": [1, 0], "starts": [-4, 3], "ends": [9, 0], "steps": [2, -1]},
        lambda x: x[3:0:-1, 1::2],
    ),
    "SOFTMAX": unary(softmax, axis=1),
    "SOFTPLUS": unary(
        lambda x: np.where(2 * x > 1, x, np.log(1 + np.exp(2 * x)) / 2), beta=2.0, threshold=1.0
    ),
    "SPLIT": Case(
        "input axis split > outputs+", [reals(2, 5)], {"axis": -1, "split": [1, 4]}, lambda x: (x[:, :1], x[:, 1:])
    ),
    "SQUARE": unary(np.square),
    "SQUEEZE": moved("input axes?", (2, 1, 3, 1), {"axes": [-1]}, lambda x: x[..., 0]),
    "STACK": Case(
        "inputs+ axis > output", [[reals(2, 3), reals(2, 3)]], {"axis": -1}, lambda a, b: np.stack([a, b], -1)
    ),
    "SUB": fused(np.subtract),
    "SUM": Case("inputs+ > output", [[*PAIR, reals(3)]], {}, lambda a, b, c: a + b + c),
    "SWISH": unary(lambda x: x / (1 + np.exp(-x))),
    "TANH": unary(np.tanh),
    "TILE": moved("input repeats", (2, 3), {"repeats": [2, 3]}, lambda x: np.tile(x, (2, 3))),
    "TOP_K": Case(
        "input k axis largest sorted return_indices_dtype > values indices",
        [np.float32([[3, 1, 2, 5]])],
        {"k": 2, "axis": -1, "largest": False, "return_indices_dtype": nna.INT32},
        lambda x: (np.float32([[1, 2]]), np.int32([[1, 2]])),
        coded=False,
    ),
    "TRANSPOSE": moved("input perm", (2, 3, 4), {"perm": [2, 0, 1]}, lambda x: x.transpose(2, 0, 1)),
    "UNSQUEEZE": moved("input axes", (2, 3), {"axes": [1, 3]}, lambda x: x[:, None, :, None]),
    "UNSTACK": Case("input axis num > outputs+", [reals(3, 2)], {"axis": 0, "num": 3}, lambda x: tuple(x)),
    "WHERE": Case(
        "condition input0 input1 > output",
        [TRUTHS[0], reals(2, 3), reals(1, 3)],
        {},
        lambda truth, a, b: np.where(truth, a, b),
        coded=False,
    ),
    "XOR": logic(np.logical_xor),
    "YOLO_BOX": Case(
        "input imgsize anchors class_num conf_thresh downsample_ratio clip_bbox scale_x_y iou_aware iou_aware_factor"
        " > boxes scores",
        [reals(1, 7, 2, 2), np.int32([[64, 48]])],
        {"anchors": [10, 13], "class_num": 2, "conf_thresh": 0.3, "downsample_ratio": 16},
        lambda x, sizes: loops.yolo(x, sizes, [10, 13], 2, 0.3, 16, True, 1.0, None),
        coded=False,
    ),
}  # fmt: skip
"""By the name of the operation."""
