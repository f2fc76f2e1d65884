"""Energy after the run: action counts times a table, and static power times time.

    total   = dynamic + static + dram + host
    dynamic = sum(count * pJ per action) on chip + system pJ per cycle * cycles
    static  = leakage * time
    dram    = (bytes and row activations) * pJ + (standby + refresh) * time, of all memories off the chip
    host    = energy of the operators that the host runs, by the CPU model

The table is `energy.toml`, with the source of every number; a further memory (`[[memory]]`) may bring its own energy
per action. On-chip dynamic energy scales with (V / nominal V)^2 and leakage with (V / rated V)^3; off-chip energy does
not scale. V follows the clock (`npusim.isa.hardware.voltage`). Left out: voltage regulators, clock generators, static
power of the DRAM controller, and the host while it waits.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from math import ceil, sqrt
from pathlib import Path
from types import MappingProxyType
from typing import Any

from npusim.isa.base.errors import NpusimError, nearest
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.engines.kinds import engine_of
from npusim.isa.engines.mac_array import MOST_BITS
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import FIRST_FURTHER, UNPRICED, FurtherMemory, Port, Scratchpad, Space
from npusim.isa.hardware.voltage import nominal_v, rated_v, supply_v
from npusim.isa.instructions.actions import components, port_actions

# `activate_pj` of the table is for a DRAM row of this size; the energy of other sizes is proportional.
PRICED_ROW_BYTES = 2048
# The fit of SRAM energy per byte is for a port of this width.
PRICED_PORT_BYTES = 16


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of one run in microjoules.

    dynamic:      energy of actions on the chip.
    static:       leakage of the chip.
    dram:         traffic, standby and refresh of all memories off the chip.
    host:         operators that the CPU ran.
    by_component: the same energy by component; its values add up to `total`.
    """

    dynamic: float
    static: float
    dram: float
    host: float
    by_component: Mapping[str, float]

    @property
    def total(self) -> float:
        """The sum of dynamic, static, dram and host energy, in uJ."""
        return self.dynamic + self.static + self.dram + self.host


def energy(
    actions: Mapping[str, float], cycles: float, hardware: Hardware, host_energy_uj: float = 0.0
) -> Energy:
    """Return the energy of a run.

    actions: counts by name of the action; cycles: duration of the run in NPU cycles.
    Raises NpusimError for an action that the table does not price.
    """
    time_us = hardware.us_of_cycles(cycles)
    # mW * us = nJ
    static = {component: power * time_us * 1e-3 for component, power in _leakage_mw(hardware).items()}
    standing_dram = dram_background_mw(hardware) * time_us * 1e-3
    moving = {"system": _system_pj_per_cycle(hardware) * cycles * 1e-6}
    table, component = prices(hardware), components(hardware)
    for name, count in actions.items():
        action_uj = count * _price(name, table) * 1e-6
        moving[component[name]] = moving.get(component[name], 0.0) + action_uj
    off_chip = {"dram": moving.pop("dram", 0.0) + standing_dram}
    for memory in hardware.memory:
        if not memory.on_chip:
            standing = memory_standby_mw(memory, hardware) * time_us * 1e-3
            off_chip[memory.name] = moving.pop(memory.name, 0.0) + standing
    dram = sum(off_chip.values())
    by_component = {
        name: moving.get(name, 0.0) + static.get(name, 0.0) for name in dict.fromkeys([*moving, *static])
    }
    by_component |= off_chip | {"host": host_energy_uj}
    return Energy(
        dynamic=sum(moving.values()),
        static=sum(static.values()),
        dram=dram,
        host=host_energy_uj,
        by_component=by_component,
    )


def sum_of(energies: Sequence[Energy]) -> Energy:
    """Return the sum of several energies, component by component."""
    components = dict.fromkeys(name for addend in energies for name in addend.by_component)
    return Energy(
        dynamic=sum(addend.dynamic for addend in energies),
        static=sum(addend.static for addend in energies),
        dram=sum(addend.dram for addend in energies),
        host=sum(addend.host for addend in energies),
        by_component={
            name: sum(addend.by_component.get(name, 0.0) for addend in energies) for name in components
        },
    )


def dynamic_pj(actions: Mapping[str, float], hardware: Hardware) -> float:
    """Return the energy of actions in pJ, DRAM traffic included.

    The energy of a whole run is this, plus `floor_mw` times its duration, plus the host's energy.
    """
    table = prices(hardware)
    return sum(count * _price(name, table) for name, count in actions.items())


def standing_mw(hardware: Hardware) -> dict[str, float]:
    """Return the power in mW that is drawn in every cycle, by component: system, leakage, DRAM standby and refresh."""
    system_mw = _system_pj_per_cycle(hardware) * hardware.clock_mhz * 1e-3
    off_chip = {part.name: memory_standby_mw(part, hardware) for part in hardware.memory if not part.on_chip}
    return {"system": system_mw, **_leakage_mw(hardware), "dram": dram_background_mw(hardware), **off_chip}


def floor_mw(hardware: Hardware) -> float:
    """Return the total power in mW that is drawn in every cycle (sum of `standing_mw`)."""
    return sum(standing_mw(hardware).values())


