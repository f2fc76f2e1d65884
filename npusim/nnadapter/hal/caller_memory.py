"""Inputs and outputs in memory of the caller, reached through the caller's access functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from npusim.frontends.nnadapter import operand_type
from npusim.frontends.nnadapter.nnadapter_codes import (
    InvalidDimensions,
    InvalidParameter,
    NNAdapterError,
    text_of,
)
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.isa.base.tensor import Array

Access = Callable[..., Any]
"""(memory, type) -> buffer. A third parameter, `device_buffer` in C, gets None."""


def of_array(memory: Any, type: OperandType) -> Any:
    """Return the buffer of memory that is an array: the access function of plain arrays."""
    type.dimensions = list(memory.shape)
    return memory


def array_of(value: Any, type: OperandType, where: str) -> Array:
    """Return an input or output that the caller gave as an array of its elements, an array unchanged.

    Raises InvalidParameter for elements of another type, and for Python numbers that do not fit the type.
    """
    if isinstance(value, np.ndarray):
        _require_elements(value, type, where)
        return value
    try:
        array = np.asarray(value)
        with np.errstate(all="ignore"):
            result = array.astype(type.dtype)
    except (ValueError, TypeError, OverflowError):
        raise InvalidParameter(f"{where}: is {text_of(value)}, must be an array") from None
    whole, real = "iu", "iuf"
    fitting = {"f": real, "i": whole, "u": whole}.get(type.dtype.kind, type.dtype.kind)
    if array.dtype.kind not in fitting:
        raise InvalidParameter(f"{where}: has elements of {array.dtype}, must be {type.dtype}")
    if type.dtype.kind in whole and (result != array).any():
        raise InvalidParameter(f"{where}: has values that {type.dtype} does not")
    return result


class Slot:
    """Memory of an output that npusim allocates; `array` is the value last written."""

    array: Array

    def access(self, memory: object, type: OperandType) -> Array:
        """Allocate an array, a new one for each run."""
        self.array = np.empty(type.shape, type.dtype)
        return self.array


def read(memory: object, access: Access, type: OperandType, where: str) -> Array:
    """Return the elements of an input, in the shape that its access function writes.

    Raises InvalidParameter if the access function fails or returns no buffer, InvalidDimensions if the buffer is
    shorter than the shape.
    """
    requested = type.copy()
    requested.dimensions = list(type.dimensions)
    buffer = _accessed(access, memory, requested, where)
    shape = operand_type.sizes(requested.dimensions, f"{where}: dimensions that access wrote")
    if isinstance(buffer, np.ndarray):
        _require_elements(buffer, type, where)
    raw = _bytes(buffer, where)
    size = int(np.prod(shape, dtype=np.int64)) * type.dtype.itemsize
    if raw.size < size or (isinstance(buffer, np.ndarray) and raw.size != size):
        raise InvalidDimensions(f"{where}: the buffer has {raw.size} bytes, {list(shape)} has {size}")
    raw = raw[:size]
    data: Array = (raw != 0) if type.dtype == np.bool_ else raw.view(type.dtype)
    return data.reshape(shape)


def write(memory: object, access: Access, type: OperandType, array: Array, where: str) -> None:
    """Write an output to the buffer that its access function returns. Raises as `read`."""
    kind = type.copy()
    kind.dimensions = list(array.shape)
    data = np.ascontiguousarray(array, type.dtype)
    buffer = _accessed(access, memory, kind, where)
    if isinstance(buffer, np.ndarray):
        _require_elements(buffer, type, where)
        if not buffer.flags.writeable:
            raise InvalidParameter(f"{where}: the array cannot be written")
        if buffer.ndim == 1 and buffer.size >= data.size:  # a flat buffer, as C callers pass
            buffer[: data.size] = data.reshape(-1)
            return
        if buffer.shape != data.shape:
            raise InvalidDimensions(f"{where}: the array is {list(buffer.shape)}, must be {list(data.shape)}")
        buffer[...] = data
        return
    raw = _bytes(buffer, where)
    if not raw.flags.writeable:
        raise InvalidParameter(f"{where}: the buffer cannot be written")
    if raw.size < data.nbytes:
        raise InvalidDimensions(
            f"{where}: the buffer has {raw.size} bytes, {list(data.shape)} has {data.nbytes}"
        )
    raw[: data.nbytes] = data.reshape(-1).view(np.uint8)


def _accessed(access: Access, memory: object, type: OperandType, where: str) -> Any:
    more = (None,) if _parameters(access) == 3 else ()
    try:
        buffer = access(memory, type, *more)
    except NNAdapterError:
        raise
    except Exception as fault:
        raise InvalidParameter(f"{where}: access raises {fault.__class__.__name__}: {fault}") from fault
    if buffer is None:
        raise InvalidParameter(f"{where}: access gives no buffer")
    return buffer


def _parameters(access: Access) -> int:
    """Return the number of positional arguments that a function requires."""
    try:
        parameters = inspect.signature(access).parameters.values()
    except (TypeError, ValueError):
        return 2
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in plain and one.default is inspect.Parameter.empty for one in parameters)


def _require_elements(buffer: Array, type: OperandType, where: str) -> None:
    if buffer.dtype.newbyteorder("=") != type.dtype or not buffer.dtype.isnative:
        hint = ""
        if type.row.scaled and buffer.dtype.kind == "f":
            hint = ", codes: round(real / scale)"
        raise InvalidParameter(f"{where}: has elements of {buffer.dtype}, must be {type.dtype}{hint}")


def _bytes(buffer: Any, where: str) -> Array:
    if isinstance(buffer, np.ndarray):
        return np.ascontiguousarray(buffer).reshape(-1).view(np.uint8)
    try:
        return np.frombuffer(memoryview(buffer).cast("B"), np.uint8)
    except (TypeError, ValueError, BufferError):
        raise InvalidParameter(
            f"{where}: access gives {buffer.__class__.__name__}, must be an array or a buffer of bytes"
        ) from None
