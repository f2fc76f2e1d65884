"""Supply voltage that a clock needs, by the alpha-power law of the process node.

    clock / rated clock = ((V - Vt)^1.3 / V) / ((Vr - Vt)^1.3 / Vr)

A gate's delay goes as V / (V - Vt)^alpha: Sakurai and Newton, "Alpha-power law MOSFET model and its applications to
CMOS inverter delay", IEEE JSSC 25(2), 1990, with alpha about 1.3 for short channels. Vr is the supply for which a
design states its clock, so the law only says how a clock moves from there: a design that is slower than its node
allows keeps that distance. Vt is fitted on published tables of voltage and clock, see `NODES`; a real threshold is
lower, because such tables hold margins for temperature, ageing and supply noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.isa.hardware.hardware import Hardware

ALPHA = 1.3
MILLIVOLTS = 1000
HALVINGS = 60
"""Steps of the bisection: more than a double has bits."""


@dataclass(frozen=True, slots=True)
class Node:
    """Voltages of a process node.

    nominal_v:   supply for which the energy table holds, and a design is rated unless its file says otherwise.
    threshold_v: Vt of the law.
    least_v, most_v: the range of the published tables; outside it the law is not used.
    """

    nominal_v: float
    threshold_v: float
    least_v: float
    most_v: float


NODES = MappingProxyType(
    {
        # Rockchip RK3399, torvalds/linux rk3399-opp.dtsi: Mali-T860, Cortex-A72 and A53, 14 points of 0.825 to 1.2 V;
        # clocks are within 2.3 % (root mean square), the worst 5 %. 0.8 V is the least supply there.
        28: Node(nominal_v=0.9, threshold_v=0.57, least_v=0.8, most_v=1.2),
        # Marsellus in 22FDX (Conti et al., JSSC 2023): 100 MHz at 0.5 V, 420 MHz at 0.8 V, both recalled, not checked.
        # GAP9, which the fit has not seen, is within 1 % (tests/isa/test_voltage.py). RK3568's NPU (android-rockchip
        # rk3568.dtsi, 22 nm but no FDX) is steeper: 0.875 to 1 V give it 1.67 times the clock, the law 1.19. Most: its.
        22: Node(nominal_v=0.8, threshold_v=0.41, least_v=0.5, most_v=1.0),
        # MediaTek MT8183 (12 nm, a 16 nm derivative), mt8183.dtsi: Mali-G72, Cortex-A53 and A73, 48 points of 0.625 to
        # 1.05 V; 4.6 %, the worst 14 %, in the GPU at its lowest clocks.
        16: Node(nominal_v=0.8, threshold_v=0.48, least_v=0.65, most_v=1.05),
        # MediaTek MT8192, mt8192.dtsi: Mali-G57, 16 points of 0.606 to 0.8 V; 2.6 %, the worst 5 %.
        7: Node(nominal_v=0.75, threshold_v=0.47, least_v=0.6, most_v=0.8),
    }
)


def nominal_v(hardware: Hardware) -> float:
    """The supply for which the energy table of the node holds."""
    return NODES[hardware.technology.node_nm].nominal_v


def rated_v(hardware: Hardware) -> float:
    """The supply for which the hardware file states its rated clock: the node's nominal unless it says otherwise."""
    given = hardware.technology.rated_v
    return nominal_v(hardware) if given is None else given


def rated_mhz(hardware: Hardware) -> float:
    """The clock that the design reaches at `rated_v`: the clock itself if the hardware states no other."""
    return hardware.technology.rated_mhz or hardware.clock_mhz


def with_rated_point(hardware: Hardware) -> Hardware:
    """The hardware with a rated point: its clock, and its supply if given, unless it states a point already.

    Without one, a later change of the clock would have nothing to start from.
    """
    technology = hardware.technology
    if technology.rated_mhz is not None:
        return hardware
    point: dict[str, float | None] = {"rated_mhz": hardware.clock_mhz}
    if technology.rated_v is None:
        # The supply of this very clock: part of the point, not a demand on every other clock.
        point |= {"rated_v": technology.vdd_v, "vdd_v": None}
    return hardware.model_copy(update={"technology": technology.model_copy(update=point)})