def dram_background_mw(hardware: Hardware) -> float:
    """Return the standby and refresh power in mW of as many DRAM dies as the bandwidth needs; 0 without a DRAM."""
    if not hardware.has_dram:
        return 0.0
    if hardware.dram.standby_mw is not None:
        return hardware.dram.standby_mw
    return _background_mw(hardware.technology.dram, hardware.dram.bandwidth_gb_per_s)


def memory_standby_mw(memory: FurtherMemory, hardware: Hardware) -> float:
    """Return the standby power of a further memory in mW, from the hardware file, else from the energy table."""
    if memory.standby_mw is not None:
        return memory.standby_mw
    if not memory.on_chip:
        return _background_mw(memory.kind, memory.gb_per_s(hardware.clock_mhz))
    return _leaking_mw("sram_per_kib", hardware) * memory.size_kib


def _background_mw(kind: str, gb_per_s: float) -> float:
    row = _dram_row(kind)
    dies = ceil(gb_per_s / row["die_gb_per_s"])
    return dies * (row["background_mw"] + row["refresh_mw"])


@lru_cache(maxsize=256)
def prices(hardware: Hardware) -> Mapping[str, float]:
    """Return the energy of every action on this hardware, in pJ by name of the action."""
    table, column = _table(), _column(hardware)
    voltage = _voltage_factor(hardware)
    wire = table["terms"]["wire_pj_per_byte_mm"][column]
    read, write = _scratchpad_pj_per_byte(hardware)
    on_chip = {name: row[column] for name, row in table["pj"].items()}
    on_chip |= {
        "mac_bit": (on_chip["mac_int8"] + on_chip["pe_register"]) / MOST_BITS,
        "accumulator_update": _accumulator_pj(hardware),
        "scratchpad_read_byte": read,
        "scratchpad_write_byte": write,
        "noc_byte": wire * table["terms"]["dram_port_mm"],
        # Each byte is written to and read from one of the two halves of the buffer.
        "burst_buffer_byte": sum(
            _sram_pj_per_byte(hardware.dma.burst_buffer_kib / 2, PRICED_PORT_BYTES, hardware)
        ),
    }
    priced = {name: pj * voltage for name, pj in on_chip.items()}
    priced |= _given(hardware.scratchpad, "scratchpad_read_byte", "scratchpad_write_byte")
    ports = _port_prices(hardware, Space.DRAM, _dram_pj(hardware))
    for space, memory in zip(hardware.spaces[FIRST_FURTHER:], hardware.memory, strict=True):
        ports |= _port_prices(hardware, space, _memory_pj(memory, hardware))
    return MappingProxyType(priced | ports)


def _given(memory: Scratchpad | Port, read: str, write: str) -> dict[str, float]:
    """Return the energies per byte that the hardware file states, in pJ, by the given names of read and write."""
    given = {read: memory.read_pj_per_byte, write: memory.write_pj_per_byte}
    return {name: pj for name, pj in given.items() if pj is not None}


def _dram_pj(hardware: Hardware) -> tuple[float, float, float]:
    """Return the DRAM's pJ per byte read, byte written and row opened, from the hardware file or the energy table."""
    read, write, activate = _off_chip_pj(hardware.technology.dram, hardware.dram)
    given = _given(hardware.dram, "read", "write")
    return given.get("read", read), given.get("write", write), activate


def _port_prices(
    hardware: Hardware, space: Space, pj: tuple[float | None, float | None, float]
) -> dict[str, float]:
    """Return the energies of a port's actions in pJ, by name of the action.

    pj: of a byte read, a byte written and a row opened; an action with None is left out.
    """
    named = zip(port_actions(hardware, space), pj, strict=True)
    return {name: price for name, price in named if name is not None and price is not None}


def _off_chip_pj(kind: str, port: Port) -> tuple[float, float, float]:
    """Return an off-chip memory's pJ per byte read, byte written and row opened, with its interface."""
    row = _dram_row(kind)
    return (
        row["read_pj_per_byte"] + row["phy_pj_per_byte"],
        row["write_pj_per_byte"] + row["phy_pj_per_byte"],
        row["activate_pj"] * port.row_bytes / PRICED_ROW_BYTES,
    )


def _memory_pj(memory: FurtherMemory, hardware: Hardware) -> tuple[float | None, float | None, float]:
    """Return a further memory's pJ per byte read, byte written and row opened.

    They come from the hardware file, else from the energy table, which prices an SRAM as one bank.
    """
    given = memory.read_pj_per_byte, memory.write_pj_per_byte
    if memory.kind in UNPRICED:
        return *given, 0.0
    if memory.on_chip:
        voltage = _voltage_factor(hardware)
        read, write = _sram_and_wire_pj(memory.size_kib, 1, memory.burst_bytes, hardware)
        priced = read * voltage, write * voltage, 0.0
    else:
        priced = _off_chip_pj(memory.kind, memory)
    read, write = (own if own is not None else table for own, table in zip(given, priced[:2], strict=True))
    return read, write, priced[2]


