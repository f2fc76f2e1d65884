"""Constants of the Ethos-U55 presets that no document states: what rows of single operators say, all and all but one.

Each is the median over rows of Vela's layer table; leaving out the rows of one network after the other shows how much
of it hangs on that network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from statistics import median

from benchmarks.silicon.frame import Fit
from benchmarks.silicon.vela_tables import layer_rows
from npusim.isa.hardware.file import hardware
from npusim.isa.hardware.hardware import Hardware

Row = Mapping[str, str]


def fits(preset: str) -> Iterator[Fit]:
    """Those of a preset. Raises `benchmarks.peers.Missing`."""
    rows = [row for row in layer_rows() if row["accelerator"] == preset]
    chip = hardware(preset)
    yield _fit("vector.reduce_cycles", chip.vector.reduce_cycles, rows, _reduce, chip)
    yield _fit("vector.exp_cycles", chip.vector.exp_cycles, rows, _exponential, chip)


def _fit(
    key: str,
    value: float,
    rows: Sequence[Row],
    says: Callable[[Row, Hardware], float | None],
    chip: Hardware,
) -> Fit:
    by_network: dict[str, list[float]] = {}
    for row in rows:
        said = says(row, chip)
        if said is not None:
            by_network.setdefault(row["model"], []).append(said)
    every = [said for found in by_network.values() for said in found]
    without = [
        median([said for other, found in by_network.items() if other != network for said in found])
        for network in by_network
    ]
    return Fit(key, value, len(every), median(every), min(without), max(without))


def sizes(text: str) -> tuple[int, ...]:
    """The numbers of "8x8x16"."""
    return tuple(map(int, text.split("x")))


def _reduce(row: Row, chip: Hardware) -> float | None:
    """Cycles of an element and lane of a mean."""
    if (row["operator"], row["npu_operator"]) != ("Mean", "DepthwiseConv2D") or not row["ifm_hxwxc"]:
        return None
    return int(row["op_cycles"]) * chip.vector.lanes / prod(sizes(row["ifm_hxwxc"]))


def _exponential(row: Row, chip: Hardware) -> float | None:
    """Cycles of an exponential and lane of a softmax over many classes."""
    named = re.search(r"_c(\d+)$", row["model"])
    classes = int(named[1]) if named else 1001 if "mobilenet" in row["model"] else 0
    if row["operator"] != "Softmax" or classes < 1000:
        return None
    vector = chip.vector
    step = int(row["op_cycles"]) / -(-classes // vector.lanes)
    return (step - vector.max_cycles - vector.reduce_cycles - vector.requantise_cycles) / 2
