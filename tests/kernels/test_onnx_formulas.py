"""What ONNX Runtime gave for one operator on codes, beside the references with rescale "float32" and "fused"."""

from __future__ import annotations

from collections.abc import Callable

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


KNOWN = {"qdq.Swish": 1, "ms.QLinearSigmoid": 1}
"""Wrong codes: the exponential of ONNX Runtime is not float64's rounded once."""


@pytest.mark.parametrize("family", [*FUSED, *LITERAL, *UNARY])
def test_family(family: str) -> None:
    compute = (FUSED | LITERAL | UNARY)[family]
    wrong = number = 0
    for case in cases(family):
        found = compute(case)
        wrong += int(np.count_nonzero(found != case.result.data))
        number += 1
    assert (number > 0, wrong) == (True, KNOWN.get(family, 0)), f"{wrong} codes of {number} cases"
