"""Energy: every action priced on every node, prices as derived, parts that add up."""

from __future__ import annotations

import csv
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from npusim.isa.base.errors import NpusimError
from npusim.isa.hardware.file import change, hardware, list_presets
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.voltage import supply_v
from npusim.isa.instructions.actions import ACTIONS
from npusim.numbers.energy import (
    Energy,
    _table,
    dram_background_mw,
    dynamic_pj,
    energy,
    floor_mw,
    prices,
    standing_mw,
)

NODES = (28, 22, 16, 7)
DRAMS = ("lpddr4", "lpddr5", "lpddr3", "ddr3", "hbm2", "psram")
ON_CHIP = [action.name for action in ACTIONS if action.component != "dram"]


def chip(**changes: Any) -> Hardware:
    """edge-128 with changes by dotted path, dots written as two underscores."""
    return change(hardware("edge-128"), {path.replace("__", "."): value for path, value in changes.items()})


# The rows of the table by their published 45 nm value in pJ; 0.926 is three 32-bit operand registers.
REGISTERS = 96 * 0.009 * (45 / 40) ** 0.59
SHIFT = 0.417 * (45 / 40) ** 0.59
TO_FLOAT, QUOTIENT, TO_CODE = 0.2 + SHIFT + 3.7, 3 * (0.9 + 3.7), 3 * (0.9 + 3.7) + 0.6
AT_45_NM = {
    "mac_int8": 0.2 * (9 / 8) ** 2 + 0.1,
    "mac_float16": 1.1 + 0.9 + 64 * 0.009 * (45 / 40) ** 0.59,
    "mac_float32": 3.7 + 0.9 + 128 * 0.009 * (45 / 40) ** 0.59,
    "pe_register": 40 * 0.009 * (45 / 40) ** 0.59,
    "pe_idle": 0.02,
    "requantise": 3.1 + 0.6,
    "requantise_float32": 3.7 + 0.6 + 0.417 * (45 / 40) ** 0.59 + 0.1,
    "vector_add_q8": 11 + REGISTERS,
    "vector_mul_q8": 0.2 + 3.7 + REGISTERS,
    "vector_max": 0.032 + REGISTERS,
    "vector_add_i32": 0.1 + REGISTERS,
    "vector_pool_step": 0.1 + REGISTERS,
    "vector_divide": 15 + REGISTERS,
    "vector_lut": 0.5 + REGISTERS,
    "vector_exp": 10 + REGISTERS,
    **{
        f"vector_{element}_{effort}": price + registers
        for element, add, multiply, registers in (
            ("float16", 0.4, 1.1, REGISTERS / 2),
            ("float32", 0.9, 3.7, REGISTERS),
        )
        for effort, price in (
            ("add", add),
            ("multiply", multiply),
            ("divide", 3 * (add + multiply)),
            ("function", 6 * (add + multiply)),
        )
    },
    "vector_literal_add": 2 * TO_FLOAT + 0.9 + TO_CODE + REGISTERS,
    "vector_literal_mul": 2 * TO_FLOAT + 3.7 + TO_CODE + REGISTERS,
    "vector_literal_divide": 2 * TO_FLOAT + QUOTIENT + TO_CODE + REGISTERS,
    "vector_fused": 2 * (0.9 + 3.7) + 2 * (0.2 + SHIFT) + 0.6 + REGISTERS,
    "vector_dequantise": TO_FLOAT + 0.9 + REGISTERS,
    "vector_quantise": QUOTIENT + TO_CODE + REGISTERS,
    "vector_moments": 0.2 + 2 * 0.1 + REGISTERS,
    "weight_unpack": SHIFT + 0.1 + 0.526,
    "instruction_issue": 20,
}


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("dram", DRAMS)
def test_every_action_has_a_price_on_every_node(node: int, dram: str) -> None:
    table = prices(chip(technology__node_nm=node, technology__dram=dram))
    assert set(table) == {action.name for action in ACTIONS}
    assert all(pj > 0 for pj in table.values())


@pytest.mark.parametrize("column", range(len(NODES)))
def test_rows_are_their_45_nm_value_scaled(column: int) -> None:
    assert set(_table()["pj"]) == set(AT_45_NM)
    for name, row in _table()["pj"].items():
        expected = AT_45_NM[name] * (NODES[column] / 45) ** 0.59
        assert row[column] == pytest.approx(expected, rel=1e-3), name


