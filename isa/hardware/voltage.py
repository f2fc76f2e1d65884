"""Supply voltage that a clock needs, by the alpha-power law of the process node.

    clock / rated clock = ((V - Vt)^1.3 / V) / ((Vr - Vt)^1.3 / Vr)

A gate's delay is proportional to V / (V - Vt)^alpha: Sakurai and Newton, "Alpha-power law MOSFET model and its
applications to CMOS inverter delay", IEEE JSSC 25(2), 1990, with alpha about 1.3 for short channels. Vr is the supply
for which a design states its clock. The law only scales that clock, so a design that is slower than its node allows
stays slower by the same factor. Vt is fitted on published tables of voltage and clock, see `NODES`; a real threshold
is lower, because such tables contain margins for temperature, ageing and supply noise.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING

from npusim.isa.base.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from npusim.isa.hardware.hardware import Hardware

ALPHA = 1.3
MILLIVOLTS = 1000
HALVINGS = 60
"""Steps of the bisection: more than the 53 bits of a double's significand, so it converges fully."""


@dataclass(frozen=True, slots=True)
class Node:
    """Supply and threshold voltages of a process node.

    nominal_v:   supply at which the energy table is valid; a design's rated supply unless its file states one.
    threshold_v: Vt of the law.
    least_v, most_v: supply range of the published tables; outside it the law is not used.
    """

    nominal_v: float
    threshold_v: float
    least_v: float
    most_v: float


NODES = MappingProxyType(
    {
        # Rockchip RK3399, torvalds/linux rk3399-opp.dtsi: Mali-T860, Cortex-A72 and A53, 14 points of 0.825 to 1.2 V;
        # fitted clocks are within 2.3 % (root mean square), the worst 5 %. 0.8 V is the lowest supply there.
        28: Node(nominal_v=0.9, threshold_v=0.57, least_v=0.8, most_v=1.2),
        # An estimate. The two points of the fit, 100 MHz at 0.5 V and 420 MHz at 0.8 V, are from memory of Marsellus
        # in 22FDX (Conti et al., JSSC 2023, arXiv 2305.08415); no text with them was at hand to check. GAP9, which is
        # no part of the fit, is within 1 % (tests/isa/test_voltage.py). RK3568's NPU (android-rockchip rk3568.dtsi,
        # 22 nm but no FDX) is steeper: from 0.875 to 1 V its clock grows 1.67 times, by the law 1.19 times. Its 1 V
        # is the highest supply.
        22: Node(nominal_v=0.8, threshold_v=0.41, least_v=0.5, most_v=1.0),
        # MediaTek MT8183 (12 nm, a 16 nm derivative), mt8183.dtsi: Mali-G72, Cortex-A53 and A73, 48 points of 0.625 to
        # 1.05 V; within 4.6 % (root mean square), the worst 14 %, in the GPU at its lowest clocks.
        16: Node(nominal_v=0.8, threshold_v=0.48, least_v=0.65, most_v=1.05),
        # MediaTek MT8192, mt8192.dtsi: Mali-G57, 16 points of 0.606 to 0.8 V; within 2.6 %, the worst 5 %.
        7: Node(nominal_v=0.75, threshold_v=0.47, least_v=0.6, most_v=0.8),
    }
)


def nominal_v(hardware: Hardware) -> float:
    """Return the supply in V at which the energy table of the node is valid."""
    return NODES[hardware.technology.node_nm].nominal_v


def rated_v(hardware: Hardware) -> float:
    """Return the supply in V at which the design reaches its rated clock: `rated_v`, else the node's nominal supply."""
    given = hardware.technology.rated_v
    return nominal_v(hardware) if given is None else given


def rated_mhz(hardware: Hardware) -> float:
    """Return the clock in MHz that the design reaches at its rated supply: `rated_mhz`, else its clock."""
    return hardware.technology.rated_mhz or hardware.clock_mhz


def with_rated_point(hardware: Hardware) -> Hardware:
    """Return the hardware with a rated point: the stated one, else its present clock and supply.

    A later change of the clock scales the supply from this point.
    """
    technology = hardware.technology
    if technology.rated_mhz is not None:
        return hardware
    point: dict[str, float | None] = {"rated_mhz": hardware.clock_mhz}
    if technology.rated_v is None:
        # `vdd_v` was given for this clock: it is part of the rated point and must not fix the supply of other clocks.
        point |= {"rated_v": technology.vdd_v, "vdd_v": None}
    return hardware.model_copy(update={"technology": technology.model_copy(update=point)})


def supply_v(hardware: Hardware) -> float:
    """Return the supply in V at the clock of the hardware: `vdd_v`, else the lowest whole millivolt by the law.

    A clock slower than the lowest supply of the node allows does not lower the supply further.
    """
    given = hardware.technology.vdd_v
    return needed_v(hardware) if given is None else given


def needed_v(hardware: Hardware) -> float:
    """Return the lowest supply in V that suffices for the clock by the law, within the range of the node."""
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
    """Return the lowest and the highest supply in V: the range of the node, widened to include the rated supply."""
    node, rated = NODES[hardware.technology.node_nm], rated_v(hardware)
    return min(node.least_v, rated), max(node.most_v, rated)


def clock_at(volts: float, hardware: Hardware) -> float:
    """Return the fastest clock in MHz at a supply in V, by the law from the rated point."""
    threshold = NODES[hardware.technology.node_nm].threshold_v
    return rated_mhz(hardware) * _speed(volts, threshold) / _speed(rated_v(hardware), threshold)


def fastest_mhz(hardware: Hardware) -> float:
    """Return the fastest clock in whole MHz, at the highest supply of the node; never below the rated clock."""
    return max(rated_mhz(hardware), float(int(clock_at(range_v(hardware)[1], hardware))))


# Rules of a hardware file: the fault, or None


def rated_fault(hardware: Hardware) -> str | None:
    """Return the fault of a rated supply at or below the threshold, at which the law gives no clock."""
    node, rated = hardware.technology.node_nm, rated_v(hardware)
    threshold = NODES[node].threshold_v
    return None if rated > threshold else f"{rated:g} is not above {threshold:g}, the threshold of {node} nm"


def clock_fault(hardware: Hardware) -> str | None:
    """Return the fault of a clock that the highest supply of the node does not reach."""
    fastest = fastest_mhz(hardware)
    if hardware.clock_mhz <= fastest:
        return None
    return (
        f"{hardware.clock_mhz:g} is above {fastest:g}, where {hardware.technology.node_nm} nm ends "
        f"({range_v(hardware)[1]:g} V) for a design of {_point(hardware)}; "
        "for a design made for another clock, set technology.rated_mhz to that"
    )


def supply_fault(hardware: Hardware) -> str | None:
    """Return the fault of a given supply that is outside the range of the node or too low for the clock."""
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