def supply_v(hardware: Hardware) -> float:
    """The supply in V at the clock of the hardware: `vdd_v` if given, else the least whole millivolt by the law.

    Below the clock that the node's least supply allows, it stays there.
    """
    given = hardware.technology.vdd_v
    return needed_v(hardware) if given is None else given


def needed_v(hardware: Hardware) -> float:
    """The least supply in V that suffices for the clock by the law, within the node's range."""
    rated, mhz = rated_v(hardware), rated_mhz(hardware)
    if hardware.clock_mhz == mhz:
        return rated
    least, most = range_v(hardware)
    return _needed_v(
        NODES[hardware.technology.node_nm].threshold_v, rated, hardware.clock_mhz / mhz, least, most
    )


@lru_cache(maxsize=256)
def _needed_v(threshold: float, rated: float, ratio: float, least: float, most: float) -> float:
    wanted = ratio * _speed(rated, threshold)
    low, high = least, most
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _speed(middle, threshold) < wanted else (low, middle)
    return ceil(round(high * MILLIVOLTS, 6)) / MILLIVOLTS


def _speed(volts: float, threshold: float) -> float:
    speed: float = max(volts - threshold, 0.0) ** ALPHA / volts
    return speed


def range_v(hardware: Hardware) -> tuple[float, float]:
    """The least and the most supply in V: those of the node, and the rated one if it is outside."""
    node, rated = NODES[hardware.technology.node_nm], rated_v(hardware)
    return min(node.least_v, rated), max(node.most_v, rated)


def clock_at(volts: float, hardware: Hardware) -> float:
    """The fastest clock in MHz at a supply, by the law from the rated point."""
    threshold = NODES[hardware.technology.node_nm].threshold_v
    return rated_mhz(hardware) * _speed(volts, threshold) / _speed(rated_v(hardware), threshold)


def fastest_mhz(hardware: Hardware) -> float:
    """The fastest clock in whole MHz, at the most supply of the node; never below the rated one."""
    return max(rated_mhz(hardware), float(int(clock_at(range_v(hardware)[1], hardware))))


# Rules of a hardware file: the fault, or None


def rated_fault(hardware: Hardware) -> str | None:
    """A supply that no gate of the node switches at states no clock."""
    node, rated = hardware.technology.node_nm, rated_v(hardware)
    threshold = NODES[node].threshold_v
    return None if rated > threshold else f"{rated:g} is not above {threshold:g}, the threshold of {node} nm"


def clock_fault(hardware: Hardware) -> str | None:
    """A clock above the one that the most supply of the node gives is not reached."""
    fastest = fastest_mhz(hardware)
    if hardware.clock_mhz <= fastest:
        return None
    return (
        f"{hardware.clock_mhz:g} is above {fastest:g}, where {hardware.technology.node_nm} nm ends "
        f"({range_v(hardware)[1]:g} V) for a design of {_point(hardware)}; "
        "for a design made for another clock, set technology.rated_mhz to that"
    )


def supply_fault(hardware: Hardware) -> str | None:
    """A supply that is given suffices for the clock, and the node takes it."""
    given, (least, most) = hardware.technology.vdd_v, range_v(hardware)
    if given is None:
        return None
    if not least <= given <= most:
        return f"{given:g} is outside {least:g} to {most:g}, the range of {hardware.technology.node_nm} nm"
    if given >= needed_v(hardware):
        return None
    return (
        f"{given:g} allows {int(clock_at(given, hardware))} MHz to a design of {_point(hardware)}, and clock_mhz is "
        f"{hardware.clock_mhz:g}, which needs {needed_v(hardware):g}; for a design with another point, set "
        "technology.rated_mhz and technology.rated_v"
    )


def _point(hardware: Hardware) -> str:
    return f"{rated_mhz(hardware):g} MHz at {rated_v(hardware):g} V"
