"""Tensor files: values of every type and width, and files that are broken."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from npusim.frontends.nnef import tensor_file
from npusim.frontends.nnef.places import DocumentError

VALUES = np.array([[-3.5, 0, 1], [2, 100, 7]])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
def test_values_come_back_in_their_type(dtype: str) -> None:
    values = np.abs(VALUES).astype(dtype) if dtype[0] == "u" else VALUES.astype(dtype)
    read = tensor_file.parse(tensor_file.dump(values), "w.dat")
    assert read.values.dtype == values.dtype
    np.testing.assert_array_equal(read.values, values)
    assert (read.shape, read.warning) == ((2, 3), "")


def test_a_header_is_128_bytes_in_the_order_of_the_format() -> None:
    data = tensor_file.dump(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert len(data) == 128 + 24
    assert data[:12] == b"\x4e\xef\x01\x00" + struct.pack("<II", 24, 2)
    assert struct.unpack_from("<8I", data, 12) == (2, 3, 0, 0, 0, 0, 0, 0)
    assert struct.unpack_from("<II", data, 44) == (32, tensor_file.FLOAT)
    assert data[52:128] == bytes(76)


@pytest.mark.parametrize("bits", range(1, 8))
@pytest.mark.parametrize("is_signed", [False, True])
def test_codes_of_few_bits_are_packed(bits: int, is_signed: bool) -> None:
    lowest = -(1 << (bits - 1)) if is_signed else 0
    codes = np.arange(lowest, lowest + (1 << bits)).repeat(3)[:-1].astype("i1" if is_signed else "u1")
    data = tensor_file.dump(codes, quantized=True, bits=bits)
    read = tensor_file.parse(data, "w.dat")
    assert len(data) == 128 + (codes.size * bits + 7) // 8
    assert (read.bits, read.quantized, read.values.dtype) == (bits, True, codes.dtype)
    np.testing.assert_array_equal(read.values, codes)


def test_the_first_item_is_in_the_highest_bits() -> None:
    assert tensor_file.dump(np.array([True, False, False, True]))[128:] == b"\x90"
    assert tensor_file.dump(np.array([1, 2, 15], np.uint8), bits=4)[128:] == b"\x12\xf0"


def test_a_scalar_has_rank_0() -> None:
    assert (
        tensor_file.parse(tensor_file.dump(np.float32(2.5)[()].reshape(())), "w.dat").values.tolist() == 2.5
    )


def test_signed_integers_of_old_files_are_marked_in_the_reserved_bytes() -> None:
    data = bytearray(tensor_file.dump(np.array([255], np.uint8)))
    data[52] = 1
    assert tensor_file.parse(bytes(data), "w.dat").values.tolist() == [-1]


def test_four_bytes_too_many_in_the_header_are_warned_of() -> None:
    data = tensor_file.dump(VALUES.astype("f4"))
    read = tensor_file.parse(data[:128] + bytes(4) + data[128:], "a/w.dat")
    np.testing.assert_array_equal(read.values, VALUES.astype("f4"))
    assert read.warning == "a/w.dat: its header has 4 bytes too many, as old tools wrote it"


def provisional(*, item: int = 0, bits: int = 32, text_bytes: int = 0) -> bytes:
    """A file of [2,3] float32 in the provisional layout."""
    header = b"\x4e\xef\x01\x00" + struct.pack("<4IBBH", 24, 2, 2, 3, item, bits, text_bytes)
    return header + VALUES.astype("<f4").tobytes()


def test_the_header_of_the_provisional_format_is_read_with_a_warning() -> None:
    read = tensor_file.parse(provisional(), "w.dat")
    np.testing.assert_array_equal(read.values, VALUES.astype("f4"))
    assert read.warning == "w.dat: its header is that of the provisional format"


@pytest.mark.parametrize(
    "data", [provisional(item=1), provisional(bits=16), provisional(text_bytes=8), provisional()[:-1]]
)
def test_what_the_provisional_header_does_not_fit_is_refused(data: bytes) -> None:
    with pytest.raises(DocumentError, match="bytes are fewer than the 128 of a header"):
        tensor_file.parse(data, "w.dat")


def header(**fields: int) -> bytes:
    """A file of [2,3] float32 with some fields of its header changed."""
    places = {
        "magic": (0, "B"),
        "major": (2, "B"),
        "minor": (3, "B"),
        "length": (4, "<I"),
        "rank": (8, "<I"),
        "extent": (12, "<I"),
        "bits": (44, "<I"),
        "item": (48, "<I"),
    }
    data = bytearray(tensor_file.dump(VALUES.astype("f4")))
    for name, value in fields.items():
        offset, code = places[name]
        struct.pack_into(code, data, offset, value)
    return bytes(data)


BROKEN: tuple[tuple[bytes, str], ...] = (
    (b"", "0 bytes are fewer than the 128 of a header (rule V5"),
    (header()[:127], "127 bytes are fewer"),
    (header(magic=0x4F), "begins with 4f ef, not 4e ef (rule V2"),
    (header(major=2), "version 2.0 is not 1.0 (rule V5"),
    (header(minor=1), "version 1.1 is not 1.0"),
    (header(rank=9), "rank 9 is above 8"),
    (header(rank=4294967295), "rank 4294967295 is above 8"),
    (header(length=20), "data length 20 is not 24, that of shape [2, 3] at 32 bits (rule V3"),
    (header(extent=4294967295), "data length 24 is not 51539607540"),
    (header(bits=24), "float of 24 bits is not defined"),
    (header(bits=0), "float of 0 bits is not defined"),
    (header(item=6), "item type 6 is none of 0 to 5"),
    (header(item=0x10001), "item type 1 of vendor 1 is none of 0 to 5"),
    (header(item=4, bits=24), "signed integer of 24 bits is not defined"),
    (header(item=5, bits=32), "bool of 32 bits is not defined"),
    (header()[:-1], "data truncated: 23 bytes of data where 24 are declared (rule V5"),
    (header() + b"\0", "bytes after the data: 25 bytes of data where 24 are declared"),
    (header()[:128] + b"\0\0\0\1" + header()[128:], "bytes after the data: 28 bytes"),
)


@pytest.mark.parametrize(("data", "words"), BROKEN)
def test_a_broken_file_is_refused_by_its_name(data: bytes, words: str) -> None:
    with pytest.raises(DocumentError) as raised:
        tensor_file.parse(data, "a/w.dat")
    assert str(raised.value).startswith(f"a/w.dat: {words}")


@pytest.mark.parametrize("values", [np.zeros((1,) * 9), np.zeros(2, complex), np.array(["a"])])
def test_what_no_file_can_hold_is_refused(values: Any) -> None:
    with pytest.raises(ValueError, match="a tensor file holds numbers of rank 0 to 8"):
        tensor_file.dump(values)
