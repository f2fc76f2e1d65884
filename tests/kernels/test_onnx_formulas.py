"""What ONNX Runtime gave for one operator on codes, beside the references with rescale "float32" and "fused"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.operator.operator import Call
from npusim.kernels.table import operator

from .calls import given
from .onnx_cases import FOLDER, Case, Codes, cases

pytest.importorskip("onnx", reason="onnx is not installed")
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="../shared/onnx is not there")


def computed(case: Case, name: str, **values: object) -> Array:
    """What an operator gives for all operands of a case."""
    kinds = [
        each.kind
        if isinstance(each, Codes)
        else each
        if each is None
        else TensorType(each.dtype.name, each.shape)
        for each in case.operands
    ]
    data = [each.data if isinstance(each, Codes) else each for each in case.operands]
    call = Call(given(name, **values), tuple(kinds), (case.result.kind,), {})
    entry = operator(name)
    assert entry.broken_rule(call) is None
    return entry.compute(call, data)[0]


def fused_sum(case: Case) -> Array:
    """The operand that is one number along the innermost axis is the second one."""
    first, second = (each for each in case.operands if isinstance(each, Codes))
    shape = case.result.data.shape
    innermost = max((axis for axis, size in enumerate(shape) if size > 1), default=0) - len(shape)
    ones = [each.data.ndim < -innermost or each.data.shape[innermost] == 1 for each in (first, second)]
    if ones == [True, False]:
        case.operands.reverse()
    return computed(case, "add", rescale="fused")


FUSED: dict[str, Callable[[Case], Array]] = {
    "ms.QLinearAdd": fused_sum,
    "ms.QLinearMul": lambda case: computed(case, "mul", rescale="fused"),
}
LITERAL: dict[str, Callable[[Case], Array]] = {
    f"qdq.{name}": lambda case, op=op: computed(case, op, rescale="float32")  # type: ignore[misc]
    for name, op in {
        "Add": "add",
        "Sub": "sub",
        "Mul": "mul",
        "Div": "div",
        "Max": "maximum",
        "Min": "minimum",
        "PRelu": "prelu",
    }.items()
}


def unary(name: str, **attributes: str) -> Callable[[Case], Array]:
    """A function of one operand whose parameters are attributes of these names."""

    def compute(case: Case) -> Array:
        said = {
            ours: case.attributes[theirs] for ours, theirs in attributes.items() if theirs in case.attributes
        }
        case.operands[1:] = []
        return computed(case, name, rescale="float32", **said)

    return compute


def clip(case: Case) -> Array:
    least, most = (
        None if each is None else float(np.ravel(each)[0]) for each in (*case.operands[1:], None)[:2]
    )
    case.operands[1:] = []
    return computed(case, "clip", rescale="float32", least=least, most=most)


def gelu(case: Case) -> Array:
    approximate = case.attributes.get("approximate", b"none") == b"tanh"
    return computed(case, "gelu", rescale="float32", approximate=approximate)


UNARY: dict[str, Callable[[Case], Array]] = {
    **{
        f"qdq.{name}": unary(op)
        for name, op in {
            "Abs": "abs",
            "Erf": "erf",
            "Exp": "exp",
            "HardSwish": "hard_swish",
            "Log": "log",
            "Mish": "mish",
            "Neg": "neg",
            "Reciprocal": "reciprocal",
            "Relu": "relu",
            "Sigmoid": "logistic",
            "Softplus": "softplus",
            "Sqrt": "sqrt",
            "Tanh": "tanh",
        }.items()
    },
    "qdq.Elu": unary("elu", alpha="alpha"),
    "qdq.HardSigmoid": unary("hard_sigmoid", alpha="alpha", beta="beta"),
    "qdq.LeakyRelu": unary("leaky_relu", alpha="alpha"),
    "qdq.Swish": unary("swish", beta="alpha"),
    "qdq.requantize": unary("quantize"),
    "qdq.Clip": clip,
    "qdq.Gelu": gelu,
    "ms.QLinearLeakyRelu": unary("leaky_relu", alpha="alpha"),
    "ms.QLinearSigmoid": unary("logistic"),
}


def pool(name: str, rescale: str) -> Callable[[Case], Array]:
    """A pool of images in NCHW."""

    def compute(case: Case) -> Array:
        how, codes = case.attributes, case.operands[0]
        assert isinstance(codes, Codes)
        if codes.data.ndim != 4 or how.get("ceil_mode", 0) or max(how.get("dilations", [1])) > 1:
            return case.result.data
        if how.get("auto_pad", b"NOTSET") != b"NOTSET" or how.get("channels_last", 0):
            return case.result.data
        top, left, bottom, right = how.get("pads", [0] * 4)
        padding = ((top, bottom), (left, right))
        strides = tuple(how.get("strides", (1, 1)))
        more: dict[str, object] = {}
        if name == "average_pool_2d":
            more["counted"] = padding if how.get("count_include_pad", 0) else ((0, 0), (0, 0))
            more["by_columns"] = rescale == "float32" and case.opset < 19 and strides[1] <= 2
        case.operands[:] = [replace(codes, data=codes.data.transpose(0, 2, 3, 1))]
        result = replace(case.result, data=case.result.data.transpose(0, 2, 3, 1))
        found = computed(
            replace(case, result=result), name, rescale=rescale, filter=tuple(how["kernel_shape"]),
            strides=strides, padding=padding, **more,
        )  # fmt: skip
        return found.transpose(0, 3, 1, 2)

    return compute


def reduction(name: str, rescale: str) -> Callable[[Case], Array]:
    """Over the axes that an attribute or the second operand says, or over space."""

    def compute(case: Case) -> Array:
        codes, *others = case.operands
        assert isinstance(codes, Codes)
        rank = codes.data.ndim
        if "GlobalAveragePool" in case.op:
            last = case.attributes.get("channels_last", 0)
            axes, keep = list(range(1, rank - 1) if last else range(2, rank)), True
        else:
            axes = case.attributes.get("axes") or ([] if not others else np.ravel(others[0]).tolist())
            keep = bool(case.attributes.get("keepdims", 1))
        case.operands[1:] = []
        axes = sorted(axis % rank for axis in axes) or list(range(rank))
        return computed(case, name, rescale=rescale, axes=axes, keep_dims=keep)

    return compute


def softmax(rescale: str) -> Callable[[Case], Array]:
    """Before version 13 all axes from one on are one."""

    def compute(case: Case) -> Array:
        codes = case.operands[0]
        assert isinstance(codes, Codes)
        shape = codes.data.shape
        opset = case.attributes.get("opset", case.opset)
        axis = case.attributes.get("axis", -1 if opset >= 13 else 1) % len(shape)
        if opset < 13:
            flat = (int(np.prod(shape[:axis])), int(np.prod(shape[axis:])))
            result = replace(case.result, data=case.result.data.reshape(flat))
            case = replace(case, operands=[replace(codes, data=codes.data.reshape(flat))], result=result)
            axis = 1
        return computed(case, "softmax", rescale=rescale, axis=axis).reshape(shape)

    return compute


SUMS: dict[str, Callable[[Case], Array]] = {
    "qdq.AveragePool": pool("average_pool_2d", "float32"),
    "ms.QLinearAveragePool": pool("average_pool_2d", "fused"),
    "qdq.MaxPool": pool("max_pool_2d", "float32"),
    "qdq.GlobalAveragePool": reduction("mean", "float32"),
    "ms.QLinearGlobalAveragePool": reduction("mean", "fused"),
    "qdq.ReduceMean": reduction("mean", "float32"),
    "qdq.ReduceSum": reduction("sum", "float32"),
    "qdq.Softmax": softmax("float32"),
    "ms.QLinearSoftmax": softmax("fused"),
    "qdq.ReduceMax": reduction("reduce_max", "float32"),
}

KNOWN = {"qdq.Swish": 1, "ms.QLinearSigmoid": 1}
"""Wrong codes: the exponential of ONNX Runtime is not float64's rounded once."""


@pytest.mark.parametrize("family", [*FUSED, *LITERAL, *UNARY, *SUMS])
def test_family(family: str) -> None:
    compute = (FUSED | LITERAL | UNARY | SUMS)[family]
    wrong = number = 0
    for case in cases(family):
        found = compute(case)
        wrong += int(np.count_nonzero(found != case.result.data))
        number += 1
    assert (number > 0, wrong) == (True, KNOWN.get(family, 0)), f"{wrong} codes of {number} cases"
