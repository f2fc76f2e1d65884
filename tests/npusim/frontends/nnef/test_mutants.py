"""Documents, quantization files, data files and archives with damage: a network, or one line on what is wrong."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.frontends.nnef import tensor_file
from npusim.frontends.nnef.document import load, loads
from npusim.frontends.nnef.places import DocumentError
from tests.examples import examples
from tests.npusim.frontends.nnef.documents import flat, fragment, own
from tests.npusim.frontends.nnef.mutants import CODES, SEEDS, mutant
from tests.npusim.frontends.nnef.test_container import FILES, tar, written
from tests.npusim.frontends.nnef.test_quantization import GRAPH


def refusal(read: Callable[[], object]) -> str:
    """The text of the refusal, "" where there is none; anything else fails the test."""
    try:
        read()
    except DocumentError as fault:
        return str(fault)
    return ""


def outcome(text: str, codes: str | None = None) -> bool:
    """Whether it is a network, or else a refusal in one line."""
    message = refusal(lambda: loads(text, codes).network({"relu", "moments"}))
    assert len(message.splitlines()) <= 1
    assert message.startswith(("graph.nnef, line ", "graph.quant, line ")) or not message
    message.encode()  # no half characters
    return not message


def test_mutants_of_documents() -> None:
    chance = random.Random(12)
    outcomes = [outcome(mutant(chance.choice(SEEDS), chance)) for _ in range(1500)]
    assert 20 < sum(outcomes) < 1000


@pytest.mark.slow
def test_mutants_of_quantization_files() -> None:
    chance = random.Random(12)
    outcomes = [outcome(GRAPH, mutant(CODES, chance)) for _ in range(700)]
    assert 20 < sum(outcomes) < 600


def test_mutants_of_data_files() -> None:
    chance = random.Random(12)
    seed = tensor_file.dump(np.arange(6, dtype=np.float32).reshape(2, 3))
    read = 0
    for _ in range(700):
        data = bytearray(seed)
        for _ in range(chance.randint(1, 3)):
            data[chance.choice([chance.randrange(52), chance.randrange(len(data))])] = chance.randrange(256)
        damaged = bytes(data[: chance.choice([len(data), len(data), chance.randrange(len(data))])])
        message = refusal(partial(tensor_file.parse, damaged, "w.dat"))
        assert message.startswith("w.dat: ") or not message
        read += not message
    assert 10 < read < 600


@pytest.mark.slow
def test_mutants_of_archives(tmp_path: Path) -> None:
    chance = random.Random(12)
    plain = tar(FILES)
    read = 0
    for index in range(400):
        is_compressed = index % 2 == 0
        data = bytearray(gzip.compress(plain) if is_compressed else plain)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        damaged = bytes(data[: chance.choice([len(data), len(data), chance.randrange(len(data))])])
        path = written(tmp_path / ("m.tgz" if is_compressed else "m.tar"), damaged)
        message = refusal(lambda path=path: load(path).network())  # type: ignore[misc]
        assert len(message.splitlines()) <= 1
        read += not message
    assert 10 < read < 390


@examples(200)
@given(
    st.text(st.sampled_from("abx01.,;:=()[]{}<>?+-*/^!&|'\"# \n"), max_size=60),
    st.sampled_from(["1.0;", "1.0"]),
)
def test_any_text_after_the_version(text: str, version: str) -> None:
    assert not outcome(f"version {version}\n{text}")


@examples(200)
@given(st.text(max_size=40))
def test_any_text_in_a_body(text: str) -> None:
    outcome(own(fragment(f"b = a; {text}")))
    outcome(flat(f"y = relu(x); {text}"))


@examples(100)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_data_file_or_refused(data: bytes) -> None:
    message = refusal(lambda: tensor_file.parse(data, "w.dat"))
    assert message.startswith("w.dat: ") or not message
