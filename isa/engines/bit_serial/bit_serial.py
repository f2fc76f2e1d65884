"""The bit-serial MAC engine type; its closed form is in `npusim.isa.engines.bit_serial.timing`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from npusim.isa.base.cause import Cause
from npusim.isa.engines.engine import ArrayRule, Circuits, Layout, OneLayout, Problem, Use, in_turn
from npusim.isa.engines.mac_array import MOST_BITS, MacArray

if TYPE_CHECKING:
    from npusim.isa.engines.bit_serial.timing import Shape


class BitSerial(OneLayout):
    """The engine type that computes blocks of output pixels and channels with bit-serial weights."""

    kind: ClassVar[str] = "bit_serial"
    sizes: ClassVar[tuple[str, ...]] = ("mac_array.bit_serial.side", "mac_array.bit_serial.input_channels")
    works: ClassVar[str] = "the array works in blocks"
    larger: ClassVar[tuple[Mapping[str, float], ...]] = (
        {"bit_serial.side": 2, "bit_serial.strided_side": 2, "accumulator_kib": 4},
        {"bit_serial.channels": 2, "accumulator_kib": 2},
        {"bit_serial.input_channels": 2, "ifm_bytes_per_cycle": 2},
    )
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause(
            "serial_shape",
            "bit-serial shape",
            "#1a8fa8",
            "inside the MAC array: a block or a step is not filled with pixels, taps or channels",
            ("mac_array.bit_serial.side", "mac_array.bit_serial.input_channels"),
        ),
        Cause(
            "serial_load",
            "bit-serial load",
            "#7cc3e6",
            "inside the MAC array: the pixels of a step are loaded before the multiplication",
            ("mac_array.bit_serial.start_cycles", "mac_array.bit_serial.step_cycles"),
        ),
        Cause(
            "serial_output",
            "bit-serial output",
            "#cfe0f2",
            "inside the MAC array: the array waits for the output stage, which empties each block",
            ("mac_array.bit_serial.output_cycles",),
        ),
    )

    def macs_per_cycle(self, array: MacArray) -> int:
        """Return the peak MACs per cycle with weights of `weight_bits` bits."""
        from npusim.isa.engines.bit_serial.timing import macs_per_cycle

        return macs_per_cycle(_shape(array))

    def width(self, array: MacArray) -> int:
        """Return the output channels of a block."""
        return array.bit_serials.channels

    def use(self, array: MacArray, problem: Problem, layout: Layout) -> Use:
        """Return the cycles and the traffic of a problem, by the closed form in `timing`."""
        from npusim.isa.engines.bit_serial.timing import occupancy

        work = occupancy(_shape(array), problem)
        return Use(work.total, work.steps, *work[4:])

    def split(self, array: MacArray, problem: Problem, layout: Layout) -> tuple[int, ...]:
        """Return the cycles that each cause adds to those before it."""
        from npusim.isa.engines.bit_serial.timing import occupancy

        work = occupancy(_shape(array), problem)
        return in_turn(work[:4])

    def circuits(self, array: MacArray) -> Circuits:
        """Return the circuits: 8 binary multipliers count as one of 8 bits, and there is one block of accumulators."""
        from npusim.isa.engines.bit_serial.timing import products_per_cycle

        return Circuits(products_per_cycle(_shape(array)) // MOST_BITS, 1, 2)


def _shape(array: MacArray) -> Shape:
    from npusim.isa.engines.bit_serial.timing import Shape

    return Shape(**vars(array.bit_serials), weight_bits=array.weight_bits)


def _multipliers(array: MacArray) -> str | None:
    from npusim.isa.engines.bit_serial.timing import products_per_cycle

    products = products_per_cycle(_shape(array))
    if products >= MOST_BITS:
        return None
    serial = array.bit_serials
    return (
        f"{serial.input_channels} is too few: side x side x kernel_side x kernel_side x input_channels are {products} "
        f"binary multipliers, fewer than the {MOST_BITS} bits of a weight"
    )


BitSerial.rules = (
    ArrayRule("bit_serial.input_channels", ("bit_serial.side", "bit_serial.kernel_side"), _multipliers),
)
