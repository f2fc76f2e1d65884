"""The bit-serial engine as a kind of MAC array (`npusim.isa.engines.bit_serial.timing`); a problem leaves no choice."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import ClassVar

from npusim.isa.base.cause import Cause
from npusim.isa.engines.bit_serial.timing import Shape, macs_per_cycle, occupancy, products_per_cycle
from npusim.isa.engines.engine import ArrayRule, Circuits, Engine, Layout, Problem, Use
from npusim.isa.engines.mac_array import MOST_BITS, MacArray


class BitSerial(Engine):
    """Blocks of pixels and channels, their weights bit by bit."""

    kind: ClassVar[str] = "bit_serial"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause(
            "serial_shape",
            "blocks and taps",
            "#1a8fa8",
            "inside the MAC array: pixels, taps or channels that a block or a step does not have",
            ("mac_array.bit_serial.side", "mac_array.bit_serial.input_channels"),
        ),
        Cause(
            "serial_load",
            "loads of steps",
            "#7cc3e6",
            "inside the MAC array: the pixels of a step are loaded before it multiplies",
            ("mac_array.bit_serial.start_cycles", "mac_array.bit_serial.step_cycles"),
        ),
        Cause(
            "serial_output",
            "output of blocks",
            "#cfe0f2",
            "inside the MAC array: it waits for the output stage, which empties each block",
            ("mac_array.bit_serial.output_cycles",),
        ),
    )

    def macs_per_cycle(self, array: MacArray) -> int:
        """With all weight bits that the array is said to have."""
        return macs_per_cycle(_shape(array))

    def width(self, array: MacArray) -> int:
        """The channels of a block."""
        return array.bit_serials.channels

    def fastest(self, array: MacArray, problem: Problem) -> Layout:
        """There is one."""
        return Layout()

    def misfits(self, array: MacArray, layout: Layout, by_channel: bool) -> list[str]:
        """It has no corners and no dataflows."""
        return [
            f"{name} {value}; it may be 0, the array works in blocks"
            for name, value in layout._asdict().items()
            if value
        ]

    def use(self, array: MacArray, problem: Problem, layout: Layout) -> Use:
        """The closed form."""
        found = occupancy(_shape(array), problem)
        return Use(found.total, found.steps, *found[4:])

    def split(self, array: MacArray, problem: Problem, layout: Layout) -> tuple[int, ...]:
        """One hindrance after the other."""
        found = occupancy(_shape(array), problem)
        return tuple(after - before for before, after in pairwise(accumulate(found[:4], max)))

    def circuits(self, array: MacArray) -> Circuits:
        """As many binary multipliers as eight times so many of 8 bits; one block of accumulators."""
        return Circuits(products_per_cycle(_shape(array)) // MOST_BITS, 1, 2)


def _shape(array: MacArray) -> Shape:
    return Shape(**dict(array.bit_serials), weight_bits=array.weight_bits)


def _multipliers(array: MacArray) -> str | None:
    products = products_per_cycle(_shape(array))
    if products >= MOST_BITS:
        return None
    serial = array.bit_serials
    return (
        f"{serial.input_channels} is too few: side x side x kernel_side x kernel_side x input_channels are {products} "
        f"binary multipliers, fewer than the {MOST_BITS} bits of a weight"
    )


def _no_reals(columns: int) -> str | None:
    return f"{columns}; a bit-serial array computes no reals" if columns else None


BitSerial.rules = (
    ArrayRule("bit_serial.input_channels", ("bit_serial.side", "bit_serial.kernel_side"), _multipliers),
    ArrayRule("float16_columns", (), lambda array: _no_reals(array.float16_columns)),
    ArrayRule("float32_columns", (), lambda array: _no_reals(array.float32_columns)),
)
