"""What holds of every run, whatever the model and the hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RELATIVE = 1e-9
"""By how much sums of floating-point numbers may miss."""


def broken(result: Mapping[str, Any]) -> list[str]:
    """What does not hold of a run, given as the dict of its JSON."""
    found = []
    cycles, bound = result["cycles"]["total"], result["lower_bound_cycles"]
    if cycles < bound:
        found.append(f"{cycles} cycles, the lower bound is {bound}")
    if bound + sum(result["lost_cycles"].values()) != cycles:
        found.append(f"{cycles} cycles are not the bound {bound} and the losses {result['lost_cycles']}")
    found += _layers(result, cycles)
    found += _power_and_energy(result)
    return found


def _layers(result: Mapping[str, Any], cycles: int) -> list[str]:
    layers, found = result["layers"], []
    for layer in layers:
        if layer["lower_bound_cycles"] + sum(layer["lost_cycles"].values()) != layer["cycles"]:
            found.append(f"layer {layer['name']}: {layer['cycles']} cycles are not its bound and its losses")
        if not 0 <= layer["utilization"] <= 1:
            found.append(f"layer {layer['name']}: utilization {layer['utilization']}")
    if layers and sum(layer["cycles"] for layer in layers) != cycles:
        found.append(f"{cycles} cycles, the layers have {sum(layer['cycles'] for layer in layers)}")
    if not 0 <= result["mac_utilization"] <= 1:
        found.append(f"utilization {result['mac_utilization']}")
    return found


def _power_and_energy(result: Mapping[str, Any]) -> list[str]:
    energy, power, found = result["energy_uj"], result["power_mw"], []
    total = energy["total"]
    parts = {
        "parts": energy["dynamic"] + energy["static"] + energy["dram"] + energy["host"],
        "components": sum(energy["by_component"].values()),
        "layers": sum(layer["energy_uj"] for layer in result["layers"]) if result["layers"] else total,
    }
    found += [
        f"energy {total} uJ, its {name} add up to {value}"
        for name, value in parts.items()
        if not _close(total, value)
    ]
    if not _close(power["average"] * result["latency_ms"], total):
        found.append(f"{power['average']} mW over {result['latency_ms']} ms is not {total} uJ")
    for name, peak in power.items():
        if name.startswith("peak") and peak < power["average"] * (1 - RELATIVE):
            found.append(f"{name} {peak} mW is below the average {power['average']} mW")
    return found


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= RELATIVE * max(abs(a), abs(b))
