"""The tensors of a TFLite file: their element types, quantization and constants."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from npusim.frontends.tflite.records import Data, ModelRecord, TensorRecord
from npusim.isa.base.elements import element
from npusim.isa.base.elements import names as element_names
from npusim.isa.base.errors import FormatError
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.graph import UNRANKED, Tensor, quoted

_DTYPES = {name.upper(): name for name in element_names()}
_PACKED = "INT4"
"""Element type of packed weights, which npusim reads as int8."""
_MOST_CODE_BITS = 16
"""Wider integers with a scale are biases and parameters, in which some converters write scale 0."""
_LARGEST_TENSOR_BYTES = 2**31 - 1


def tensors_of(model: ModelRecord) -> list[Tensor]:
    """Return the tensors by number.

    Converters omit shapes of results, as scalars or with sizes of -1, because LiteRT infers all of them. So a result
    that is a scalar in the file may have any shape.
    """
    written = {output for record in model.operators for output in record.outputs}
    tensors = []
    for number, record in enumerate(model.tensors):
        tensor = _tensor(model, number)
        given = number in written or number in model.inputs or record.variable
        if tensor.data is None and number in written and not record.shape:
            tensor = replace(tensor, type=replace(tensor.type, shape=UNRANKED))
        elif 0 in record.shape and not given:  # nothing writes what has no elements: it is constant
            tensor = replace(tensor, data=np.empty(tensor.type.shape, tensor.type.numpy_dtype))
        tensors.append(tensor)
    return tensors


def zeros(tensor: Tensor) -> Tensor:
    """Return a variable that no operator updates as a constant: real zero, its initial value."""
    kind = tensor.type
    zero = 0 if kind.quantization is None else kind.quantization.zero_point
    return replace(tensor, data=np.full(kind.shape, zero, kind.numpy_dtype))


def tensor_name(model: ModelRecord, number: int) -> str:
    """Return the name of a tensor, or one made of its number if the file gives none."""
    given = model.tensors[number].name if 0 <= number < len(model.tensors) else ""
    return given or f"tensor_{number}"


def _tensor(model: ModelRecord, number: int) -> Tensor:
    record = model.tensors[number]
    name = tensor_name(model, number)
    where = f"tensor {number} {quoted(record.name)}"
    packed = record.kind == _PACKED
    if record.kind not in _DTYPES and not packed:
        raise FormatError(f"{where}: element type {record.kind}, may be {', '.join((*_DTYPES, _PACKED))}")
    if record.sparse:
        raise FormatError(f"{where}: is sparse, may be dense; convert the model without sparsity")
    if record.buffer >= max(len(model.buffers), 1):  # a file without constants may have no buffer at all
        raise FormatError(f"{where}: buffer {record.buffer}, the model has {len(model.buffers)}")
    dtype = "int8" if packed else _DTYPES[record.kind]
    type_ = TensorType(dtype, record.shape, _quantization(record, dtype, where))
    check_size(type_, where)
    data = model.buffers[record.buffer] if record.buffer < len(model.buffers) else None
    if packed:
        data = _unpacked(type_, data, where)
    return Tensor(name, type_, None if record.variable else _constant(type_, data, where))


def _unpacked(type_: TensorType, data: Data | None, where: str) -> Data:
    """Return the int8 values of a constant of 4 bits, of which a byte holds two, the first in its lower half."""
    if data is None or not data.size:
        raise FormatError(f"{where}: element type {_PACKED}, which only constants may have")
    if data.size != -(-type_.elements // 2):
        raise FormatError(
            f"{where}: {_PACKED}{list(type_.shape)} takes {-(-type_.elements // 2)} bytes, its buffer has {data.size}"
        )
    values = data.view(np.int8)
    halves = np.stack([np.left_shift(values, 4) >> 4, values >> 4], axis=1)
    return halves.ravel()[: type_.elements].view(np.uint8)


def check_size(type_: TensorType, where: str) -> None:
    """Raise FormatError for a tensor of more bytes than a file may say."""
    spanned = type_.spanned_bytes
    if spanned > _LARGEST_TENSOR_BYTES:
        raise FormatError(f"{where}: {spanned} bytes, may have {_LARGEST_TENSOR_BYTES}")


def _constant(type_: TensorType, data: Data | None, where: str) -> Array | None:
    """Return the data of a tensor, or None if the file has none. An empty buffer means no data."""
    if data is None or not data.size:
        return None
    if data.size != type_.size_bytes or min(type_.shape, default=0) < 0:
        what = f"{type_.dtype}{list(type_.shape)}"
        raise FormatError(f"{where}: {what} takes {type_.size_bytes} bytes, its buffer has {data.size}")
    return data.view(type_.numpy_dtype).reshape(type_.shape)


def _quantization(record: TensorRecord, dtype: str, where: str) -> Quantization | None:
    """Return the quantization of a tensor; None without scales and for types that are not quantized."""
    scales = record.scales.tolist()
    row = element(dtype)
    if not scales or not row.codes:
        return None
    if row.bits > _MOST_CODE_BITS and not all(scales):
        return None  # some converters write scale 0 into shapes, axes and the biases of dead channels
    for scale in scales:
        if not 0 < scale < inf:
            raise FormatError(f"{where}: scale {scale}, must be finite and positive")
    points = record.zero_points.tolist() or [0]
    if len(points) not in (1, len(scales)):
        raise FormatError(f"{where}: {len(points)} zero points for {len(scales)} scales, may be as many or 1")
    least, most = row.limits
    for point in (min(points), max(points)):
        if not least <= point <= most:
            raise FormatError(f"{where}: zero point {point}, {dtype} may have {least}..{most}")
    if len(scales) == 1:
        return Quantization((scales[0],), (points[0],))
    if len(points) == 1:
        points *= len(scales)
    return Quantization(tuple(scales), tuple(points), _channel_axis(record, where))


def _channel_axis(record: TensorRecord, where: str) -> int:
    """Return the axis that the scales belong to. Biases of early converters name the axis of their weights."""
    count, axis = record.scales.size, record.axis
    if record.shape == (count,):
        return 0
    if not 0 <= axis < len(record.shape) or record.shape[axis] != count:
        raise FormatError(f"{where}: {count} scales along axis {axis} of shape {list(record.shape)}")
    return axis
