"""The image of a program: pieces that are made when their bytes are read."""

from __future__ import annotations

import pickle

import pytest

from npusim.isa.program.program import Image, Piece


def test_an_image_makes_its_pieces_once_and_when_they_are_read() -> None:
    made: list[str] = []

    def piece(text: str) -> Piece:
        return Piece(len(text), lambda: made.append(text) or text.encode())  # type: ignore[func-returns-value]

    image = Image([piece("ab"), piece(""), piece("cde")])
    assert (len(image), made) == (5, [])
    assert bytes(image) == b"abcde"
    assert bytes(image) == b"abcde"
    assert made == ["ab", "", "cde"]
    assert image == b"abcde"
    assert image == Image([Piece(5, lambda: b"abcde")])
    assert image != b"abcdf"


def test_an_image_is_pickled_as_its_bytes() -> None:
    assert pickle.loads(pickle.dumps(Image([Piece(2, b"xy".__bytes__)]))) == b"xy"


def test_a_piece_of_another_size_is_a_fault() -> None:
    with pytest.raises(ValueError, match="has 2 bytes, it was to have 3"):
        bytes(Image([Piece(3, lambda: b"xy")]))
