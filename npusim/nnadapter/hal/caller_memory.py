"""Memory of the caller, which only the caller's own access function knows."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from npusim.frontends.nnadapter import operand_type
from npusim.frontends.nnadapter.nnadapter_errors import (
    InvalidDimensions,
    InvalidParameter,
    NNAdapterError,
    said,
)
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.isa.base.tensor import Array

Access = Callable[..., Any]
"""(memory, type) -> buffer; one with three parameters gets None as the third, where C has `device_buffer`."""


def of_array(memory: Any, type: OperandType) -> Any:
    """The access function of memory that is an array."""
    type.dimensions = list(memory.shape)
    return memory


def array_of(value: Any, type: OperandType, where: str) -> Array:
    """What was given for an input or output as an array of its elements; an array stays what it is.

    Raises InvalidParameter for elements of another type; numbers of Python become those of the type if they fit.
    """
    if isinstance(value, np.ndarray):
        _require_elements(value, type, where)
        return value
    try:
        array = np.asarray(value)
        with np.errstate(all="ignore"):
            made = array.astype(type.dtype)
    except (ValueError, TypeError, OverflowError):
        raise InvalidParameter(f"{where}: is {said(value)}, must be an array") from None
    whole, real = "iu", "iuf"
    fitting = {"f": real, "i": whole, "u": whole}.get(type.dtype.kind, type.dtype.kind)
    if array.dtype.kind not in fitting:
        raise InvalidParameter(f"{where}: has elements of {array.dtype}, must be {type.dtype}")
    if type.dtype.kind in whole and (made != array).any():
        raise InvalidParameter(f"{where}: has values that {type.dtype} does not")
    return made


class Slot:
    """Memory of an output that the caller leaves to npusim: `array` is what was last written."""

    array: Array

    def access(self, memory: object, type: OperandType) -> Array:
        """A new array for each run."""
        self.array = np.empty(type.shape, type.dtype)
        return self.array


def read(memory: object, access: Access, type: OperandType, where: str) -> Array:
    """The elements of an input, in the shape that the access function says.

    Raises InvalidParameter for an access function that fails or a buffer that is none, InvalidDimensions for one that
    is shorter than its shape.
    """
    said = type.copy()
    said.dimensions = list(type.dimensions)
    buffer = _accessed(access, memory, said, where)
    shape = operand_type.sizes(said.dimensions, f"{where}: dimensions that access wrote")
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
    """Writes an output into the buffer that the access function gives. Raises as `read` does."""
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
    """How many arguments a function must get."""
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
