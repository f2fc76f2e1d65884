"""Models with damage: they run, or one line says what is wrong."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npusim
from npusim.frontends.forms import conversion
from tests.examples import examples
from tests.npusim.frontends.onnx.models import Single, fixed, model_of, scalar, single, written, x
from tests.npusim.frontends.onnx.mutants import mutant, outcome, seeds

pytest.importorskip("onnx", reason="onnx is not installed")


@pytest.mark.slow
def test_mutants(tmp_path: Path) -> None:
    chance, originals = random.Random(12), seeds()
    said = [outcome(mutant(chance.choice(originals), chance), tmp_path) for _ in range(400)]
    assert all(len(text.splitlines()) <= 1 for text in said)
    assert 50 < said.count("") < 200


@examples(100)
@given(st.binary(max_size=80))
def test_any_bytes_are_refused(tmp_path_factory: Any, data: bytes) -> None:
    said = outcome(data, tmp_path_factory.getbasetemp())
    assert len(said.splitlines()) == 1
    assert "mutant.onnx: " in said


BOMBS: list[Single] = [
    single("ConstantOfShape", fixed(1 << 20, 1 << 20)),
    single("Expand", x(1), fixed(1 << 20, 1 << 20)),
    single("Tile", x(1, 1), fixed(1 << 30, 1 << 30)),
    single("Pad", x(1), fixed(1 << 40, 0)),
    single("Range", scalar(0), scalar(1 << 40), scalar(1)),
    single("OneHot", np.array([1]), scalar(1 << 40), fixed(0, 1)),
    single("EyeLike", x(0, 3).reshape(0, 3), k=1 << 40),
    single("Trilu", x(2, 2), scalar(1 << 62)),
    single("Resize", x(1, 1, 2, 2), None, fixed(1, 1, 1e9, 1e9, of="float32")),
    single("ReverseSequence", x(1, 1), fixed(1 << 40)),
    single("TopK", x(3), fixed(1 << 40), outputs=2),
    single("Einsum", *[x(64, 64)] * 2, equation="ab,cd->abcd"),
    single("MaxPool", x(1, 1, 4), kernel_shape=[2], strides=[1], pads=[1 << 40, 0]),
    single("AveragePool", x(1, 1, 4, 4), kernel_shape=[1 << 20, 1 << 20], dilations=[2, 2]),
    single("ConvTranspose", x(1, 1, 4), fixed([[1.0]], of="float32"), output_shape=[1 << 40]),
    single("Split", x(4), num_outputs=1 << 40),
]


@pytest.mark.parametrize("case", BOMBS, ids=lambda case: case.name)
def test_what_a_few_bytes_ask_for_is_not_made(tmp_path: Path, case: Single) -> None:
    data = model_of(case).SerializeToString()
    tracemalloc.start()
    assert len(outcome(data, tmp_path).splitlines()) <= 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 29


WIDE: list[tuple[str, tuple[int, ...], dict[str, Any], int]] = [
    ("MaxPool", (1, 2**31 - 1, 2, 2), {"kernel_shape": [2, 2]}, 2),
    ("AveragePool", (1, 1, 2**31 - 1, 4), {"kernel_shape": [3, 3], "dilations": [2, 1]}, 1),
    ("com.microsoft::Attention", (1, 2**24, 4), {"num_heads": 1, "unidirectional": 1}, 1),
]


@pytest.mark.parametrize(("operation", "shape", "how", "outputs"), WIDE, ids=[row[0] for row in WIDE])
def test_inputs_that_say_large_sizes(
    tmp_path: Path, operation: str, shape: tuple[int, ...], how: dict[str, Any], outputs: int
) -> None:
    more = [fixed(*np.ones((4, 12)).tolist(), of="float32")] if "Attention" in operation else []
    model = model_of(Single(operation, [x(1), *more], how, outputs))
    sizes = model.graph.input[0].type.tensor_type.shape.dim
    del sizes[:]
    for size in shape:
        sizes.add().dim_value = size
    with pytest.raises(npusim.NpusimError, match=r"npusim makes [0-9,]* elements at most"):
        npusim.load(written(tmp_path, model))


def test_the_limit_is_said(tmp_path: Path) -> None:
    path = written(tmp_path, model_of(single("ConstantOfShape", fixed(1 << 20, 1 << 20))))
    most = f"{conversion.MOST_CONSTANT:,}"
    with pytest.raises(
        npusim.NpusimError, match=rf"makes a tensor of shape .* npusim makes {most} elements at most"
    ):
        npusim.load(path)