def test_terms_are_their_45_nm_value_scaled() -> None:
    at_45_nm = {"accumulator_add_pj": 0.1, "wire_pj_per_byte_mm": 0.8, "system_pj_per_cycle": 61.0}
    for name, value in at_45_nm.items():
        for node, pj in zip(NODES, _table()["terms"][name], strict=True):
            assert pj == pytest.approx(value * (node / 45) ** 0.59, rel=1e-3), name


REFERENCE_ROWS = {
    # (component, event) of the reference: a price that equals it. The MAC differs (9 x 9 bits, not 8 x 8)
    # and so do the vector rows (operand registers included); they are checked against their derivation above.
    ("mac", "pe_registers_systolic"): "pe_register",
    ("mac", "idle_gated_pe"): "pe_idle",
    ("vector", "lane_requant"): "requantise",
    ("control", "instruction_issue"): "instruction_issue",
}


def test_prices_equal_the_reference_table(shared: Path) -> None:
    with (shared / "reference" / "energy_table.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "proposed" and row["node_nm"]]
    compared = 0
    for row in rows:
        name = REFERENCE_ROWS.get((row["component"], row["event"]))
        if name:
            table = prices(chip(technology__node_nm=int(row["node_nm"])))
            assert table[name] == pytest.approx(float(row["value"]), rel=5e-3), (name, row["node_nm"])
            compared += 1
    assert compared == len(REFERENCE_ROWS) * len(NODES)


def test_energy_falls_with_the_node() -> None:
    for large, small in pairwise(NODES):
        before = prices(chip(technology__node_nm=large))
        after = prices(chip(technology__node_nm=small))
        assert all(after[name] < before[name] for name in ON_CHIP)


@pytest.mark.parametrize(
    ("kib", "banks", "read", "write"),
    [  # examples of the reference data at 22 nm: 16, 64, 256 KiB and 1 MiB per bank
        (256, 16, 0.29, 0.57),
        (1024, 16, 0.68, 0.99),
        (4096, 16, 1.46, 1.83),
        (16384, 16, 3.01, 3.51),
    ],
)
def test_scratchpad_is_a_bank_and_a_wire(kib: int, banks: int, read: float, write: float) -> None:
    table = prices(chip(scratchpad__size_kib=kib, scratchpad__banks=banks))
    wire = sqrt(kib / 1024 * 1.2) / 2 * 0.5245
    assert table["scratchpad_read_byte"] - wire == pytest.approx(read, abs=0.006)
    assert table["scratchpad_write_byte"] - wire == pytest.approx(write, abs=0.006)


def test_scratchpad_energy_follows_size_banks_and_port() -> None:
    def read_pj(**changes: int) -> float:
        return prices(chip(**changes))["scratchpad_read_byte"]

    assert read_pj(scratchpad__size_kib=4096) > read_pj(scratchpad__size_kib=2048)
    assert read_pj(scratchpad__banks=32) < read_pj(scratchpad__banks=16)
    assert read_pj(scratchpad__port_bytes=8) > read_pj(scratchpad__port_bytes=16)
    assert read_pj(scratchpad__port_bytes=32) == read_pj(scratchpad__port_bytes=16)


def test_accumulator_update_by_hand() -> None:
    # 16 KiB in two halves and two groups of four columns: banks of 4 KiB.
    read, write = 0.25, 0.147 + 0.105 * 2
    expected = 0.06556 + 4 * (read + write)
    assert prices(hardware("edge-128"))["accumulator_update"] == pytest.approx(expected)


def test_burst_buffer_byte_by_hand() -> None:
    # Halves of 2 KiB, in and out: both at their floor.
    assert prices(hardware("edge-128"))["burst_buffer_byte"] == pytest.approx(0.25 + 0.35)
    assert prices(chip(dma__burst_buffer_kib=256))["burst_buffer_byte"] > 0.25 + 0.35


def test_a_rated_supply_scales_on_chip_dynamic_energy_only() -> None:
    """From the nominal supply, for which the prices hold; leakage holds at the rated one, whatever that is."""
    nominal, low = chip(), chip(technology__rated_v=0.65)
    for name, pj in prices(low).items():
        factor = (0.65 / 0.8) ** 2 if name in ON_CHIP else 1.0
        assert pj == pytest.approx(prices(nominal)[name] * factor), name
    assert energy({}, 1000, low).static == energy({}, 1000, nominal).static
    assert energy({}, 1000, low).dynamic == pytest.approx(
        energy({}, 1000, nominal).dynamic * (0.65 / 0.8) ** 2
    )


@pytest.mark.parametrize("changes", [{"clock_mhz": 600.0}, {"clock_mhz": 250.0}, {"technology__vdd_v": 0.95}])
def test_energy_follows_the_supply_wherever_it_comes_from(changes: dict[str, float]) -> None:
    """Switching goes as V^2, leakage as V^3, memories off the chip and prices that the file gives not at all."""
    rated, other = chip(), chip(**changes)
    ratio = supply_v(other) / 0.8
    assert abs(ratio - 1) > 0.1
    for name, pj in prices(other).items():
        assert pj == pytest.approx(prices(rated)[name] * (ratio**2 if name in ON_CHIP else 1.0)), name
    before, after = standing_mw(rated), standing_mw(other)
    clock = other.clock_mhz / rated.clock_mhz
    for name, power in after.items():
        factor = {"dram": 1.0, "system": ratio**2 * clock}.get(name, ratio**3)
        assert power == pytest.approx(before[name] * factor), name
    given = chip(scratchpad__standby_mw=1.0, **changes)
    assert standing_mw(given)["scratchpad"] == 1.0


def test_the_rest_of_the_chip_may_be_given() -> None:
    """So many picojoules in each cycle at the nominal voltage; the table's 39.99 at 22 nm if nothing is said."""
    actions = {"mac_int8": 1000.0}
    table, given, low = (
        chip(**changes)
        for changes in (
            {},
            {"technology__system_pj_per_cycle": 104.0},
            {"technology__system_pj_per_cycle": 104.0, "technology__rated_v": 0.65},
        )
    )
    more = energy(actions, 10_000, given).total - energy(actions, 10_000, table).total
    assert more == pytest.approx((104.0 - 39.99) * 0.01)
    assert energy(actions, 10_000, given).by_component["system"] == pytest.approx(1.04)
    assert energy(actions, 10_000, low).by_component["system"] == pytest.approx(1.04 * (0.65 / 0.8) ** 2)
    assert floor_mw(given) - floor_mw(table) == pytest.approx((104.0 - 39.99) * 0.5)


def test_a_hardware_file_prices_its_memories_itself() -> None:
    """In place of the energy table's, at any voltage; what a row costs to open stays the table's."""
    own = {"read_pj_per_byte": 0.5, "write_pj_per_byte": 0.75, "standby_mw": 0.25}
    given = chip(
        technology__rated_v=0.7,
        **{f"{table}__{key}": value for table in ("scratchpad", "dram") for key, value in own.items()},
    )
    table = chip(technology__rated_v=0.7)
    names = [f"{memory}_{way}_byte" for memory in ("scratchpad", "dram") for way in ("read", "write")]
    assert [prices(given)[name] for name in names] == [0.5, 0.75] * 2
    assert {name for name in prices(table) if prices(table)[name] != prices(given)[name]} == set(names)
    assert standing_mw(given)["scratchpad"] == standing_mw(given)["dram"] == dram_background_mw(given) == 0.25
    actions = {"scratchpad_read_byte": 1e6, "dram_write_byte": 1e6}
    spent = energy(actions, 0, given).by_component
    assert (spent["scratchpad"], spent["dram"]) == (0.5, 0.75)


def test_dram_prices_follow_kind_row_and_width() -> None:
    lpddr4 = chip(technology__dram="lpddr4", dram__row_bytes=2048)
    assert prices(lpddr4)["dram_read_byte"] == 65.0
    assert prices(lpddr4)["dram_write_byte"] == 61.0
    assert prices(lpddr4)["dram_activate"] == 1740.0
    small_rows = chip(technology__dram="lpddr4", dram__row_bytes=1024)
    assert prices(small_rows)["dram_activate"] == 870.0
    assert dram_background_mw(lpddr4) == pytest.approx(53.7)
    wide = chip(technology__dram="lpddr4", dram__bandwidth_gb_per_s=30.0)
    assert dram_background_mw(wide) == pytest.approx(4 * 53.7)


COUNTS = {
    action.name: count
    for action, count in zip(ACTIONS, range(1_000_000, 100_000_000, 1_000_000), strict=False)
}


@pytest.mark.parametrize("name", list_presets())
def test_parts_and_components_add_up(name: str) -> None:
    spent = energy(COUNTS, 123_456, hardware(name), host_energy_uj=17.5)
    assert spent.total == pytest.approx(spent.dynamic + spent.static + spent.dram + spent.host)
    assert spent.total == pytest.approx(sum(spent.by_component.values()))
    assert spent.host == spent.by_component["host"] == 17.5
    memories = {memory.name: memory for memory in hardware(name).memory}
    off_chip = ["dram", *(each for each in memories if not memories[each].on_chip)]
    assert spent.dram == pytest.approx(sum(spent.by_component[each] for each in off_chip))
    parts = {action.component for action in ACTIONS}
    assert set(spent.by_component) == parts | set(memories) | {"system", "host"}


@pytest.mark.parametrize("name", list_presets())
def test_a_run_is_its_actions_its_floor_and_its_host(name: str) -> None:
    chip = hardware(name)
    spent = energy(COUNTS, 123_456, chip, host_energy_uj=17.5)
    floor_uj = floor_mw(chip) * chip.us_of_cycles(123_456) * 1e-3
    assert spent.total == pytest.approx(dynamic_pj(COUNTS, chip) * 1e-6 + floor_uj + 17.5)


def test_energy_of_a_tiny_run_by_hand() -> None:
    # 22 nm, 500 MHz, 1000 cycles = 2 us
    spent = energy({"mac_int8": 2_000_000, "dram_read_byte": 1000}, 1000, hardware("edge-128"))
    # SRAM with the two burst buffers of 4 KiB, multipliers, lanes
    leakage_mw = (2048 + 16 + 2 * 4) * 1e-3 + 128 * 1e-3 + (8 + 8) * 3e-3
    assert spent == Energy(
        dynamic=pytest.approx(2 * 0.2315 + 39.99e-3),
        static=pytest.approx(leakage_mw * 2e-3),
        dram=pytest.approx(0.160 + 0.54 * 2e-3),
        host=0.0,
        by_component={
            "system": pytest.approx(39.99e-3),
            "mac_array": pytest.approx(2 * 0.2315 + 128e-3 * 2e-3),
            "accumulator": pytest.approx(16e-3 * 2e-3),
            "output_stage": pytest.approx(24e-3 * 2e-3),
            "vector": pytest.approx(24e-3 * 2e-3),
            "scratchpad": pytest.approx(2048e-3 * 2e-3),
            "interconnect": pytest.approx(8e-3 * 2e-3),
            "dram": pytest.approx(0.160 + 0.54 * 2e-3),
            "host": 0.0,
        },
    )


def test_leakage_is_that_of_measured_chips() -> None:
    """GAP9: 1.6 MB of SRAM, 1.95..2.8 mW static."""
    gap9 = chip(scratchpad__size_kib=1600, scratchpad__banks=16)
    static_mw = energy({}, 500_000_000, gap9).static * 1e-3  # one second
    assert 1.0 < static_mw < 2.8


def test_half_the_clock_at_one_supply_adds_only_static_energy() -> None:
    full, half = chip(technology__vdd_v=0.8), chip(technology__vdd_v=0.8, clock_mhz=250.0)
    fast, slow = energy(COUNTS, 100_000, full), energy(COUNTS, 100_000, half)
    assert slow.dynamic == fast.dynamic
    assert slow.static == pytest.approx(2 * fast.static)


@pytest.mark.parametrize("count", [energy, dynamic_pj])
@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("mac_int16", r'^energy: no price for the action "mac_int16"; did you mean mac_int8\?$'),
        ("teleport", r'^energy: no price for the action "teleport"; known: mac_int8, '),
    ],
)
def test_an_unknown_action_is_an_error_even_if_never_counted(count: Any, action: str, said: str) -> None:
    arguments = ({action: 0}, 1, chip()) if count is energy else ({action: 0}, chip())
    with pytest.raises(NpusimError, match=said):
        count(*arguments)
