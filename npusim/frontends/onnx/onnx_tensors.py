"""Tensors of ONNX files as arrays, including those whose bytes are in files beside the model."""

from __future__ import annotations

from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from npusim.frontends.forms.conversion import MOST_MADE
from npusim.frontends.forms.qdq import NARROW, type_name
from npusim.isa.base import user_file
from npusim.isa.base.elements import is_element
from npusim.isa.base.errors import FormatError
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import quoted


def array_of(tensor: Any, folder: Path) -> Array:
    """Return the array of a TensorProto; elements narrower than a byte are stored one per byte.

    Raises FormatError for damaged tensors, for element types that npusim lacks, and for missing bytes.
    """
    import onnx

    where = f"constant {quoted(tensor.name)}"
    dtype = _held(tensor.data_type, where)
    if min(tensor.dims, default=0) < 0:
        raise FormatError(f"{where}: has shape {list(tensor.dims)}, with a size below 0")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        data = _outside(tensor, folder, where)
        if type_name(tensor.data_type) not in NARROW:
            return np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).reshape(tuple(tensor.dims))
        tensor = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=bytes(data))
    try:
        array = onnx.numpy_helper.to_array(tensor)
    except Exception as fault:  # the package raises many kinds of errors
        raise FormatError(f"{where}: {line(fault)}") from None
    return np.ascontiguousarray(array.astype(dtype, copy=False)).reshape(array.shape)


def dense(tensor: Any, folder: Path) -> Array:
    """Return the array of a SparseTensorProto, with zeros where it has no value."""
    where = f"sparse constant {quoted(tensor.values.name)}"
    shape = tuple(tensor.dims)
    if min(shape, default=0) < 0 or prod(shape) > MOST_MADE:
        raise FormatError(f"{where}: has shape {list(shape)}; npusim makes {MOST_MADE:,} elements at most")
    values: Any = array_of(tensor.values, folder).reshape(-1)
    places: Any = array_of(tensor.indices, folder)
    if places.ndim == 2 and places.shape[1] == len(shape):
        limits = np.array(shape)
        inside = bool(np.all((places >= 0) & (places < limits)))
        places = np.ravel_multi_index(tuple(places.T), shape) if inside and len(places) else np.arange(0)
    else:
        inside = places.ndim == 1 and bool(np.all((places >= 0) & (places < prod(shape))))
    if not inside or len(places) != len(values):
        raise FormatError(f"{where}: its indices do not fit {len(values)} values of shape {list(shape)}")
    flat = np.zeros(prod(shape), values.dtype)
    flat[places] = values
    return flat.reshape(shape)


def line(fault: Exception) -> str:
    """Return the text of another package's exception on one line."""
    return " ".join(str(fault).split())[:200] or type(fault).__name__


def _held(code: int, where: str) -> str:
    """Return the element type that stores elements of a type."""
    name = type_name(code)
    held = NARROW.get(name, (name, 0))[0]
    if not is_element(held):
        raise FormatError(f"{where}: has elements of type {name}, which npusim lacks")
    return held


def _outside(tensor: Any, folder: Path, where: str) -> memoryview:
    """Return the bytes of a tensor that are in a file of their own; those of a large tensor are mapped."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    place = entries.get("location", "")
    path = _inside(folder, place, where)
    try:
        offset, length = int(entries.get("offset") or 0), int(entries.get("length") or -1)
    except ValueError:
        raise FormatError(f"{where}: offset or length of its bytes is no number") from None
    name = type_name(tensor.data_type)
    bits = NARROW[name][1] if name in NARROW else 8 * np.dtype(name).itemsize
    needed = -(-prod(tensor.dims) * bits // 8)
    if length not in (-1, needed):
        raise FormatError(f"{where}: {length} bytes of {quoted(place)} are given, its shape takes {needed}")
    shown = f"{where}: file {quoted(place)}"
    data = user_file.part(path, user_file.MODEL, offset, needed, FormatError, shown)
    if data is None:
        size = path.stat().st_size
        raise FormatError(
            f"{where}: bytes {offset} to {offset + needed} are not in {quoted(place)}, which has {size}: "
            "it is cut off, or belongs to another model"
        )
    return data


def _inside(folder: Path, place: str, where: str) -> Path:
    """Return the path of a file in the folder of a model. Raises FormatError for one outside of it."""
    parts = PurePosixPath(place).parts
    outside = place.startswith("/") or PureWindowsPath(place).drive or "\\" in place or ".." in parts
    if not parts or outside:
        raise FormatError(f"{where}: file {quoted(place)} must be a path within the folder of the model")
    path = folder.joinpath(*parts)
    try:
        leads = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # a circle of links, a NUL
        leads = False
    if not leads:
        raise FormatError(f"{where}: file {quoted(place)} leads out of the folder of the model")
    return path
