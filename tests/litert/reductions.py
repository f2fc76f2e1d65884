"""Random models of operators along axes: reductions, positions, running sums, normalizations."""

from __future__ import annotations

from npusim.isa.base.tensor import Quantization, TensorType
from npusim.models.writer import per_tensor

from .elementwise import Draw, fixed
from .sample import ACTIVATION_CODES, PADDINGS, Sample


def _axes(sample: Sample, shape: tuple[int, ...]) -> tuple[list[int], int]:
    """Some axes, and the operand that says them, partly from the back, some of them twice."""
    count = sample.pick(1, len(shape))
    axes = sorted(sample.rng.choice(len(shape), count, replace=False).tolist())
    written = [axis - len(shape) if sample.chance(3) else axis for axis in axes]
    if sample.chance(5):
        written.append(written[0])
    return axes, sample.operand(*written)


def _reduce(sample: Sample, ifm: int, quantization: Quantization | None) -> list[int]:
    shape = sample.writer.type(ifm).shape
    axes, operand = _axes(sample, shape)
    keep = sample.chance(2)
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes)
    output = TensorType(sample.dtype, kept, quantization)
    fields = {"KeepDims": keep}
    return [
        sample.writer.operator(sample.code, (ifm, operand), output, options="ReducerOptions", fields=fields)
    ]


def rescaled_reduction(most: int) -> Draw:
    """MEAN, SUM: any scale to any other."""

    def draw(sample: Sample) -> list[int]:
        ifm = sample.input(sample.shape(sample.pick(1, 4), most))
        return _reduce(sample, ifm, sample.quantization(sample.near(sample.scale_of(ifm))))

    return draw


def product(sample: Sample) -> list[int]:
    """Few elements, so that a product of codes is not always clamped."""
    scale = {"int8": 0.02, "int16": 0.0002}.get(sample.dtype)
    ifm = sample.input(sample.shape(sample.pick(1, 4), 3, 60), scale)
    return _reduce(sample, ifm, sample.quantization(scale or 0.02))


def reduction(sample: Sample) -> list[int]:
    """REDUCE_MAX and the like, which keep the scale."""
    ifm = sample.input(sample.shape(sample.pick(1, 4), 8))
    return _reduce(sample, ifm, sample.writer.type(ifm).quantization)


def position(sample: Sample) -> list[int]:
    """ARG_MAX, ARG_MIN."""
    ifm = sample.input(sample.shape(sample.pick(1, 4)))
    shape = sample.writer.type(ifm).shape
    axis = sample.pick(0, len(shape) - 1)
    dtype = sample.one(("int32", "int64"))
    operand = sample.scalar(axis) if sample.chance(2) else sample.operand(axis - len(shape))
    output = TensorType(dtype, shape[:axis] + shape[axis + 1 :])
    fields = {"OutputType": {"int32": 2, "int64": 4}[dtype]}
    options = "ArgMaxOptions" if sample.code == "ARG_MAX" else "ArgMinOptions"
    return [sample.writer.operator(sample.code, (ifm, operand), output, options=options, fields=fields)]


def top(sample: Sample) -> list[int]:
    """TOPK_V2 of few different values, so that there are equals."""
    shape = sample.shape(sample.pick(1, 3), 12)
    ifm = sample.input(shape)
    k = sample.pick(1, shape[-1])
    outputs = [sample.kept(ifm, (*shape[:-1], k)), TensorType("int32", (*shape[:-1], k))]
    operands = (ifm, sample.scalar(k))
    return list(sample.writer.operator_of_many("TOPK_V2", operands, outputs, options="TopKV2Options"))


def running_sum(sample: Sample) -> list[int]:
    ifm = sample.input(sample.shape(sample.pick(1, 4)))
    shape = sample.writer.type(ifm).shape
    axis = sample.pick(-len(shape), len(shape) - 1)
    fields = {"Exclusive": sample.chance(2), "Reverse": sample.chance(2)}
    operands = (ifm, sample.scalar(axis))
    output = sample.kept(ifm, shape)
    return [sample.writer.operator("CUMSUM", operands, output, options="CumsumOptions", fields=fields)]


def log_softmax(sample: Sample) -> list[int]:
    ifm = sample.input((*sample.shape(sample.pick(0, 3), 5), sample.pick(1, 40)))
    shape = sample.writer.type(ifm).shape
    quantization = (
        None if sample.dtype == "float32" else per_tensor(1 / 16, 127 if sample.dtype == "int8" else 255)
    )
    output = TensorType(sample.dtype, shape, quantization)
    return [sample.writer.operator("LOG_SOFTMAX", (ifm,), output, options="LogSoftmaxOptions")]


def l2_normalization(sample: Sample) -> list[int]:
    ifm = sample.input((*sample.shape(sample.pick(0, 3), 5), sample.pick(1, 40)))
    output = TensorType(sample.dtype, sample.writer.type(ifm).shape, fixed(sample, 1 / 128, True))
    return [sample.writer.operator("L2_NORMALIZATION", (ifm,), output, options="L2NormOptions")]


def local_response(sample: Sample) -> list[int]:
    ifm = sample.input(sample.image())
    fields = {
        "Radius": sample.pick(0, 5),
        "Bias": float(sample.one((1.0, 2.0, 0.5))),
        "Alpha": float(sample.one((1.0, 0.25, 0.0))),
        "Beta": float(sample.one((0.5, 0.75, 1.0))),
    }
    output = sample.kept(ifm, sample.writer.type(ifm).shape)
    options = "LocalResponseNormalizationOptions"
    return [sample.writer.operator(sample.code, (ifm,), output, options=options, fields=fields)]


def l2_pool(sample: Sample) -> list[int]:
    shape = sample.image()
    ifm, padding = sample.input(shape), sample.one(PADDINGS)
    window = [sample.pick(1, 5), sample.pick(1, 5)]
    if padding == "valid":
        window = [min(k, s) for k, s in zip(window, shape[1:3], strict=True)]
    strides = [sample.pick(1, 4), sample.pick(1, 4)]
    extents = zip(shape[1:3], window, strides, strict=True)
    size = [-(-n // s) if padding == "same" else (n - k) // s + 1 for n, k, s in extents]
    fields = {
        "Padding": PADDINGS.index(padding),
        "StrideH": strides[0],
        "StrideW": strides[1],
        "FilterHeight": window[0],
        "FilterWidth": window[1],
        "FusedActivationFunction": ACTIVATION_CODES[sample.activation()],
    }
    output = sample.kept(ifm, (shape[0], *size, shape[3]))
    return [sample.writer.operator("L2_POOL_2D", (ifm,), output, options="Pool2DOptions", fields=fields)]
