"""Tensor files (.dat): a header of 128 bytes, then the items, row by row, without gaps."""

from __future__ import annotations

import math
import mmap
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.frontends.nnef.nnef_rules import RULES
from npusim.frontends.nnef.places import DocumentError
from npusim.isa.base.lazy_dataclass import dataclass

HEADER_BYTES = 128
OLD_HEADER_BYTES = 132
"""The header that old tools wrote: four bytes too many at its end."""

MOST_RANK = 8
_MAGIC = b"\x4e\xef"
_HEADER = struct.Struct("<2sBBII8III")
_PROVISIONAL = struct.Struct("<4sII")

FLOAT, UNSIGNED, QUANTIZED_UNSIGNED, QUANTIZED_SIGNED, SIGNED, BOOL = range(6)
_ITEM_TYPES = (
    "float",
    "unsigned integer",
    "quantized unsigned",
    "quantized signed",
    "signed integer",
    "bool",
)
_SIGNED = (QUANTIZED_SIGNED, SIGNED)
_FLOATS = {16: np.float16, 32: np.float32, 64: np.float64}
_WHOLE_BITS = (8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class TensorFile:
    """The contents of a tensor file.

    values: in their own type, in the file's shape; integers of fewer than 8 bits are int8 or uint8.
    item_type: its code in the header.
    bits: of an item in the file.
    warning: what is unusual about the file, or "".
    """

    values: NDArray[Any]
    item_type: int
    bits: int
    warning: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.values.shape

    @property
    def quantized(self) -> bool:
        """Whether the items are quantized values, whose scale is in the quantization file."""
        return self.item_type in (QUANTIZED_UNSIGNED, QUANTIZED_SIGNED)


def parse(data: bytes | mmap.mmap, name: str) -> TensorFile:
    """Return the contents of tensor file `name`. Raises DocumentError that names file and rule."""
    if (provisional := _provisional(data, name)) is not None:
        return provisional
    if len(data) < HEADER_BYTES:
        raise _fault(name, "V5", f"{len(data)} bytes are fewer than the {HEADER_BYTES} of a header")
    magic, major, minor, length, rank, *rest = _HEADER.unpack_from(data)
    extents, bits, item_type = rest[:MOST_RANK], rest[MOST_RANK], rest[MOST_RANK + 1]
    if magic != _MAGIC:
        raise _fault(name, "V2", f"begins with {magic.hex(' ')}, not 4e ef")
    if (major, minor) != (1, 0):
        raise _fault(name, "V5", f"version {major}.{minor} is not 1.0")
    if rank > MOST_RANK:
        raise _fault(name, "V5", f"rank {rank} is above {MOST_RANK}")
    item_type = _item_type(name, item_type, bits, data)
    shape = tuple(extents[:rank])
    expected = (math.prod(shape) * bits + 7) // 8
    if length != expected:
        raise _fault(
            name, "V3", f"data length {length} is not {expected}, that of shape {list(shape)} at {bits} bits"
        )
    begin, warning = HEADER_BYTES, ""
    if len(data) == OLD_HEADER_BYTES + length and not any(data[HEADER_BYTES:OLD_HEADER_BYTES]):
        begin, warning = OLD_HEADER_BYTES, f"{name}: its header has 4 bytes too many, as old tools wrote it"
    elif len(data) != HEADER_BYTES + length:
        is_more = len(data) > HEADER_BYTES + length
        what = "bytes after the data" if is_more else "data truncated"
        raise _fault(
            name, "V5", f"{what}: {len(data) - HEADER_BYTES} bytes of data where {length} are declared"
        )
    values = _values(memoryview(data)[begin:], shape, item_type, bits)
    return TensorFile(values, item_type, bits, warning)


def dump(values: NDArray[Any], *, quantized: bool = False, bits: int | None = None) -> bytes:
    """Return a tensor file of values, which are float, integer or bool.

    quantized: whether integers are quantized values.
    bits: 1 to 7 packs integers that fit; None is the width of their type, and 1 for bool.

    Raises ValueError for a rank above 8 or another type.
    """
    kind = values.dtype.kind
    if values.ndim > MOST_RANK or kind not in "fiub" or (kind == "f" and values.dtype.itemsize > 8):
        raise ValueError(
            f"a tensor file holds numbers of rank 0 to 8, not {values.dtype} of rank {values.ndim}"
        )
    item_type = {
        "f": FLOAT,
        "i": QUANTIZED_SIGNED if quantized else SIGNED,
        "u": QUANTIZED_UNSIGNED if quantized else UNSIGNED,
        "b": BOOL,
    }[kind]
    width = bits or (1 if kind == "b" else values.dtype.itemsize * 8)
    if width < 8:
        codes = np.ascontiguousarray(values).reshape(-1).astype(np.uint8)
        data = np.packbits(np.unpackbits(codes[:, None], axis=1)[:, 8 - width :].reshape(-1)).tobytes()
    else:
        data = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
    extents = (*values.shape, *(0,) * (MOST_RANK - values.ndim))
    header = _HEADER.pack(_MAGIC, 1, 0, len(data), values.ndim, *extents, width, item_type)
    return header.ljust(HEADER_BYTES, b"\0") + data


def _provisional(data: bytes | mmap.mmap, name: str) -> TensorFile | None:
    """Return the contents of a file in the layout of the provisional format; None for another file.

    That header has its own length, then rank and extents, item type and bits in a byte each, and the length of a
    quantization text, which this reader ignores.
    """
    if len(data) < _PROVISIONAL.size or data[: len(_MAGIC) + 2] != _MAGIC + b"\x01\x00":
        return None
    header_bytes, rank = _PROVISIONAL.unpack_from(data)[1:]
    if rank > MOST_RANK or header_bytes != _PROVISIONAL.size + 4 * rank + 4 or len(data) < header_bytes:
        return None
    *shape, item_type, bits, text_bytes = struct.unpack_from(f"<{rank}IBBH", data, _PROVISIONAL.size)
    if item_type != FLOAT or bits not in _FLOATS or text_bytes:
        return None
    if len(data) != header_bytes + math.prod(shape) * bits // 8:
        return None
    values = _values(memoryview(data)[header_bytes:], tuple(shape), item_type, bits)
    return TensorFile(values, item_type, bits, f"{name}: its header is that of the provisional format")


def _item_type(name: str, code: int, bits: int, data: bytes | mmap.mmap) -> int:
    if code >= len(_ITEM_TYPES):
        vendor = f" of vendor {code >> 16}" if code >> 16 else ""
        raise _fault(name, "V5", f"item type {code & 0xFFFF}{vendor} is none of 0 to {len(_ITEM_TYPES) - 1}")
    if code == FLOAT:
        known = bits in _FLOATS
    elif code == BOOL:
        known = bits in (1, 8)
    else:
        known = 1 <= bits <= 8 or bits in _WHOLE_BITS
    if not known:
        raise _fault(name, "V5", f"{_ITEM_TYPES[code]} of {bits} bits is not defined")
    if code == UNSIGNED and any(data[_HEADER.size : _HEADER.size + 4]):
        return (
            SIGNED  # Before signed integers had a code of their own, they were marked in the reserved bytes.
        )
    return code


def _values(data: memoryview, shape: tuple[int, ...], item_type: int, bits: int) -> NDArray[Any]:
    count = math.prod(shape)
    if count == 0:  # numpy makes no array of an empty buffer
        data = memoryview(bytes(8))
    if item_type == FLOAT:
        return np.frombuffer(data, np.dtype(_FLOATS[bits]).newbyteorder("<"), count).reshape(shape)
    if bits >= 8:
        kind = "u1" if item_type == BOOL else f"{'i' if item_type in _SIGNED else 'u'}{bits // 8}"
        codes = np.frombuffer(data, np.dtype(f"<{kind}"), count)
    else:
        packed = np.unpackbits(np.frombuffer(data, np.uint8), count=count * bits).reshape(count, bits)
        codes = packed @ (1 << np.arange(bits - 1, -1, -1)).astype(np.uint8)
        if item_type in _SIGNED:
            codes = ((codes.astype(np.int16) ^ (1 << (bits - 1))) - (1 << (bits - 1))).astype(np.int8)
    items: NDArray[Any] = codes.reshape(shape)
    return items != 0 if item_type == BOOL else items


def _fault(name: str, rule: str, text: str) -> DocumentError:
    return DocumentError(f"{name}: {text} (rule {rule}: {RULES[rule]})")
