"""The interface of a MAC engine type: cycles and traffic of a problem, its mapping, and the array's circuits.

MAC instructions are the same for every engine type. `[mac_array] kind` of the hardware selects the type. A type is one
subclass of `Engine` and one entry in `npusim.isa.engines.kinds`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate, pairwise
from typing import ClassVar, NamedTuple

from npusim.isa.base.cause import Cause
from npusim.isa.engines.mac_array import MOST_BITS, MacArray

EDGE = Cause(
    "edge_tiles",
    "edge tiles",
    "#12a3b4",
    "inside the MAC array: a tile does not fill all rows, columns or pixels",
    ("mac_array.rows", "mac_array.columns"),
)
"""The first cause of inefficiency cycles of an array of rows and columns."""


class Problem(NamedTuple):
    """The sizes of a convolution that an instruction lets the array compute.

    by_channel:  True for a depthwise convolution.
    few_bits:    True if weights have the array's `weight_bits` bits, False if they have 8.
    looked_up:   True if the output stage replaces each output by its entry in a table.
    value_bytes: bytes of a feature-map value in the buffers of the array: 2 for int16.
    """

    ofm_height: int
    ofm_width: int
    ofm_depth: int
    ifm_depth: int
    kernel_height: int
    kernel_width: int
    stride_width: int = 1
    dilation_width: int = 1
    by_channel: bool = False
    stride_height: int = 1
    dilation_height: int = 1
    few_bits: bool = False
    looked_up: bool = False
    value_bytes: int = 1

    @property
    def pixels(self) -> int:
        """Number of output pixels."""
        return self.ofm_height * self.ofm_width

    @property
    def inner(self) -> int:
        """Number of values of a dot product."""
        taps = self.kernel_height * self.kernel_width
        return taps if self.by_channel else taps * self.ifm_depth

    @property
    def weights(self) -> int:
        """Number of weights."""
        return self.inner * self.ofm_depth

    @property
    def macs(self) -> int:
        """Number of multiply-accumulates."""
        return self.pixels * self.weights


class Layout(NamedTuple):
    """The mapping of a problem to the array, as fields of the instruction word.

    Their meaning depends on the engine type. A type without a choice of mapping needs all of them to be 0.
    """

    output_stationary: int = 0
    row_halvings: int = 0
    column_halvings: int = 0
    accumulator_halvings: int = 0


HALVINGS_BITS = 4
"""Bits of an instruction field that counts halvings of the array."""


class Use(NamedTuple):
    """The cost of a problem on an array.

    cycles:        until the last result is written.
    array_cycles:  in which the array itself is occupied.
    map_values:    values that pass the feature-map port.
    weight_values: values that pass the weight port.
    updates:       reads and writes of accumulators.
    product_bits:  bits of a weight that take part in each product.
    """

    cycles: int
    array_cycles: int
    map_values: int
    weight_values: int
    updates: int
    product_bits: int = MOST_BITS

    def repeated(self, passes: int) -> Use:
        """Return the cost of several passes over the problem. `product_bits` is per product, so it does not grow."""
        cycles, array_cycles, map_values, weight_values, updates = (count * passes for count in self[:-1])
        return Use(cycles, array_cycles, map_values, weight_values, updates, self.product_bits)


class Circuits(NamedTuple):
    """The circuits of an array, for its area and leakage.

    multipliers:       number of 8-bit multipliers.
    weight_registers:  weight registers per multiplier.
    accumulator_banks: number of SRAMs that hold the accumulators.
    """

    multipliers: int
    weight_registers: int
    accumulator_banks: int


class ArrayRule(NamedTuple):
    """A rule between fields of `[mac_array]`.

    field: the field under which a fault is reported.
    reads: the other fields that the rule depends on.
    fault: returns a message, or None if the rule holds.
    """

    field: str
    reads: tuple[str, ...]
    fault: Callable[[MacArray], str | None]


class Engine(ABC):
    """One MAC engine type.

    kind:   its name in hardware files.
    causes: the causes of its cycles beyond the useful ones; the first also gets the cycles lost to rounding.
    rules:  rules that its parameters must obey.
    sizes:  the hardware keys that determine its number of multipliers.
    larger: ways to build the next larger array, each a set of factors on keys of `[mac_array]`; the usual one first.
    """

    kind: ClassVar[str]
    sizes: ClassVar[tuple[str, ...]]
    causes: ClassVar[tuple[Cause, ...]]
    rules: ClassVar[tuple[ArrayRule, ...]] = ()
    larger: ClassVar[tuple[Mapping[str, float], ...]]

    @abstractmethod
    def macs_per_cycle(self, array: MacArray) -> int:
        """Return the peak multiply-accumulates per cycle of the whole array."""

    @abstractmethod
    def width(self, array: MacArray) -> int:
        """Return the output channels computed in parallel. Tiles are cut in multiples of it, or of its half."""

    @abstractmethod
    def fastest(self, array: MacArray, problem: Problem) -> Layout:
        """Return the layout with the fewest cycles for a problem."""

    @abstractmethod
    def misfits(self, array: MacArray, layout: Layout, by_channel: bool) -> list[str]:
        """Return messages about what a layout needs and the array does not have; empty if there are none."""

    @abstractmethod
    def use(self, array: MacArray, problem: Problem, layout: Layout) -> Use:
        """Return the cycles and the traffic of a problem, by a closed form."""

    @abstractmethod
    def split(self, array: MacArray, problem: Problem, layout: Layout) -> tuple[int, ...]:
        """Return the cycles of `use` beyond ceil(macs / `macs_per_cycle`), by cause; each is at least 0."""

    def pool(self, array: MacArray, problem: Problem) -> int | None:
        """Return the cycles of a pooling operator that the array computes; None if the vector unit computes it."""
        return None

    @abstractmethod
    def circuits(self, array: MacArray) -> Circuits:
        """Return the circuits of the array, for area and leakage."""


class OneLayout(Engine):
    """A MAC engine type without a choice of dataflow or of a part of the array.

    works: how it works, for the message about any other layout.
    """

    works: ClassVar[str]

    def fastest(self, array: MacArray, problem: Problem) -> Layout:
        """Return the only layout."""
        return Layout()

    def misfits(self, array: MacArray, layout: Layout, by_channel: bool) -> list[str]:
        """Return a message for each field of the layout that is not 0."""
        return [
            f"{name} {value}; it may be 0, {self.works}" for name, value in layout._asdict().items() if value
        ]


def in_turn(cycles: Iterable[int]) -> tuple[int, ...]:
    """Return the cycles that each cause of inefficiency adds to those before it.

    cycles: total cycles with no cause, then with the first one, the second one, ...
    """
    return tuple(after - before for before, after in pairwise(accumulate(cycles, max)))