@cache
def _table() -> dict[str, Any]:
    with (Path(__file__).parent / "energy.toml").open("rb") as file:
        return tomllib.load(file)


def _column(hardware: Hardware) -> int:
    """Return the index of the table's column for the process node."""
    nodes: list[int] = _table()["nodes_nm"]
    return nodes.index(hardware.technology.node_nm)


def _dram_row(kind: str) -> dict[str, float]:
    row: dict[str, float] = _table()["dram"][kind]
    return row


def _voltage_factor(hardware: Hardware) -> float:
    """Return the factor on dynamic energy: (V / nominal V)^2, because the table holds at the node's nominal supply."""
    ratio: float = (supply_v(hardware) / nominal_v(hardware)) ** 2
    return ratio


def _leaking_mw(row: str, hardware: Hardware) -> float:
    """Return the leakage of one circuit of a table row in mW: proportional to V^3, as in Arm's power model of a Mali.

    V is relative to the rated supply, not the nominal one: the table's figures come from chips at two supplies each.
    """
    microwatts: float = _table()["leakage_uw"][row][_column(hardware)]
    ratio: float = (supply_v(hardware) / rated_v(hardware)) ** 3
    return microwatts * 1e-3 * ratio


def _system_pj_per_cycle(hardware: Hardware) -> float:
    given = hardware.technology.system_pj_per_cycle
    pj: float = _table()["terms"]["system_pj_per_cycle"][_column(hardware)] if given is None else given
    return pj * _voltage_factor(hardware)


def _sram_pj_per_byte(bank_kib: float, port_bytes: int, hardware: Hardware) -> tuple[float, float]:
    """Return the energy in pJ per byte read and per byte written of one SRAM bank, at the nominal supply.

    It is max(floor, const + slope * sqrt(KiB)), fitted to CACTI 7 (`energy.toml`). A port narrower than the fitted one
    costs sqrt(16 / bytes) as much per byte; a wider one costs the same.
    """
    fit = _table()["sram"]
    factor = fit["node_factor"][_column(hardware)] * sqrt(max(1.0, PRICED_PORT_BYTES / port_bytes))
    read = max(fit["read_floor"], fit["read_const"] + fit["read_slope"] * sqrt(bank_kib))
    write = max(fit["write_floor"], fit["write_const"] + fit["write_slope"] * sqrt(bank_kib))
    return read * factor, write * factor


def _scratchpad_pj_per_byte(hardware: Hardware) -> tuple[float, float]:
    scratchpad = hardware.scratchpad
    return _sram_and_wire_pj(scratchpad.size_kib, scratchpad.banks, scratchpad.port_bytes, hardware)


def _sram_and_wire_pj(size_kib: int, banks: int, port_bytes: int, hardware: Hardware) -> tuple[float, float]:
    """Return the energy of one SRAM bank and of the wire to it, on average from the edge of a square to its middle."""
    terms, column = _table()["terms"], _column(hardware)
    read, write = _sram_pj_per_byte(size_kib / banks, port_bytes, hardware)
    side_mm = sqrt(size_kib / 1024 * terms["sram_mm2_per_mib"][column])
    wire = side_mm / 2 * terms["wire_pj_per_byte_mm"][column]
    return read + wire, write + wire


def _accumulator_pj(hardware: Hardware) -> float:
    """Return the energy of one accumulator update: read and write four bytes of a bank, and a 32-bit add."""
    array = hardware.mac_array
    banks = engine_of(array).circuits(array).accumulator_banks
    read, write = _sram_pj_per_byte(array.accumulator_kib / banks, PRICED_PORT_BYTES, hardware)
    add: float = _table()["terms"]["accumulator_add_pj"][_column(hardware)]
    return add + 4 * (read + write)


def _leakage_mw(hardware: Hardware) -> dict[str, float]:
    """Return the leakage in mW by component."""
    sram, mac, lane = (_leaking_mw(row, hardware) for row in ("sram_per_kib", "mac", "lane"))
    return {
        "mac_array": mac * engine_of(hardware.mac_array).circuits(hardware.mac_array).multipliers,
        "accumulator": sram * hardware.mac_array.accumulator_kib,
        "output_stage": lane * hardware.mac_array.output_lanes,
        "vector": lane * hardware.vector.lanes,
        "scratchpad": _scratchpad_standby_mw(hardware, sram),
        "interconnect": sram * hardware.dma.channels * hardware.dma.burst_buffer_kib,
        **{memory.name: memory_standby_mw(memory, hardware) for memory in hardware.memory if memory.on_chip},
    }


def _scratchpad_standby_mw(hardware: Hardware, per_kib: float) -> float:
    given = hardware.scratchpad.standby_mw
    return per_kib * hardware.scratchpad.size_kib if given is None else given


def _price(action: str, table: Mapping[str, float]) -> float:
    """Return the energy of an action in pJ. Raises NpusimError for an unknown action, so that none is free."""
    if action not in table:
        near = nearest(action, table)
        hint = f"did you mean {near}?" if near else f"known: {', '.join(table)}"
        raise NpusimError(f'energy: no price for the action "{action}"; {hint}')
    return table[action]
