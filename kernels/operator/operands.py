"""Access to the operands of a call, and workloads that many operators share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from npusim.isa.base.elements import Workload, element
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.operator.operator import Call, Reference, Shapes, Values


def input_type(call: Call, position: int = 0) -> TensorType:
    """Return the type of an input that the operator's rules require to be there."""
    kind = call.inputs[position]
    if kind is None:
        raise ValueError(f"input {position} is absent; the operator's rules should have refused the call")
    return kind


def input_value(values: Values, position: int = 0) -> Array:
    """Return the value of an input that the operator's rules require to be there."""
    value = values[position]
    if value is None:
        raise ValueError(f"input {position} has no value; the operator's rules should have refused the call")
    return value


def optional_type(call: Call, position: int) -> TensorType | None:
    """Return the type of an input that may be absent."""
    return call.inputs[position] if position < len(call.inputs) else None


def optional_value(values: Values, position: int) -> Array | None:
    """Return the value of an input that may be absent."""
    return values[position] if position < len(values) else None


def known(call: Call) -> list[Array | None]:
    """Return the data of constant operands by position, None for others."""
    data = [call.constants.get(position) for position in range(len(call.inputs))]
    return [array if isinstance(array, np.ndarray) else None for array in data]


def by_type(references: Mapping[str, Reference]) -> Reference:
    """Return a reference that selects one of `references` by the element type of the first input."""

    def reference(call: Call, values: Values) -> list[Array]:
        return references[input_type(call).dtype](call, values)

    return reference


def with_halves(references: Mapping[str, Reference]) -> dict[str, Reference]:
    """Return references with one for float16: that of float32 on widened operands, rounded to float16."""
    reference = references["float32"]

    def of_halves(call: Call, values: Values) -> list[Array]:
        wide = replace(
            call,
            inputs=tuple([None if tensor is None else _widened(tensor) for tensor in call.inputs]),
            outputs=tuple([_widened(tensor) for tensor in call.outputs]),
            constants={position: _wide(data) for position, data in call.constants.items()},
        )
        results = reference(wide, [None if value is None else _wide(value) for value in values])
        with np.errstate(over="ignore"):  # Values beyond float16 become infinite
            return [
                result.astype(tensor.numpy_dtype)
                for result, tensor in zip(results, call.outputs, strict=True)
            ]

    return {**references, "float16": of_halves}


def _widened(tensor: TensorType) -> TensorType:
    return replace(tensor, dtype="float32") if tensor.dtype == "float16" else tensor


def _wide(data: Any) -> Any:
    return data.astype(np.float32) if isinstance(data, np.ndarray) and data.dtype == np.float16 else data


def like_input(call: Call) -> Shapes:
    """Return the input's shape as that of the output."""
    return (input_type(call).shape,)


def broadcast(call: Call) -> Shapes:
    """Return the shape to which the two inputs broadcast. Raises ValueError if they do not."""
    return (np.broadcast_shapes(input_type(call).shape, input_type(call, 1).shape),)


def quantization(tensor: TensorType) -> Quantization:
    """Return the quantization of a tensor that the operator's rules require to be quantized."""
    if tensor.quantization is None:
        raise ValueError(f"{tensor.dtype} operand without scale; the operator's rules should have refused it")
    return tensor.quantization


def code_of_zero(tensor: TensorType) -> int:
    """Return the value of a tensor's elements that stands for 0: the zero point if they are quantized."""
    return 0 if tensor.quantization is None else tensor.quantization.zero_point


def weight_zero(call: Call) -> int:
    """Return the zero point of the quantized values of the second operand: one for all channels."""
    return quantization(input_type(call, 1)).zero_points[0]


def code_range(dtype: str) -> tuple[int, int]:
    """Return the smallest and largest quantized value of an element type."""
    return element(dtype).limits


def elementwise(call: Call, elements: int | None = None) -> Workload:
    """Return the work of an operator that computes `elements` values (default: as many as the outputs have)."""
    given = {position: tensor for position, tensor in enumerate(call.inputs) if tensor is not None}
    weights = sum(tensor.size_bytes for position, tensor in given.items() if position in call.constants)
    results = sum(output.elements for output in call.outputs)
    return Workload(
        kind="elementwise",
        dtype=input_type(call).element.rates,
        elements=results if elements is None else elements,
        rescaled=sum(output.elements for output in call.outputs if _is_rescaled(output, given.values())),
        weight_bytes=weights,
        input_bytes=sum(tensor.size_bytes for tensor in given.values()) - weights,
        output_bytes=sum(output.size_bytes for output in call.outputs),
    )


def _is_rescaled(output: TensorType, operands: Iterable[TensorType]) -> bool:
    """Return True if values have another scale than an operand; another zero point alone does not count."""
    if output.quantization is None:
        return False
    scales = [operand.quantization.scales for operand in operands if operand.quantization is not None]
    return any(own_scales != output.quantization.scales for own_scales in scales)


def move(call: Call) -> Workload:
    """Return the work of an operator that copies its input to its outputs."""
    return replace(elementwise(call, 0), kind="move", rescaled=0)


def free(call: Call) -> Workload:
    """Return the work of an operator that only changes a shape: none."""
    return replace(elementwise(call, 0), kind="free", rescaled=0, input_bytes=0, output_bytes=0)
