"""Graphs as TFLite models, live: LiteRT gives for the file that npusim writes what it gave for the one that it read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import npusim
from npusim.frontends.tflite import reader
from npusim.frontends.tflite.export import written
from npusim.frontends.tflite.export.subgraph_tables import TYPES
from npusim.session.inputs import draw
from npusim.verification.litert import LiteRTError
from tests.examples import some

from .live import by_litert, needs_litert
from .rows import ROWS, inputs_of, model

SHARED = Path(__file__).resolve().parents[3] / "shared" / "models"


def test_types_are_those_that_run_live() -> None:
    assert {code: set(types) for code, types in TYPES.items()} == {
        code: set(row.dtypes) for code, row in ROWS.items()
    }


@pytest.mark.cases(18)
@needs_litert
@pytest.mark.parametrize("code", ROWS)
def test_litert_gives_the_same_for_what_is_written(code: str) -> None:
    row = ROWS[code]
    for dtype in row.dtypes:
        for seed in range(2):
            data = model(code, dtype, seed)
            graph = reader.parse(data, "m")
            again = written(graph)
            kinds = [graph.tensors[number].type for number in graph.inputs]
            inputs = inputs_of([(kind.dtype, kind.shape) for kind in kinds], seed)
            try:
                expected = row.defined(by_litert(data, inputs, row.optimized))
            except LiteRTError:
                continue
            found = row.defined(by_litert(again, inputs, row.optimized))
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_array_equal(ours, theirs, strict=True)


def shared_models() -> Iterator[Path]:
    """The models beside the repository; the person detection that LiteRT refuses is there repaired, too."""
    yield from sorted(path for path in SHARED.glob("*.tflite") if path.stem != "tflm_person_detect_int8")


@pytest.mark.slow
@needs_litert
@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/models is not there")
def test_networks_keep_their_bytes_and_cycles(tmp_path: Path) -> None:
    for path in some(list(shared_models()), 1, "networks"):
        graph = npusim.load(path)
        copy = tmp_path / path.name
        copy.write_bytes(written(graph))
        inputs = draw(npusim.compile(graph).inputs, 4)
        pairs = zip(by_litert(path.read_bytes(), inputs), by_litert(copy.read_bytes(), inputs), strict=True)
        for ours, theirs in pairs:
            np.testing.assert_array_equal(ours, theirs, strict=True)
        assert npusim.run(copy, timing_only=True).cycles == npusim.run(path, timing_only=True).cycles, path
