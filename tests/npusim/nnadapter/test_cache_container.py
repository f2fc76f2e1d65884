"""The `.nnc` container: entries to bytes and back, and every damage refused with its reason."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.frontends.nnadapter.nnadapter_codes import ResultCode
from npusim.nnadapter.cache import nnc_container
from npusim.nnadapter.cache.nnc_container import (
    POLYNOMIAL,
    BadChecksum,
    BadContent,
    BadMagic,
    BadVersion,
    CacheRefused,
    Truncated,
    crc32c,
)
from tests.examples import examples

THREE = {"num_caches": (1).to_bytes(8, "little"), "cache_0_device_name": b"npusim", "model": bytes(range(37))}

ENTRIES = st.dictionaries(st.text(max_size=8), st.binary(max_size=40), max_size=5)

REFUSED = {
    "too short": Truncated,
    "magic": BadMagic,
    "version": BadVersion,
    "checksum": BadChecksum,
    "entry does not fit": Truncated,
}
"""The reasons of the examples, and what is raised for them."""


def sealed(body: bytes, count: int, padding: int = 0) -> bytes:
    """A container with the checksum of its body, whatever that is."""
    return struct.pack("<IIIIQ", 0x2E6E6E63, 1, crc32c(body), padding, count) + body


def entry(key: bytes, value: bytes, fill: bytes = b"\0") -> bytes:
    """An entry, padded."""
    size = len(key) + len(value)
    return struct.pack("<QQ", len(key), len(value)) + key + value + fill * (-size % 4)


def test_examples_of_the_protocol(shared: Path) -> None:
    """../shared/nnadapter/protocol/cache.jsonl: bytes accepted with these entries, or refused for this reason."""
    for line in (shared / "nnadapter" / "protocol" / "cache.jsonl").read_text().splitlines():
        case = json.loads(line)
        data = base64.b64decode(case["data"])
        if case["accepted"]:
            entries = {key: base64.b64decode(value) for key, value in case["entries"].items()}
            assert nnc_container.read_cache(data) == entries, case["id"]
            assert nnc_container.write_cache(entries) == data, case["id"]
        else:
            with pytest.raises(REFUSED[case["reason"]], match=case["reason"]):
                nnc_container.read_cache(data)


def test_checksum_is_castagnolis() -> None:
    """The published check value 0xe3069283 of "123456789" begins with ones and is inverted; ours does neither.

    A register that begins with ones is one that begins with zeros and whose first four bytes are inverted.
    """
    data = b"123456789"
    inverted = bytes(byte ^ 0xFF for byte in data[:4]) + data[4:]
    assert crc32c(inverted) ^ 0xFFFFFFFF == 0xE3069283
    assert crc32c(b"") == 0


@pytest.mark.slow
@given(st.binary(max_size=100), st.sampled_from((0, 0, 65530, 65536, 65540, 131071)))
@examples(30)
def test_checksum_bit_by_bit(tail: bytes, before: int) -> None:
    """Against the definition, also where the data is one, two or three blocks long."""
    head = bytes(number * 7 & 0xFF for number in range(before))
    assert crc32c(head + tail) == _bitwise(head + tail)


def _bitwise(data: bytes) -> int:
    register = 0
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (POLYNOMIAL if register & 1 else 0)
    return register


@given(ENTRIES)
def test_what_is_written_is_read_in_its_order(entries: dict[str, bytes]) -> None:
    data = nnc_container.write_cache(entries)
    assert list(nnc_container.read_cache(data).items()) == list(entries.items())
    assert len(data) % 4 == 0


def test_every_bit_counts() -> None:
    """One bit flipped anywhere, in the header, in sizes, keys, values or padding, is refused."""
    data = nnc_container.write_cache(THREE)
    for bit in range(8 * len(data)):
        with pytest.raises(CacheRefused):
            nnc_container.read_cache(flipped(data, bit))


@given(ENTRIES, st.data())
def test_any_bit_of_any_container(entries: dict[str, bytes], draw: st.DataObject) -> None:
    data = nnc_container.write_cache(entries)
    bit = draw.draw(st.integers(0, 8 * len(data) - 1))
    with pytest.raises(CacheRefused):
        nnc_container.read_cache(flipped(data, bit))


def flipped(data: bytes, bit: int) -> bytes:
    """Data with one bit changed."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_every_cut_is_refused() -> None:
    data = nnc_container.write_cache(THREE)
    for size in range(len(data)):
        with pytest.raises(CacheRefused):
            nnc_container.read_cache(data[:size])


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (b"", Truncated, "too short: 0 bytes, the header has 24"),
        (sealed(b"", 0)[:23], Truncated, "too short: 23 bytes, the header has 24"),
        (b"PK\3\4" + bytes(30), BadMagic, "magic 0x04034b50, must be 0x2e6e6e63: this is no .nnc container"),
        (sealed(b"", 0)[:4] + b"\2" + bytes(19), BadVersion, "version 2, must be 1"),
        (sealed(b"", 0, padding=5), BadContent, "padding of the header is 0x00000005, must be 0"),
        (
            sealed(b"", 0) + b"\1",
            BadChecksum,
            "checksum 0x00000000, that of the 1 bytes behind it is 0xf26b8303",
        ),
        (
            sealed(b"", 0) + bytes(4),  # zeros do not change a checksum of zero
            Truncated,
            "4 trailing bytes behind the last entry: the header announces 0 entries",
        ),
        (
            sealed(entry(b"a", b"b"), 2),
            Truncated,
            "entry does not fit: entry 1 of 2 needs 16 bytes for its sizes, there are 0",
        ),
        (
            sealed(entry(b"a", b"b"), 2**64 - 1),
            Truncated,
            "entry does not fit: entry 1 of 18446744073709551615 needs 16 bytes for its sizes, there are 0",
        ),
        (
            sealed(struct.pack("<QQ", 2**64 - 1, 2) + bytes(8), 1),
            Truncated,
            "entry does not fit: entry 0 of 1 has a key of 18446744073709551615 and a value of 2 bytes, there are 8",
        ),
        (
            sealed(struct.pack("<QQ", 1, 2**64 - 1) + bytes(8), 1),  # their sum is 0 in 64 bits
            Truncated,
            "entry does not fit: entry 0 of 1 has a key of 1 and a value of 18446744073709551615 bytes, there are 8",
        ),
        (
            sealed(struct.pack("<QQ", 1, 2) + b"abc", 1),
            Truncated,
            "entry does not fit: entry 0 of 1 has a key of 1 and a value of 2 bytes, there are 3",
        ),
        (sealed(entry(b"a", b"b", b"\1"), 1), BadContent, "entry 0 of 1: its padding is not zero"),
        (
            sealed(entry(b"a", b"b") + entry(b"a", b"c"), 2),
            BadContent,
            'entry 1 of 2: the key "a" stands twice',
        ),
        (sealed(entry(b"ab\xff", b""), 1), BadContent, "entry 0 of 1: its key is not UTF-8 at byte 2"),
        (
            sealed(entry(b"a", b"b") + bytes(8), 1),
            Truncated,
            "8 trailing bytes behind the last entry: the header announces 1 entries",
        ),
    ],
)
def test_refusals_say_what_is_and_what_must_be(data: bytes, kind: type[CacheRefused], text: str) -> None:
    with pytest.raises(kind) as refused:
        nnc_container.read_cache(data)
    assert str(refused.value) == text
    assert refused.value.code is ResultCode.INVALID_PARAMETER


@given(st.binary(max_size=120), st.integers(0, 2**64 - 1) | st.integers(0, 4))
def test_bytes_of_strangers(body: bytes, count: int) -> None:
    """Any body with its checksum is entries or a refusal."""
    try:
        entries = nnc_container.read_cache(sealed(body, count))
    except CacheRefused:
        return
    assert nnc_container.read_cache(nnc_container.write_cache(entries)) == entries
