"""Supply voltage from clock: the law against closed forms and measured chips, and what a hardware file may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from npusim.isa.base.errors import HardwareError
from npusim.isa.hardware.file import change, from_dict, hardware, list_presets, to_dict
from npusim.isa.hardware.voltage import NODES, clock_at, fastest_mhz, needed_v, range_v, supply_v

POINT = {"name": "chip", "clock_mhz": 500.0, "technology": {"node_nm": 22}}


def at(name: str, **changes: Any) -> Any:
    return change(hardware(name), {key.replace("__", "."): value for key, value in changes.items()})


@pytest.mark.parametrize("name", list_presets())
def test_a_preset_stands_at_its_rated_point(name: str) -> None:
    chip = hardware(name)
    assert chip.technology.rated_mhz == chip.clock_mhz
    nominal = NODES[chip.technology.node_nm].nominal_v
    assert supply_v(chip) == {"gap9-low": 0.65}.get(name, nominal)
    assert clock_at(supply_v(chip), chip) == pytest.approx(chip.clock_mhz)


@pytest.mark.parametrize("node", NODES)
def test_the_law_by_hand(node: int) -> None:
    """Clock goes as (V - Vt)^1.3 / V, from the rated point: so many MHz at 1.1 times the nominal supply."""
    chip = from_dict(POINT | {"technology": {"node_nm": node}})
    volts, threshold = NODES[node].nominal_v, NODES[node].threshold_v
    more = min(1.1 * volts, NODES[node].most_v)
    expected = 500 * ((more - threshold) ** 1.3 / more) / ((volts - threshold) ** 1.3 / volts)
    assert clock_at(more, chip) == pytest.approx(expected)
    faster = change(chip, {"clock_mhz": float(int(expected))})
    assert supply_v(faster) == pytest.approx(more, abs=2e-3)
    assert NODES[node].threshold_v < NODES[node].least_v < volts < NODES[node].most_v


@pytest.mark.parametrize("name", ["edge-128", "edge-512", "mobile-1024", "gap9", "gap9-low", "stm32n6"])
def test_the_supply_is_the_least_whole_millivolt_that_suffices(name: str) -> None:
    chip = hardware(name)
    least, most = range_v(chip)
    for part in range(1, 10):
        clock = clock_at(least, chip) + (fastest_mhz(chip) - clock_at(least, chip)) * part / 10
        volts = supply_v(change(chip, {"clock_mhz": clock}))
        assert least < volts <= most
        assert volts == round(volts, 3)
        assert clock_at(volts, chip) >= clock * (1 - 1e-9)
        assert clock_at(volts - 1e-3, chip) < clock


def test_far_below_the_range_the_supply_stays() -> None:
    slow, slower = at("edge-128", clock_mhz=100.0), at("edge-128", clock_mhz=1.0)
    assert supply_v(slow) == supply_v(slower) == NODES[22].least_v


def test_gap9_is_measured_at_two_points_and_the_law_has_seen_neither() -> None:
    """MLPerf Tiny v1.0: 370 MHz at 0.80 V, 240 MHz at 0.65 V."""
    assert supply_v(at("gap9", clock_mhz=240.0)) == pytest.approx(0.65, rel=0.005)
    assert supply_v(at("gap9-low", clock_mhz=370.0)) == pytest.approx(0.80, rel=0.01)
    assert clock_at(0.65, hardware("gap9")) == pytest.approx(240, rel=0.01)


# Published tables, as (MHz, V): what the thresholds are fitted on.
PUBLISHED = {
    28: ([(400, 0.825), (500, 0.875), (600, 0.925), (800, 1.1)], 0.06),  # Mali-T860 of RK3399
    22: ([(100, 0.5), (420, 0.8)], 0.01),  # Marsellus
    16: (
        [(793, 0.65), (1014, 0.71875), (1248, 0.8), (1508, 0.86875), (1781, 0.975), (1989, 1.05)],
        0.17,
    ),  # A53, MT8183
    7: (
        [(358, 0.60625), (482, 0.64375), (605, 0.68125), (748, 0.7375), (866, 0.8)],
        0.10,
    ),  # Mali-G57 of MT8192
}


@pytest.mark.parametrize("node", PUBLISHED)
def test_clocks_of_published_tables(node: int) -> None:
    """From the fastest point of a table the law gives the clocks of the others; how far it is off stands beside."""
    points, off = PUBLISHED[node]
    mhz, volts = points[-1]
    chip = from_dict({**POINT, "clock_mhz": float(mhz), "technology": {"node_nm": node, "rated_v": volts}})
    errors = [clock_at(supply, chip) / clock - 1 for clock, supply in points[:-1]]
    assert max(map(abs, errors)) < off


REFUSED = [
    ({"clock_mhz": 1000.0}, "clock_mhz: 1000 is above 685, where 22 nm ends (1 V) for a design of 500 MHz at 0.8 V; "
     "for a design made for another clock, set technology.rated_mhz to that"),
    ({"technology.vdd_v": 0.65}, "technology.vdd_v: 0.65 allows 327 MHz to a design of 500 MHz at 0.8 V, and "
     "clock_mhz is 500, which needs 0.8; for a design with another point, set technology.rated_mhz and "
     "technology.rated_v"),
    ({"clock_mhz": 600.0, "technology.vdd_v": 0.8}, "technology.vdd_v: 0.8 allows 500 MHz to a design of 500 MHz at "
     "0.8 V, and clock_mhz is 600, which needs 0.903; for a design with another point, set technology.rated_mhz and "
     "technology.rated_v"),
    ({"technology.vdd_v": 1.2}, "technology.vdd_v: 1.2 is outside 0.5 to 1, the range of 22 nm"),
    ({"technology.rated_v": 0.4}, "technology.rated_v: 0.4 is not above 0.41, the threshold of 22 nm"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), REFUSED)
def test_what_no_supply_gives_is_refused(changes: dict[str, float], said: str) -> None:
    with pytest.raises(HardwareError) as refused:
        change(hardware("edge-128"), changes)
    assert str(refused.value) == f"hardware: 1 fault: {said}"


def test_what_the_refusals_say_works() -> None:
    fastest = at("edge-128", clock_mhz=685.0)
    assert supply_v(fastest) == 1.0
    assert supply_v(at("edge-128", clock_mhz=1000.0, technology__rated_mhz=1000.0)) == 0.8
    slow = at("edge-128", technology__vdd_v=0.65, clock_mhz=327.0)
    assert (supply_v(slow), needed_v(slow)) == (0.65, 0.65)
    assert supply_v(at("edge-128", technology__rated_v=0.65)) == 0.65
    assert supply_v(at("edge-128", clock_mhz=600.0, technology__vdd_v=0.903)) == 0.903


def test_a_supply_that_is_given_wins_if_it_suffices() -> None:
    assert supply_v(at("edge-128", technology__vdd_v=0.9)) == 0.9
    assert supply_v(at("gap9", clock_mhz=100.0, technology__vdd_v=0.8)) == 0.8


def test_a_file_without_a_point_states_one(tmp_path: Path) -> None:
    """Its clock, and its supply if it gives one; a file that extends it moves from there."""
    own = tmp_path / "own.toml"
    own.write_text("clock_mhz = 200.0\n[technology]\nnode_nm = 22\nvdd_v = 0.6\n")
    faster = tmp_path / "faster.toml"
    faster.write_text('extends = "own.toml"\nclock_mhz = 300.0\n')
    chip = hardware(own)
    assert (supply_v(chip), chip.technology.rated_mhz, chip.technology.vdd_v) == (0.6, 200.0, None)
    expected = next(volts / 1000 for volts in range(600, 1000) if clock_at(volts / 1000, chip) >= 300)
    assert supply_v(hardware(faster)) == supply_v(change(chip, {"clock_mhz": 300.0})) == expected
    assert from_dict(to_dict(chip)) == chip


def test_a_rated_supply_outside_the_published_range_widens_it() -> None:
    old = from_dict(POINT | {"technology": {"node_nm": 22, "vdd_v": 1.2}})
    assert range_v(old) == (0.5, 1.2)
    assert fastest_mhz(old) == 500.0
    assert 0.8 < supply_v(change(old, {"clock_mhz": 400.0})) < 1.2
