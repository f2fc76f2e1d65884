"""Constants of the Ethos-U55 presets that no document states: what rows of single operators say, all and all but one.

Each is the median over rows of Vela's layer table; leaving out the rows of one network after the other shows how much of
it hangs on that network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from statistics import median

from benchmarks.silicon import ethos_u55
from npusim.isa.engines.block.choice import chosen
from npusim.isa.engines.block.shape import block_shape
from npusim.isa.engines.block.timing import in_blocks
from npusim.isa.engines.engine import Problem
from npusim.isa.hardware.file import hardware
from npusim.isa.hardware.hardware import Hardware

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Fit:
    """A constant of a preset: its value, the median of rows, and the least and the most without one network."""

    preset: str
    key: str
    value: float
    rows: int
    median: float
    least: float
    most: float


def fits() -> Iterator[Fit]:
    """All of them. Raises `benchmarks.peers.Missing`."""
    rows = ethos_u55.layer_rows()
    for size in ethos_u55.SIZES:
        preset = f"ethos-u55-{size}"
        chip = hardware(preset)
        own = [row for row in rows if row["accelerator"] == preset]
        assert chip.mac_array.block is not None
        for key, value, says in (
            ("mac_array.block.start_cycles", chip.mac_array.block.start_cycles, _start),
            ("vector.reduce_cycles", chip.vector.reduce_cycles, _reduce),
            ("vector.exp_cycles", chip.vector.exp_cycles, _exponential),
        ):
            yield _fit(preset, key, value, own, says, chip)


def _fit(
    preset: str,
    key: str,
    value: float,
    rows: list[Row],
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
    return Fit(preset, key, value, len(every), median(every), min(without), max(without))


def problem(row: Row) -> Problem:
    """The problem of a convolution of the table."""
    (_, _, depth), outputs = sizes(row["ifm_hxwxc"]), sizes(row["ofm_hxwxc"])
    (down, across), kernel = sizes(row["stride_hxw"]), sizes(row["kernel_hxw"])
    return Problem(*outputs, depth, *kernel, across, 1, row["traversal"] == "Depthwise", down, 1)


def sizes(text: str) -> tuple[int, ...]:
    """The numbers of "8x8x16"."""
    return tuple(map(int, text.split("x")))


def bound_by_weights(row: Row) -> bool:
    """Whether the weights of a row may be what its cycles are: Vela counts loads that do not hide with them."""
    return int(row["op_cycles"]) < 1.05 * int(row["encoded_weight_bytes"])


def _start(row: Row, chip: Hardware) -> float | None:
    """What a convolution takes beyond its blocks."""
    kinds = ("Conv2D", "DepthwiseConv2D")
    if row["operator"] not in kinds or not row["ofm_block_hxwxc"] or bound_by_weights(row):
        return None
    shape, asked = block_shape(chip.mac_array)._replace(start_cycles=0), problem(row)
    block = chosen(shape, asked)
    assert block is not None
    found = in_blocks(shape, asked, block)
    waits = found.total > found.outputs or found.outputs > 1.1 * found.array
    return None if waits else int(row["op_cycles"]) - found.total


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
