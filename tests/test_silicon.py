"""Presets beside chips: the numbers by which they are judged, and that they keep their bars."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import peers
from benchmarks.silicon import ethos_u55, gap9
from benchmarks.silicon.chips import CHIPS
from benchmarks.silicon.frame import (
    Agreement,
    Bar,
    Chip,
    Compared,
    Measurement,
    agreement,
    compared,
    spearman,
)
from benchmarks.silicon.page import held_out, page
from npusim.cli.app import app
from npusim.isa.hardware.file import hardware, list_presets


def rows(*pairs: tuple[float, float]) -> list[Compared]:
    return [Compared(Measurement(f"n{at}", Path(), *pair[:1]), pair[1]) for at, pair in enumerate(pairs)]


def test_agreement_by_hand() -> None:
    """Twice and half of what was measured are both twice off, and have no bias."""
    found = agreement(rows((100, 200), (100, 50), (50, 50), (10, 10)))
    assert found.error == pytest.approx(2**0.5 - 1)
    assert (found.worst, found.bias) == (pytest.approx(1.0), pytest.approx(1.0))
    assert found.rows == 4


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ([1, 2, 3], [10, 20, 40], 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0),
        # Ranks 0, 1, 2, 3 and 1, 0, 2, 3: 1 - 6 x 2 / (4 x 15).
        ([1, 2, 3, 4], [6, 5, 7, 8], 0.8),
        # Equal ones share ranks 0 and 1.
        ([1, 1, 2], [1, 1, 2], 1.0),
        ([1, 2], [1, 2], None),
        ([1, 1, 1], [1, 2, 3], None),
    ],
)
def test_rank_correlation(first: list[float], second: list[float], wanted: float | None) -> None:
    found = spearman(first, second)
    assert found == (None if wanted is None else pytest.approx(wanted))


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (Agreement(3, 0.1, 0.25, 1.0, 0.95), True),
        (Agreement(3, 0.11, 0.25, 1.0, 0.95), False),
        (Agreement(3, 0.1, 0.26, 1.0, 0.95), False),
        (Agreement(3, 0.1, 0.25, 1.0, 0.94), False),
        (Agreement(1, 0.1, 0.25, 1.0, None), True),
    ],
)
def test_a_bar(found: Agreement, holds: bool) -> None:
    assert found.holds(Bar(0.1, 0.25, 0.95)) is holds


def test_the_page_has_every_row() -> None:
    chip = Chip(
        "edge-32", "a referee", "ms", Bar(0.1, 0.2, 0.9), lambda: iter(()), lambda row: 0.0, 2, ("So.",)
    )
    text = page([(chip, rows((1.0, 1.1), (2.0, 1.0)))])
    assert "| n0 | 1.00 | 1.10 | 1.100 |  |" in text
    assert "| n1 | 2.00 | 1.00 | 0.500 |  |" in text
    assert "\n- So.\n" in text


def test_chips_are_presets() -> None:
    assert {chip.preset for chip in CHIPS} <= set(list_presets())


def test_every_third_network_was_held_out(shared: Path) -> None:
    assert shared
    every = {row.network for size in ethos_u55.SIZES for row in ethos_u55.vela_rows(size)}
    single = {name for name in every if name.startswith("n6_micro")}
    networks = sorted(every - single)
    assert networks[2::3] == sorted(ethos_u55.HELD_OUT)


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: f"{chip.preset}, {chip.referee}")
def test_presets_keep_their_bars(chip: Chip, shared: Path) -> None:
    """Those that were tuned on, and those that were held out."""
    assert shared
    found = compared(chip)
    assert agreement(found).holds(chip.bar)
    apart = held_out(found)
    assert apart is None or apart.holds(chip.bar)


@pytest.mark.parametrize("size", ethos_u55.SIZES)
def test_a_preset_says_how_far_it_agrees(size: int, shared: Path) -> None:
    assert shared
    said = re.search(
        r"agrees with (\d+) networks of Vela 5.2.0 within (\d+) %$", hardware(f"ethos-u55-{size}").description
    )
    assert said is not None
    found = agreement(compared(ethos_u55.CHIPS[ethos_u55.SIZES.index(size)]))
    assert int(said[1]) == found.rows
    assert int(said[2]) / 100 - 0.015 < found.error <= int(said[2]) / 100


@pytest.mark.parametrize("preset", gap9.SYSTEMS)
def test_gap9_says_how_far_it_agrees(preset: str, shared: Path) -> None:
    assert shared
    said = re.search(
        r"agrees with (\d+) networks of MLPerf Tiny within (\d+) % in latency, (\d+) % in energy$",
        hardware(preset).description,
    )
    assert said is not None
    for percent, chip in zip(said.groups()[1:], [c for c in CHIPS if c.preset == preset], strict=True):
        found = agreement(compared(chip))
        assert int(said[1]) == found.rows
        assert int(percent) / 100 - 0.015 < found.error <= int(percent) / 100


def test_every_row_of_gap9_has_its_bits(shared: Path) -> None:
    """KWS, whose row nobody had looked at before the constants, is there and is apart."""
    assert shared
    for preset in gap9.SYSTEMS:
        found = list(gap9.rows(preset, gap9.LATENCY))
        assert {row.network for row in found} == set(gap9.BITS)
        assert [row.network for row in found if row.held_out] == ["mlperf_kws_int8"]
    fast, slow = (
        min(row.value for row in gap9.rows(preset, gap9.LATENCY)) for preset in ("gap9", "gap9-low")
    )
    assert slow / fast == pytest.approx(370 / 240, rel=0.01)


def test_the_others_say_that_they_are_idealised() -> None:
    for name in list_presets():
        if name not in {chip.preset for chip in CHIPS}:
            assert hardware(name).description.startswith("idealised array, always full: ")


@pytest.mark.parametrize("size", ethos_u55.SIZES)
@pytest.mark.parametrize("name", ["ds_cnn", "mobilenet_v1"])
def test_networks_that_nobody_tuned_on(name: str, size: int, tmp_path: Path) -> None:
    """Built-in networks, written as TFLite files, with Vela run live: within 5 %."""
    try:
        peers.require_vela()
    except peers.Missing as reason:
        pytest.skip(str(reason))
    file = tmp_path / f"{name}.tflite"
    assert CliRunner().invoke(app, ["convert", name, "-o", str(file)]).exit_code == 0
    measured = peers.vela_cycles(file, f"ethos-u55-{size}")
    ratio = ethos_u55.simulated(size, Measurement(name, file, measured)) / measured
    assert 0.95 < ratio < 1.05
