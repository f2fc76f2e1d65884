"""Area: the sum written out, and nothing that helps is free."""

from __future__ import annotations

from importlib.resources import files

import pytest

import npusim
from npusim.isa.hardware.file import change, hardware, list_presets
from npusim.numbers.area import area

EDGE = hardware("edge-128")


def test_array_by_hand() -> None:
    # edge-128, 22 nm, 500 MHz: per multiplier 303 (9 x 9) + 136 (adder) + 59 registers of 2.93 um2, at 0.75 of the
    # 28 nm area, grown by 1 + 0.25 (500 / 1100)^2 for the clock.
    multiplier = 303 + 136 + (50 + 9) * 2.93
    by_hand = 128 * multiplier * 0.75 * (1 + 0.25 * (500 / 1100) ** 2) * 1e-6
    assert area(EDGE).by_component["mac_array"] == pytest.approx(by_hand)


def test_a_rescale_in_float32_by_hand() -> None:
    """A lane more: a shifter, three adders and twice 32 gates, no second multiplier; scaled as above."""
    without = change(EDGE, {"float32_rescale": False})
    lane = 122 + 3 * 136 + 2 * 24.7
    by_hand = 8 * lane * 0.75 * (1 + 0.25 * (500 / 1100) ** 2) * 1e-6
    more, fewer = (area(each).by_component["output_stage"] for each in (EDGE, without))
    assert more - fewer == pytest.approx(by_hand)


def test_every_assumption_is_called_one() -> None:
    for table in ("area.toml", "energy.toml"):
        assert "from memory" not in (files("npusim.numbers") / table).read_text("utf-8").lower()


GROWS = {
    "mac_array.rows": 32,
    "mac_array.columns": 16,
    "mac_array.accumulator_kib": 64,
    "mac_array.ifm_bytes_per_cycle": 64,
    "mac_array.weight_bytes_per_cycle": 64,
    "mac_array.output_lanes": 16,
    "vector.lanes": 32,
    "vector.add_cycles": 1,
    "vector.exp_cycles": 1,
    "vector.divide_cycles": 1,
    "vector.pool_cycles": 1,
    "vector.lut_cycles": 1,
    "vector.literal_cycles": 1,
    "vector.literal_divide_cycles": 1,
    "vector.fused_cycles": 1,
    "vector.quantise_cycles": 1,
    "scratchpad.size_kib": 4096,
    "scratchpad.banks": 64,
    "scratchpad.bank_ports": 4,
    "scratchpad.port_bytes": 32,
    "dma.channels": 4,
    "dma.port_bytes_per_cycle": 64,
    "dma.decoder_bytes_per_cycle": 16,
    "dma.burst_buffer_kib": 8,
    "dram.bandwidth_gb_per_s": 4,
    "dram.outstanding_requests": 64,
    "front_end.queue_depth": 64,
    "front_end.fetch_instructions": 16,
    "clock_mhz": 2000,
}


@pytest.mark.parametrize("path", GROWS)
def test_what_helps_costs_area(path: str) -> None:
    base = change(
        EDGE, {"vector.lut_cycles": 2, "vector.pool_cycles": 2} if path.startswith("vector") else {}
    )
    # A design for a fast clock, not a slow one at more volts.
    rated = {"technology.rated_mhz": GROWS[path]} if path == "clock_mhz" else {}
    more = change(base, {path: GROWS[path], **rated})
    assert area(more).total > area(base).total


@pytest.mark.parametrize("preset", list_presets())
def test_presets(preset: str) -> None:
    chip = hardware(preset)
    sizes = [area(change(chip, {"technology.node_nm": node})).total for node in (28, 22, 16, 7)]
    assert sizes == sorted(sizes, reverse=True)
    assert 0.3 < sizes[0] < 60
    found = area(chip)
    assert found.total == pytest.approx(sum(found.by_component.values()))
    without = {name for name, part in found.by_component.items() if not part}
    assert without == (set() if chip.has_dram else {"dram_interface"})


def test_in_the_json() -> None:
    plain = npusim.run("digits_cnn", timing_only=True).to_dict()
    assert plain["area_mm2"] == area(EDGE).to_dict()
    assert plain["edp_uj_ms"] == plain["energy_uj"]["total"] * plain["latency_ms"]
