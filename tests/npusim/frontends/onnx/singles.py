"""One node of every operation, in its kinds: what is compared with ONNX Runtime, and what mutants are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.npusim.frontends.onnx.models import Fixed, Single, fixed, scalar, single, w, x

FUNCTIONS = (
    *(
        "Abs",
        "Neg",
        "Sign",
        "Floor",
        "Ceil",
        "Exp",
        "Relu",
        "Tanh",
        "Softplus",
        "Round",
        "Erf",
        "Mish",
        "Reciprocal",
    ),
    *(
        "Sin",
        "Cos",
        "Tan",
        "Sinh",
        "Cosh",
        "Atan",
        "Asinh",
        "Sigmoid",
        "HardSwish",
        "Softsign",
        "Selu",
        "Celu",
    ),
    *("Elu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Identity", "IsNaN", "IsInf", "Shrink"),
)

WITHIN = {
    "Asin": (-1, 1),
    "Acos": (-1, 1),
    "Atanh": (-0.9, 0.9),
    "Acosh": (1, 5),
    "Log": (0.1, 5),
    "Sqrt": (0, 5),
}

IMAGE = (1, 3, 7, 9)


def functions() -> Iterator[Single]:
    yield from (single(name, x(2, 3, 5)) for name in FUNCTIONS)
    yield from (single(name, x(2, 3, 5, low=low, high=high)) for name, (low, high) in WITHIN.items())
    yield single("Elu", x(7), alpha=0.3)
    yield single("Celu", x(7), alpha=0.3)
    yield single("Selu", x(7), alpha=0.3, gamma=2.0)
    yield single("HardSigmoid", x(7), alpha=0.3, beta=0.4)
    yield single("LeakyRelu", x(7), alpha=0.3)
    yield single("Shrink", x(7), bias=0.3, lambd=0.7)
    yield single("Gelu", x(2, 5))
    yield single("Gelu", x(2, 5), approximate="tanh")
    yield single("Clip", x(2, 5), scalar(-1, "float32"), scalar(2, "float32"))
    yield single("Clip", x(2, 5), None, scalar(2, "float32"))
    yield single("Clip", x(2, 5), scalar(2, "float32"), scalar(-1, "float32"))
    yield single("Clip", x(2, 5, of="int32"), scalar(-3, "int32"))
    yield single("Clip", x(2, 5, of="uint8"), None, scalar(9, "uint8"))
    yield single("Not", x(2, 5, of="bool"))
    yield single("Dropout", x(2, 5), outputs=2)
    yield single("com.microsoft::Gelu", x(2, 5))
    yield single("com.microsoft::QuickGelu", x(2, 5))
    yield single("com.microsoft::BiasGelu", x(2, 5), w(5))
    yield single("com.microsoft::FastGelu", x(2, 5), w(5))


def elements() -> Iterator[Single]:
    for name in ("Add", "Sub", "Mul", "Div"):
        yield single(name, x(2, 3, 4), x(3, 1))
        yield single(name, x(2, 4, of="int32"), w(4, of="int32", low=1, high=2))
        yield single(name, x(2, 4, of="int64"), w(1, of="int64", low=1, high=2))
    yield single("Add", x(9, of="uint8"), x(9, of="uint8"))
    yield single("Pow", x(2, 3, low=0.1), x(3))
    yield single("Pow", x(2, 3), scalar(2, "float32"))
    yield single("Pow", x(2, 3, low=0), scalar(0.5, "float32"))
    yield single("Pow", x(2, 3, of="int32"), scalar(3, "int32"))
    yield single("PRelu", x(2, 3, 4), w(3, 1))
    yield single("Mod", x(9, of="int32"), w(9, of="int32", low=1, high=2))
    yield single("Mod", x(9, of="uint8"), w(9, of="uint8", low=1, high=2))
    yield single("Mod", x(9), w(9, low=1, high=2), fmod=1)
    yield single("Mod", x(9, of="int64"), Fixed(np.array([3, -3, 5, -5, 7, -7, 2, -2, 1])), fmod=1)
    for name in ("Min", "Max", "Sum", "Mean"):
        yield single(name, x(2, 3), x(3), x(1))
        yield single(name, x(2, 3))
    yield single("Max", x(5, of="int8"), x(5, of="int8", low=-1))
    for name in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
        yield single(name, x(2, 30, of="int32"), x(30, of="int32"))
        yield single(name, x(2, 3), x(2, 3, low=-1))
    for name in ("And", "Or", "Xor"):
        yield single(name, x(2, 8, of="bool"), x(8, of="bool"))
    yield single("Where", x(2, 1, of="bool"), x(2, 3), x(3, low=-1))
    yield single("Where", x(2, 3, of="bool"), x(2, 3, of="int64"), x(1, of="int64"))
    for dtype in ("int32", "int64", "uint8", "int8", "bool", "float16", "float64"):
        code = {"int32": 6, "int64": 7, "uint8": 2, "int8": 3, "bool": 9, "float16": 10, "float64": 11}[dtype]
        low = 0 if dtype == "uint8" else -3
        yield single("Cast", x(2, 9, low=low), to=code)
        yield single("Cast", x(2, 9, of="int32", low=low), to=code)
    yield single("CastLike", x(2, 9), x(1, of="int32"), opset=19)


def windows() -> Iterator[Single]:
    for opset, more in ((11, {}), (21, {"count_include_pad": 1}), (21, {"ceil_mode": 1})):
        yield single(
            "AveragePool",
            x(*IMAGE),
            kernel_shape=[3, 2],
            strides=[2, 2],
            pads=[1, 0, 1, 1],
            opset=opset,
            **more,
        )
    yield single("AveragePool", x(1, 2, 9), kernel_shape=[3], strides=[2])
    yield single(
        "AveragePool", x(1, 2, 5, 6, 7), kernel_shape=[2, 3, 2], strides=[2, 1, 2], pads=[0, 1, 0, 1, 1, 0]
    )
    yield single("AveragePool", x(*IMAGE), kernel_shape=[2, 2], dilations=[2, 3], pads=[1, 1, 1, 1])
    yield single("AveragePool", x(*IMAGE), kernel_shape=[3, 3], auto_pad="SAME_LOWER", strides=[2, 2])
    yield single("MaxPool", x(*IMAGE), kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])
    yield single("MaxPool", x(*IMAGE), kernel_shape=[3, 2], strides=[3, 2], ceil_mode=1)
    yield single("MaxPool", x(*IMAGE), kernel_shape=[2, 2], dilations=[2, 3])
    yield single("MaxPool", x(*IMAGE), kernel_shape=[3, 3], strides=[2, 2], outputs=2)
    yield single("MaxPool", x(*IMAGE, of="uint8"), kernel_shape=[2, 2], auto_pad="SAME_UPPER")
    yield single("MaxPool", x(*IMAGE, of="int8"), kernel_shape=[2, 2], dilations=[2, 2], pads=[1, 1, 1, 1])
    yield single("MaxPool", x(1, 2, 9), kernel_shape=[3], strides=[2])
    yield single("MaxPool", x(1, 2, 5, 6, 7), kernel_shape=[2, 3, 2])
    yield single("LpPool", x(*IMAGE), kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])
    yield single("LpPool", x(*IMAGE), kernel_shape=[2, 2], p=1)
    for name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        yield single(name, x(*IMAGE))
        yield single(name, x(1, 2, 9))
    yield single("Conv", x(*IMAGE), w(4, 3, 3, 2), w(4), strides=[2, 1], pads=[1, 0, 1, 1])
    yield single("Conv", x(1, 4, 6, 6), w(8, 2, 3, 3), group=2, dilations=[2, 1])
    yield single("Conv", x(1, 4, 6, 6), w(8, 1, 3, 3), w(8), group=4, auto_pad="SAME_UPPER")
    yield single("Conv", x(2, 3, 9), w(4, 3, 3), w(4), strides=[2], pads=[1, 1])
    yield single("Conv", x(1, 2, 5, 6, 7), w(3, 2, 2, 3, 2), w(3), strides=[2, 1, 1], pads=[1, 0, 1, 0, 1, 1])
    yield single("ConvTranspose", x(1, 3, 4, 5), w(3, 2, 3, 3), w(2), strides=[2, 2], pads=[1, 1, 0, 1])
    yield single(
        "ConvTranspose", x(1, 4, 4, 5), w(4, 2, 3, 2), group=2, strides=[2, 1], output_padding=[1, 0]
    )
    yield single("ConvTranspose", x(1, 3, 4, 5), w(3, 2, 3, 3), strides=[2, 2], output_shape=[9, 10])
    yield single("ConvTranspose", x(1, 3, 5), w(3, 2, 3), strides=[2], auto_pad="SAME_UPPER")


def regions() -> Iterator[Single]:
    boxes = fixed(
        [0, 0, 4, 5], [1.3, 0.4, 5.1, 3.9], [-3, 2, 9, 3.1], [4, 4, 4, 4], [5.5, 1, 40, 6], of="float32"
    )
    where = fixed(0, 1, 1, 0, 0)
    for how in (
        {"output_height": 2, "output_width": 3},
        {"output_height": 2, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.75},
        {"output_height": 3, "output_width": 1, "coordinate_transformation_mode": "output_half_pixel"},
    ):
        yield single("RoiAlign", x(2, 3, 6, 7), boxes, where, **how)
    yield single("RoiAlign", x(2, 3, 6, 7), boxes, where, output_height=2, output_width=2, opset=11)
    offset = x(1, 24, 5, 4, low=-2, high=2)
    yield single(
        "DeformConv", x(1, 4, 6, 5), w(6, 2, 3, 2), offset, w(6), group=2, offset_group=2, pads=[1, 0, 0, 0]
    )
    mask = x(1, 6, 3, 4, low=0, high=1)
    yield single(
        "DeformConv",
        x(1, 4, 6, 5),
        w(6, 4, 3, 2),
        x(1, 12, 3, 4, low=-3),
        None,
        mask,
        strides=[2, 1],
        pads=[1, 0, 1, 0],
    )


def chosen_by_constants() -> Iterator[Single]:
    numbers = fixed([[3, 0, 1], [0, 0, 3]])
    yield single("NonZero", numbers)
    yield single("NonZero", fixed([0.5, 0, -1], of="float32"))
    flags = fixed(True, False, True, of="bool")
    yield single("Compress", x(2, 3, 4), flags, axis=1)
    yield single("Compress", x(2, 3), flags)
    yield single("Unique", numbers, outputs=4)
    yield single("Unique", numbers, outputs=4, sorted=0)
    yield single("Unique", fixed([[3, 1], [0, 2], [3, 1]]), outputs=4, axis=0, sorted=0)


def fused() -> Iterator[Single]:
    conv, gemm = "com.microsoft::FusedConv", "com.microsoft::FusedGemm"
    filters = x(1, 3, 6, 5), w(4, 3, 3, 3), w(4)
    yield single(conv, *filters, pads=[1, 1, 1, 1], activation="Relu")
    yield single(conv, *filters, x(1, 4, 4, 3), activation="Relu")
    for name, numbers in (("Clip", [-0.5, 0.7]), ("LeakyRelu", [0.3]), ("HardSigmoid", [0.3, 0.4])):
        yield single(conv, *filters, activation=name, activation_params=numbers)
    yield single(gemm, x(3, 4), w(5, 4), w(5), transB=1, alpha=0.5, activation="Tanh")
    yield single(gemm, x(3, 4), w(4, 5), activation="LeakyRelu", activation_alpha=0.3)


def fused_attention() -> Iterator[Single]:
    one, several = "com.microsoft::Attention", "com.microsoft::MultiHeadAttention"
    rows, weights, bias = x(2, 5, 8), w(8, 24), w(24)
    yield single(one, rows, weights, bias, num_heads=2)
    yield single(one, rows, weights, bias, np.int32([3, 5]), num_heads=2)
    seen = np.int32([[1, 1, 0, 1, 0], [1, 1, 1, 1, 1]])
    yield single(one, rows, weights, bias, seen, None, x(1, 2, 5, 5), num_heads=2, scale=0.3)
    yield single(one, rows, weights, bias, num_heads=4, unidirectional=1)
    yield single(one, rows, w(8, 20), w(20), num_heads=2, qkv_hidden_sizes=[8, 8, 4])
    yield single(one, rows, weights, bias, num_heads=2, outputs=2)
    parts = x(2, 5, 8), x(2, 7, 8, low=-2), x(2, 7, 12)
    yield single(several, *parts, w(28), num_heads=4)
    yield single(several, *parts, None, np.int32(seen[:, [0, 1, 2, 3, 4, 0, 2]]), x(2, 4, 5, 7), num_heads=4)
    past = x(2, 2, 3, 4), x(2, 2, 3, 4, low=-1)
    own = x(2, 5, 8), x(2, 5, 8, low=-2), x(2, 5, 8, low=-1)
    yield single(several, *own, None, None, None, *past, num_heads=2, outputs=3)
    words, tables = np.int32([[3, 0, 1], [2, 2, 4]]), (w(5, 8), w(4, 8), w(2, 8))
    segments, norm = np.int32([[0, 1, 1], [0, 0, 1]]), (w(8), w(8))
    embed = "com.microsoft::EmbedLayerNormalization"
    yield single(
        embed, words, segments, *tables, *norm, np.int32([[1, 1, 0], [1, 1, 1]]), outputs=3, epsilon=1e-6
    )
    yield single(embed, words, None, *tables[:2], None, *norm, outputs=2)


def grouped_attention() -> Iterator[Single]:
    """Four heads of queries on two of keys, 16 elements each: prompts, chunks and single tokens, every cache."""
    name, heads = "com.microsoft::GroupQueryAttention", {"num_heads": 4, "kv_num_heads": 2, "outputs": 3}

    def parts(batch: int, rows: int) -> tuple[NDArray[Any], ...]:
        return x(batch, rows, 64), x(batch, rows, 32), x(batch, rows, 32, low=-2)

    def cache(batch: int, past: int) -> tuple[NDArray[Any], ...]:
        return x(batch, 2, past, 16), x(batch, 2, past, 16, low=-2)

    def lengths(*last: int) -> tuple[NDArray[Any], Fixed]:
        return np.int32(last), scalar(max(last) + 1, "int32")

    grown, chunk = (*parts(1, 3), *cache(1, 5), np.int32([7])), x(1, 3, 128)
    angles = w(20, 8), w(20, 8, low=-0.9)
    yield single(name, *parts(1, 5), None, None, *lengths(4), **heads)
    yield single(name, *grown, np.array(8, np.int32), **heads)
    yield single(name, chunk, None, None, *cache(1, 5), *lengths(7), scale=0.4, **heads)
    # A cache of 12 places: the position is known, given by the run, and differs within a batch.
    yield single(name, *parts(1, 3), *cache(1, 12), fixed(7, of="int32"), scalar(8, "int32"), **heads)
    yield single(name, *parts(1, 3), *cache(1, 12), *lengths(7), *angles, do_rotary=1, **heads)
    yield single(name, *parts(1, 5), *cache(1, 12), *lengths(4), local_window_size=2, **heads)
    yield single(name, *parts(2, 1), *cache(2, 6), *lengths(4, 6), local_window_size=3, softcap=1.5, **heads)
    yield single(name, *parts(3, 1), *cache(3, 6), fixed(4, 6, 4, of="int32"), scalar(7, "int32"), **heads)
    rotation = {"do_rotary": 1, "rotary_interleaved": 1}
    yield single(name, *parts(2, 1), *cache(2, 9), *lengths(3, 7), *angles, **rotation, **heads)
    places = np.int64([[9, 2, 4]])
    yield single(name, *grown, scalar(8, "int32"), *angles, places, x(1, 4, 3, 8), do_rotary=1, **heads)
    yield single(name, *grown, scalar(8, "int32"), *[None] * 4, w(4), local_window_size=4, **heads)
    yield single(name, *grown, scalar(8, "int32"), *[None] * 3, x(1, 1, 3, 8), smooth_softmax=1, **heads)


def cache_updates() -> Iterator[Single]:
    name, cache, new = "TensorScatter", x(2, 3, 6, 4), x(2, 3, 2, 4, low=-2)
    yield single(name, cache, new, opset=24)
    yield single(name, cache, new, np.int64([4, 1]), opset=24)
    yield single(name, cache, new, fixed(5, 2), mode="circular", opset=24)
    yield single(name, x(2, 6, 4), x(2, 3, 4, low=-2), np.int64([3, 0]), axis=1, opset=24)


def matrices() -> Iterator[Single]:
    yield single("MatMul", x(2, 3, 4), w(4, 5))
    yield single("MatMul", x(2, 1, 3, 4), x(5, 4, 2))
    yield single("MatMul", x(4), x(4, 3))
    yield single("MatMul", x(2, 3, 4), x(4))
    yield single("MatMul", x(4), x(4))
    yield single("MatMul", x(2, 3, of="int32"), x(3, 2, of="int32"))
    yield single("Gemm", x(3, 4), w(4, 5), w(5))
    yield single("Gemm", x(4, 3), w(5, 4), w(3, 5), transA=1, transB=1, alpha=0.5, beta=2.0)
    yield single("Gemm", x(3, 4), x(4, 5))
    yield single("Gemm", x(3, 4), w(4, 5), w(3, 1), alpha=1.5)
    yield single("com.microsoft::FusedMatMul", x(2, 4, 3), x(2, 5, 4), transA=1, transB=1, alpha=0.5)
    for equation in (
        "bij,bjk->bik",
        "ij->ji",
        "ij->i",
        "ij,j",
        "bhid,bhjd->bhij",
        "...ij,...jk->...ik",
        "ij,kl->ijkl",
    ):
        left = equation.split("->", maxsplit=1)[0].split(",")
        sizes = {letter: 2 + place for place, letter in enumerate("bhidjkl")}
        shapes = [[sizes[letter] for letter in term.replace("...", "b")] for term in left]
        yield single("Einsum", *(x(*shape) for shape in shapes), equation=equation)


def reductions() -> Iterator[Single]:
    for kind in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"):
        low = 0.1 if kind == "LogSum" else -2.0
        yield single(f"Reduce{kind}", x(2, 3, 4, low=low), fixed(0, -1), keepdims=0)
        yield single(f"Reduce{kind}", x(2, 3, 4, low=low), keepdims=1)
        yield single(f"Reduce{kind}", x(2, 3, low=low), opset=11, axes=[1])
    yield single("ReduceSum", x(2, 3), Fixed(np.zeros(0, np.int64)), noop_with_empty_axes=1)
    yield single("ReduceSum", x(2, 3, of="int32"), fixed(0))
    yield single("ReduceMax", x(2, 3, of="uint8"), fixed(1))
    for name in ("ArgMax", "ArgMin"):
        yield single(name, x(3, 5), axis=1)
        yield single(name, x(3, 5, of="int32", low=0, high=0.3), axis=0, keepdims=0, select_last_index=1)
    yield single("TopK", x(3, 9), fixed(4), outputs=2)
    yield single("TopK", x(3, 9), fixed(2), outputs=2, axis=0, largest=0)
    yield single("CumSum", x(3, 5), scalar(1))
    yield single("CumSum", x(3, 5), scalar(0), exclusive=1, reverse=1)
    for name in ("Softmax", "LogSoftmax", "Hardmax"):
        yield single(name, x(2, 3, 4))
        yield single(name, x(2, 3, 4), axis=1)
        yield single(name, x(2, 3, 4), axis=1, opset=11)


def moves() -> Iterator[Single]:
    yield single("Reshape", x(2, 3, 4), fixed(0, -1))
    yield single("Reshape", x(0, 3), fixed(3, 0), allowzero=1)
    yield single("Flatten", x(2, 3, 4), axis=2)
    yield single("Transpose", x(2, 3, 4), perm=[2, 0, 1])
    yield single("Squeeze", x(1, 3, 1), fixed(0))
    yield single("Squeeze", x(1, 3, 1), axes=[-1], opset=11)
    yield single("Unsqueeze", x(3), fixed(0, -1))
    yield single("Concat", x(2, 3), w(2, 1), x(2, 2), axis=-1)
    yield single("Concat", x(2, of="uint8"), x(3, of="uint8"), axis=0)
    yield single("Split", x(2, 7), fixed(3, 4), axis=1, outputs=2)
    yield single("Split", x(2, 7), axis=1, num_outputs=3, outputs=3)
    yield single("Split", x(6), opset=11, outputs=2)
    yield single("Slice", x(5, 6), fixed(1, -1), fixed(99, -99), fixed(0, 1), fixed(2, -2))
    yield single("Slice", x(5, 6), fixed(-1), fixed(-(2**63)), fixed(1), fixed(-1))
    yield single("Slice", x(5, 6), fixed(3), fixed(1))
    yield single("Tile", x(2, 3), fixed(2, 1))
    yield single("Expand", x(3, 1), fixed(2, 1, 4))
    for mode in ("constant", "edge", "reflect"):
        yield single("Pad", x(3, 4), fixed(1, 2, 0, 1), mode=mode)
    yield single("Pad", x(3, 4), fixed(1, 2, 0, 1), mode="wrap")
    yield single("Pad", x(3, 4), fixed(1, -1, -2, 1), scalar(1.5, "float32"))
    yield single("Pad", x(3, 4), fixed(1, 0), scalar(float("-inf"), "float32"), fixed(1))
    yield single("Pad", x(3, 4, of="int32"), fixed(1, 2, 0, 1), scalar(7, "int32"))
    yield single("DepthToSpace", x(1, 8, 2, 3), blocksize=2)
    yield single("DepthToSpace", x(1, 8, 2, 3), blocksize=2, mode="CRD")
    yield single("SpaceToDepth", x(1, 2, 4, 6), blocksize=2)
    yield single("ReverseSequence", x(4, 3, 2), fixed(1, 4, 2))
    yield single("Shape", x(2, 3, 4), start=1)
    yield single("Size", x(2, 3))
    yield single("ConstantOfShape", fixed(2, 3))
    yield single("Range", scalar(1, "float32"), scalar(4, "float32"), scalar(0.75, "float32"))
    yield single("Range", scalar(9), scalar(1), scalar(-3))
    yield single("EyeLike", x(3, 5), k=1)
    yield single("Trilu", x(2, 4, 5), scalar(-1))
    yield single("Trilu", x(2, 4, 5), upper=0)
    yield single("OneHot", x(3, 2, of="int64", low=-1, high=1), scalar(4), fixed(2, 5))
    yield single("OneHot", x(3, of="int64", low=0, high=0.4), scalar(4), fixed(0, 1, of="float32"), axis=0)


def gathers() -> Iterator[Single]:
    places = np.array([[0, -1], [2, 1]])
    yield single("Gather", x(3, 4), places, axis=1)
    yield single("Gather", x(3, 4), Fixed(places))
    yield single("GatherElements", x(3, 4), places, axis=1)
    yield single("GatherND", x(3, 4), places)
    yield single("GatherND", x(2, 3, 4), np.array([[[1], [-1]], [[0], [2]]]), batch_dims=1)
    yield single("ScatterND", x(4, 3), np.array([[1], [-1]]), x(2, 3))
    yield single("ScatterND", x(4, 3), np.array([[1, 2], [1, 2]]), x(2), reduction="add")
    yield single("ScatterElements", x(3, 3), np.array([[1, -1]]), x(1, 2), axis=1)
    yield single("ScatterElements", x(3, 3), np.array([[1, 1]]), x(1, 2), axis=1, reduction="max")


def normalizations() -> Iterator[Single]:
    channels = [w(3), w(3), w(3), w(3, low=0.5, high=2)]
    yield single("BatchNormalization", x(*IMAGE), *channels)
    yield single("BatchNormalization", x(2, 3), *channels, epsilon=0.01)
    yield single("LayerNormalization", x(2, 3, 4), w(4), w(4))
    yield single("LayerNormalization", x(2, 3, 4), w(3, 4), axis=1, epsilon=0.01, outputs=3)
    yield single("RMSNormalization", x(2, 3, 4), w(4), opset=23)
    yield single("InstanceNormalization", x(2, 3, 4, 5), w(3), w(3))
    yield single("GroupNormalization", x(2, 4, 3), w(4), w(4), num_groups=2)
    yield single("LpNormalization", x(2, 3, 4), axis=1)
    yield single("LpNormalization", x(2, 3, 4), p=1)
    yield single("LRN", x(1, 7, 2, 3), size=3)
    yield single("LRN", x(1, 7, 2, 3), size=5, alpha=0.5, beta=0.6, bias=2.0)
    yield single("MeanVarianceNormalization", x(2, 3, 4, 5))
    yield single("com.microsoft::SkipLayerNormalization", x(2, 3, 4), x(2, 3, 4, low=-1), w(4), w(4), w(4))
    yield single("com.microsoft::SkipSimplifiedLayerNormalization", x(2, 3, 4), x(2, 3, 4, low=-1), w(4))


def resizes() -> Iterator[Single]:
    scales, sizes = fixed(1, 1, 1.7, 0.6, of="float32"), fixed(1, 3, 12, 5)
    for how in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"):
        for mode in ("nearest", "linear", "cubic"):
            yield single("Resize", x(*IMAGE), None, scales, mode=mode, coordinate_transformation_mode=how)
        yield single(
            "Resize", x(*IMAGE), None, None, sizes, mode="linear", coordinate_transformation_mode=how
        )
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        yield single("Resize", x(*IMAGE), None, scales, nearest_mode=rounding)
    yield single("Resize", x(*IMAGE), fixed(of="float32"), fixed(1, 1, 2, 2, of="float32"), opset=11)
    yield single("Resize", x(*IMAGE, of="uint8"), None, scales, mode="linear")
    yield single("Resize", x(*IMAGE), None, scales, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1)
    yield single("Resize", x(*IMAGE), None, fixed(1, 1, 0.6, 0.3, of="float32"), mode="linear", antialias=1)
    yield single(
        "Resize", x(*IMAGE), None, None, fixed(5, 8), axes=[2, 3], keep_aspect_ratio_policy="not_larger"
    )
    region = fixed(0, 0, 0.2, 0.3, 1, 1, 0.9, 1.2, of="float32")
    how = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 5.0}
    yield single("Resize", x(*IMAGE), region, None, sizes, mode="linear", **how)
    yield single("Resize", x(1, 2, 9), None, fixed(1, 1, 1.5, of="float32"), mode="linear")


def samples() -> Iterator[Single]:
    for outside in ("zeros", "border", "reflection"):
        for corners in (0, 1):
            how = {"padding_mode": outside, "align_corners": corners}
            yield single("GridSample", x(2, 3, 5, 6), x(2, 4, 3, 2, low=-1.4, high=1.4), **how)


def sequences() -> Iterator[Single]:
    for name, gates, more in (("LSTM", 4, 3), ("GRU", 3, 2), ("RNN", 1, 2)):
        for direction, count in (("forward", 1), ("bidirectional", 2)):
            weights = w(count, gates * 4, 3), w(count, gates * 4, 4), w(count, 2 * gates * 4)
            yield single(name, x(5, 2, 3), *weights, outputs=more, direction=direction, hidden_size=4)
        lengths, begin = fixed(3, 5, of="int32"), w(1, 2, 4)
        weights = w(1, gates * 4, 3), w(1, gates * 4, 4), w(1, 2 * gates * 4)
        yield single(
            name, x(5, 2, 3), *weights, lengths, begin, outputs=more, direction="reverse", hidden_size=4
        )
    yield single(
        "GRU", x(5, 2, 3), w(1, 12, 3), w(1, 12, 4), w(1, 24), outputs=2, linear_before_reset=1, hidden_size=4
    )
    heads = [x(2, 4, 5, 8), x(2, 2, 6, 8), x(2, 2, 6, 8, low=-2)]
    yield single("Attention", *heads, opset=23)
    yield single("Attention", *heads, x(5, 6), opset=23, softcap=2.0)
    yield single(
        "Attention", x(2, 5, 8), x(2, 6, 4), x(2, 6, 4), opset=23, q_num_heads=4, kv_num_heads=2, is_causal=1
    )
    caches = w(9, 4), w(9, 4), np.array([[0, 3, 4, 1, 2]])
    yield single("RotaryEmbedding", x(1, 2, 5, 8), *caches, opset=23)
    yield single("RotaryEmbedding", x(1, 2, 5, 8), *caches, opset=23, interleaved=1)


SINGLES: tuple[Single, ...] = (
    *functions(),
    *elements(),
    *windows(),
    *regions(),
    *chosen_by_constants(),
    *fused(),
    *fused_attention(),
    *grouped_attention(),
    *cache_updates(),
    *matrices(),
    *reductions(),
    *moves(),
    *gathers(),
    *normalizations(),
    *resizes(),
    *samples(),
    *sequences(),
)
