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


@pytest.mark.parametrize("family", [*FUSED, *LITERAL])
def test_family(family: str) -> None:
    compute = (FUSED | LITERAL)[family]
    wrong = number = 0
    for case in cases(family):
        found = compute(case)
        wrong += int(np.count_nonzero(found != case.result.data))
        number += 1
    assert (number > 0, wrong) == (True, 0), f"{wrong} codes of {number} cases"
