"""Values of constants: arrays from what callers give."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.frontends.nnadapter import operand_type as types
from npusim.frontends.nnadapter.codes import Precision
from npusim.frontends.nnadapter.errors import InvalidParameter, said
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.isa.base.tensor import Array


def frozen(array: Array) -> Array:
    array.setflags(write=False)
    return array


def raw_bytes(buffer: object, where: str) -> Array:
    """The bytes of a buffer, without a copy where there need be none."""
    if isinstance(buffer, np.ndarray):
        if buffer.dtype.kind not in "biuf" or not buffer.dtype.isnative:
            raise InvalidParameter(f"{where}: has {buffer.dtype} elements, must be numbers or truths")
        return np.ascontiguousarray(buffer)
    try:
        return np.frombuffer(memoryview(buffer), np.uint8)  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        raise InvalidParameter(f"{where}: is {type(buffer).__name__}, must be an array or bytes") from None


def array_of(value: Any, where: str) -> Array:
    """A value as an array, in the types that NNAdapter has: Python's whole numbers as INT32, its reals as FLOAT32."""
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    if not isinstance(value, np.ndarray | np.generic):
        if array.dtype.kind == "f":
            array = array.astype(np.float32)
        elif array.dtype.kind == "i":
            array = array.astype(np.int32 if array.size == 0 or np.abs(array).max() < 1 << 31 else np.int64)
    if array.dtype.kind not in "biuf":
        raise InvalidParameter(f"{where}: is {said(value)}, must be numbers or truths")
    return array


def precision_of(array: Array) -> Precision:
    for row in types.PRECISIONS:
        if row.dtype == array.dtype.name and not row.scaled:
            return row.precision
    raise InvalidParameter(f"{array.dtype}: is no precision; give the operand's type")


def converted(array: Array, kind: OperandType, where: str) -> Array:
    """Numbers as elements of a type: real ones rounded, others as they are. Raises InvalidParameter for others."""
    if kind.dtype.kind == "f" and array.dtype.kind != "b":
        with np.errstate(over="ignore"):
            return array.astype(kind.dtype)
    with np.errstate(all="ignore"):
        made: Array = array.astype(kind.dtype)
    if not np.array_equal(made, array):
        raise InvalidParameter(f"{where}: is {said(array.tolist())}, must be {kind.precision.name}")
    return made
