"""Every type that the text of an operation allows is computed: the calls of `calls`, written anew with other types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from npusim.frontends.nn_hal.enumerations import OperandType, OperationType, row_of
from npusim.frontends.nn_hal.operations import signatures as signature
from npusim.frontends.nn_hal.operations.operation_table import row
from npusim.frontends.nn_hal.operations.signatures import Binding
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.graph.reference import evaluate
from tests.npusim.frontends.nn_hal.calls import CALLS, Value
from tests.npusim.frontends.nn_hal.single import LATEST, Spec, graph, scalar

_SIGNED, _UNSIGNED = OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT8_ASYMM


def calls() -> Iterator[tuple[str, tuple[OperandType, ...], list[Spec], list[Spec]]]:
    """Each call in each assignment of types: its name, the types, inputs and outputs."""
    for name, (values, outputs) in CALLS.items():
        inputs = [value if isinstance(value, Spec) else scalar(value) for value in values]
        entry = row(OperationType[name.split()[0]])
        assert entry is not None
        found = signature.bind(
            entry.forms, entry.types, LATEST, [one.type for one in inputs], [one.type for one in outputs]
        )
        assert isinstance(found, Binding), (name, found)
        for _, types in signature.assignments(entry.types):
            yield name, tuple(types.values()), *_retyped(found, types, inputs, outputs)


def _retyped(
    binding: Binding, types: signature.Types, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> tuple[list[Spec], list[Spec]]:
    given = [_as(one, _type(slot, types, one)) for slot, one in zip(binding.inputs, inputs, strict=True)]
    made = [_as(one, _type(slot, types, one)) for slot, one in zip(binding.outputs, outputs, strict=True)]
    names = [slot.name for slot in binding.inputs]
    if "bias" in names and given[names.index("bias")].type is OperandType.TENSOR_INT32:
        at = names.index("bias")
        product = np.float32(given[0].scale) * np.float32(given[1].scale)
        given[at] = replace(given[at], scale=0.0 if given[1].channels else float(product))
    if "activation" in names and given[0].type is OperandType.TENSOR_INT32:
        given[names.index("activation")] = scalar(0)
    return given, made


def _type(slot: signature.Slot, types: signature.Types, one: Spec) -> OperandType:
    if slot.kind == "s":
        half = types["T"] is OperandType.TENSOR_FLOAT16
        return OperandType.FLOAT16 if half else OperandType.FLOAT32
    return types.get(slot.kind, one.type)


def _as(one: Spec, type_: OperandType) -> Spec:
    """An operand of another type, with a scale where that has one."""
    if one.type is type_:
        return one
    scaling = row_of(type_).scaling
    if scaling == "per channel":
        axis = 3 if one.dimensions[0] == 1 else 0
        scales = tuple(0.5 for _ in range(one.dimensions[axis]))
        return replace(one, type=type_, scale=0.0, zero_point=0, channels=(scales, axis))
    scale = one.scale or 0.5 if scaling == "one" else 0.0
    shift = {(_UNSIGNED, _SIGNED): -128, (_SIGNED, _UNSIGNED): 128}.get((one.type, type_), 0)
    zero = one.zero_point + shift if scaling == "one" and type_ in (_SIGNED, _UNSIGNED) else 0
    return replace(one, type=type_, scale=scale, zero_point=zero, channels=None)


@pytest.mark.cases(120)
@pytest.mark.parametrize(
    ("name", "types", "inputs", "outputs"),
    [pytest.param(*call, id=f"{call[0]} {'-'.join(type_.name for type_ in call[1])}") for call in calls()],
)
def test_every_type_is_computed(
    name: str, types: tuple[OperandType, ...], inputs: list[Value], outputs: list[Spec]
) -> None:
    made = graph(name.split()[0], inputs, outputs)
    random = np.random.default_rng(7)
    values = evaluate(made, [_values(made.tensors[number].type, random) for number in made.inputs])
    for number, output in zip(made.outputs, outputs, strict=True):
        assert values[number].dtype == np.dtype(row_of(output.type).element)
        assert values[number].shape == output.dimensions


def _values(type_: TensorType, random: np.random.Generator) -> Array:
    """Small numbers, which are indices and codes as well."""
    return random.integers(0, 2, type_.shape).astype(type_.numpy_dtype)
