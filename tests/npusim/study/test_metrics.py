"""Keys: everything in the JSON of a run can be an objective, and is the number that stands there."""

from __future__ import annotations

from typing import Any

import pytest

import npusim
from npusim.comparison import result_file
from npusim.isa.base.errors import NpusimError
from npusim.numbers.run import RunResult
from npusim.study.metrics import METRICS, SHORT, combine, full_key, number


@pytest.fixture(scope="module")
def run() -> RunResult:
    return npusim.run("digits_cnn", timing_only=True)


def test_every_number_of_the_json(run: RunResult) -> None:
    plain: dict[str, Any] = run.to_dict()
    layers, _ = plain.pop("layers"), plain.pop("pieces")
    words = (
        "schema_version",
        "npusim_version",
        "model",
        "lower_bound_limit",
        "bound_by",
        "answer",
        "provenance",
        "wall_s",
    )
    numbers = {
        key: value
        for key, value in result_file.flat(plain)
        if not key.startswith(words) and isinstance(value, int | float) and not isinstance(value, bool)
    }
    assert len(numbers) > 60
    assert {key: number(run, full_key(key)) for key in numbers} == numbers
    assert number(run, full_key("layers.0.cycles")) == layers[0]["cycles"]
    assert number(run, full_key("lost_cycles.host")) == plain["lost_cycles"].get("host", 0)


def test_short_names() -> None:
    assert {name: full_key(name) for name in SHORT} == dict(SHORT)
    assert full_key("energy_uj") == "energy_uj.total"
    assert len({metric.name for metric in METRICS}) == len(METRICS)


@pytest.mark.parametrize(
    "key", ["hardware.name", "layers.0.op", "layers.99.cycles", "energy_uj.by_component"]
)
def test_what_is_no_number(key: str, run: RunResult) -> None:
    with pytest.raises(NpusimError, match=f"objective {key}: digits_cnn has no number there"):
        number(run, full_key(key))


def test_the_worst_model_of_a_maximised_key() -> None:
    assert combine([1.0, 3.0], [1, 1], "max", "latency_ms", True) == 3.0
    assert combine([1.0, 3.0], [1, 1], "max", "inferences_per_s", False) == 1.0
    with pytest.raises(NpusimError, match=r"0 has no geometric mean"):
        combine([0.0, 3.0], [1, 1], "geomean", "cycles.host", True)
