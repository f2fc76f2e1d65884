"""Checks that the tensors and operators that LiteRT passes to a delegate are those of the model file.

Every address is checked before it is read. If names, types, shapes and operators are those of the file, LiteRT's
structures have the expected layout, and the operators can be claimed by their numbers.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

from npusim.frontends.tflite.records import ModelRecord, OperatorRecord, TensorRecord
from npusim.kernels.graph.graph import quoted
from npusim.litert.c_structs import (
    CALLED,
    CUSTOM_CODE,
    GET_EXECUTION_PLAN,
    GET_NODE,
    KINDS,
    MAPPED_READ_ONLY,
    OK,
    Context,
    Node,
    ReadRegistration,
    Tensor,
)
from npusim.litert.process_memory import AbiError, Memory, executable

_MOST_DIMENSIONS = 64
_MOST_ALLOCATION_TYPE = 16


def context_of(address: int, memory: Memory) -> Context:
    """Return the context at an address. Raises AbiError if its function pointers do not point to code."""
    context = memory.struct(Context, address, "the context")
    for name in CALLED:
        function = getattr(context, name)
        if not function or not executable(function):
            raise AbiError(f"{name} of the context is at address {function or 0:#x}, where no code is")
    return context


def misfit(context: Context, record: ModelRecord, memory: Memory, *, values: bool = False) -> str:
    """Return why the tensors of a context are not those of a subgraph; empty if they are.

    values: whether to compare the constants as well.
    """
    count = len(record.tensors)
    if not count <= context.tensors_size <= count + (1 << 20):
        return f"the context has {context.tensors_size} tensors, the file {count}"
    size = ctypes.sizeof(Tensor)
    data = memory.read(context.tensors, count * size, "the list of tensors") if count else b""
    for number, expected in enumerate(record.tensors):
        tensor = Tensor.from_buffer_copy(data, number * size)
        fault = _tensor_misfit(tensor, expected, memory)
        if values and not fault:
            fault = _values_misfit(tensor, expected, record, memory)
        if fault:
            return f"tensor {number}: {fault}"
    return ""


def _tensor_misfit(tensor: Tensor, expected: TensorRecord, memory: Memory) -> str:
    if expected.kind in KINDS and tensor.type != KINDS[expected.kind]:
        return f"has type {tensor.type}, the file says {expected.kind}, {KINDS[expected.kind]}"
    if bool(tensor.is_variable) != bool(expected.variable):
        return "is a variable on one side only"
    if not 0 <= tensor.allocation_type <= _MOST_ALLOCATION_TYPE:
        return f"has allocation type {tensor.allocation_type}"
    sizes = memory.integers(tensor.dims, "its shape") if tensor.dims else ()
    if len(sizes) > _MOST_DIMENSIONS or min(sizes, default=0) < -1:
        return f"has shape {list(sizes)}"
    name = expected.name.encode()
    if tensor.name and name.isascii() and memory.text(tensor.name, name, "its name") != name:
        return f"is not called {expected.name}"
    if (
        expected.scales.size == 1
        and expected.scales[0]
        and tensor.params.scale not in (0.0, expected.scales[0])
    ):
        return f"has scale {tensor.params.scale}, the file says {expected.scales[0]}"
    return ""


def _values_misfit(tensor: Tensor, expected: TensorRecord, record: ModelRecord, memory: Memory) -> str:
    data = record.buffers[expected.buffer] if expected.buffer < len(record.buffers) else None
    if (
        data is None
        or tensor.allocation_type != MAPPED_READ_ONLY
        or not data.size
        or tensor.bytes != data.size
    ):
        return ""
    same = memory.read(tensor.data, data.size, "its values") == data.tobytes()
    return "" if same else f"{quoted(expected.name)} has other values"


def plan_of(address: int, context: Context, record: ModelRecord, memory: Memory) -> tuple[int, ...]:
    """Return the numbers of the operators that LiteRT is going to run, without those of other delegates.

    Raises AbiError if they are not those of the file.
    """
    plan = ctypes.c_void_p()
    if GET_EXECUTION_PLAN(context.GetExecutionPlan)(address, ctypes.addressof(plan)) != OK:
        raise AbiError("LiteRT does not tell its execution plan")
    numbers = memory.integers(plan.value, "the execution plan")
    inside = tuple(number for number in numbers if 0 <= number < len(record.operators))
    for number in inside:
        _check_operator(address, context, number, record.operators[number], memory)
    return inside


def _check_operator(
    address: int, context: Context, number: int, expected: OperatorRecord, memory: Memory
) -> None:
    node, registration = ctypes.c_void_p(), ctypes.c_void_p()
    call = GET_NODE(context.GetNodeAndRegistration)
    where = f"operator {number}"
    if call(address, number, ctypes.addressof(node), ctypes.addressof(registration)) != OK:
        raise AbiError(f"LiteRT does not tell {where}")
    seen = memory.struct(Node, node.value, where)
    kernel = memory.struct(ReadRegistration, registration.value, f"the kernel of {where}")
    code = _codes().get(expected.kind, CUSTOM_CODE if expected.kind.startswith("CUSTOM") else None)
    if code is not None and kernel.builtin_code != code:
        raise AbiError(f"{where} has code {kernel.builtin_code}, the file says {expected.kind}, {code}")
    inputs: Sequence[int] = [-1 if operand is None else operand for operand in expected.inputs]
    for what, indices, given in (
        ("inputs", seen.inputs, inputs),
        ("outputs", seen.outputs, expected.outputs),
    ):
        actual = memory.integers(indices, f"the {what} of {where}")
        if actual != tuple(given):
            raise AbiError(f"{where} has {what} {list(actual)}, the file says {list(given)}")


@cache
def _codes() -> dict[str, int]:
    """Return the codes of operators by name."""
    import tflite

    names: dict[str, Any] = vars(tflite.BuiltinOperator)
    return {name: code for name, code in names.items() if name[0].isupper()}


def array(numbers: Sequence[int]) -> bytes:
    """Return the bytes of a TfLiteIntArray."""
    return struct.pack(f"{len(numbers) + 1}i", len(numbers), *numbers)
