"""A kind of MAC array: what it asks of a problem in cycles and traffic, how it lays it out, and what it is built of.

The MAC instructions say what is computed and are the same for every kind; `[mac_array] kind` of the hardware says
which kind computes it. A kind is one file with an `Engine` and one line in `npusim.isa.engines.kinds`.
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
"""The first cause of an array of rows and columns."""


class Problem(NamedTuple):
    """What an instruction has the array compute: a convolution of a tile, or one `by_channel` (depthwise).

    few_bits:  its weights have the array's `weight_bits`, else all 8.
    looked_up: each output is replaced by its entry of a table.
    value_bytes: of the feature map, in the buffers of the array: 2 for int16.
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
        """Output pixels."""
        return self.ofm_height * self.ofm_width

    @property
    def inner(self) -> int:
        """Values of a dot product."""
        taps = self.kernel_height * self.kernel_width
        return taps if self.by_channel else taps * self.ifm_depth

    @property
    def weights(self) -> int:
        """Weights that it reads, each once."""
        return self.inner * self.ofm_depth

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return self.pixels * self.weights


class Layout(NamedTuple):
    """How a problem is laid over the array: the fields of an instruction word that say so. Each kind has its own use
    for them; to a kind that has no choice all are 0.
    """

    output_stationary: int = 0
    row_halvings: int = 0
    column_halvings: int = 0
    accumulator_halvings: int = 0


HALVINGS_BITS = 4
"""Bits of a field of halvings."""


class Use(NamedTuple):
    """What a problem costs.

    cycles, array_cycles: until the last result is written, and those in which the array itself is occupied.
    map_values, weight_values: values that pass the ports of the feature map and of the weights.
    updates: accumulators that are read and written.
    product_bits: bits of a weight that each product is made of.
    """

    cycles: int
    array_cycles: int
    map_values: int
    weight_values: int
    updates: int
    product_bits: int = MOST_BITS

    def repeated(self, passes: int) -> Use:
        """Return the cost of several passes over the problem; only the bits of a product stay."""
        cycles, array_cycles, map_values, weight_values, updates = (count * passes for count in self[:-1])
        return Use(cycles, array_cycles, map_values, weight_values, updates, self.product_bits)


class Circuits(NamedTuple):
    """What an array is built of, for its area and its leakage.

    weight_registers: of each multiplier. accumulator_banks: SRAMs that share its accumulators.
    """

    multipliers: int
    weight_registers: int
    accumulator_banks: int


class ArrayRule(NamedTuple):
    """A rule between fields of `[mac_array]`: where it is reported, what it reads, and the fault, None if it holds."""

    field: str
    reads: tuple[str, ...]
    fault: Callable[[MacArray], str | None]


class Engine(ABC):
    """One kind of MAC array.

    kind:   its name in hardware files.
    causes: what its cycles beyond the useful ones are lost to; the first also has what rounding leaves.
    rules:  what its parameters must keep.
    sizes:  the keys of a hardware file that say how many multipliers it has.
    larger: how to build the next larger arrays of this kind, each a set of factors on keys of `[mac_array]`; the usual
            choice comes first.
    """

    kind: ClassVar[str]
    sizes: ClassVar[tuple[str, ...]]
    causes: ClassVar[tuple[Cause, ...]]
    rules: ClassVar[tuple[ArrayRule, ...]] = ()
    larger: ClassVar[tuple[Mapping[str, float], ...]]

    @abstractmethod
    def macs_per_cycle(self, array: MacArray) -> int:
        """Multiply-accumulates of the full array in one cycle."""

    @abstractmethod
    def width(self, array: MacArray) -> int:
        """Output channels that are computed side by side: tiles are cut in multiples of them, or of halves."""

    @abstractmethod
    def fastest(self, array: MacArray, problem: Problem) -> Layout:
        """The layout in which the array solves a problem in the fewest cycles."""

    @abstractmethod
    def misfits(self, array: MacArray, layout: Layout, by_channel: bool) -> list[str]:
        """What of a layout the array does not have; empty if nothing."""

    @abstractmethod
    def use(self, array: MacArray, problem: Problem, layout: Layout) -> Use:
        """The closed form: cycles and traffic of a problem."""

    @abstractmethod
    def split(self, array: MacArray, problem: Problem, layout: Layout) -> tuple[int, ...]:
        """The cycles of `use` beyond macs / `macs_per_cycle`, rounded up, by `causes`: each is at least 0."""

    def pool(self, array: MacArray, problem: Problem) -> int | None:
        """Cycles of a pool where the array's blocks are used for it; None: the vector unit does it by itself."""
        return None

    @abstractmethod
    def circuits(self, array: MacArray) -> Circuits:
        """What it is built of."""


class OneLayout(Engine):
    """A kind without corners and dataflows.

    works: how it works, for whoever asks for another layout.
    """

    works: ClassVar[str]

    def fastest(self, array: MacArray, problem: Problem) -> Layout:
        """There is one."""
        return Layout()

    def misfits(self, array: MacArray, layout: Layout, by_channel: bool) -> list[str]:
        """Whatever is not 0."""
        return [
            f"{name} {value}; it may be 0, {self.works}" for name, value in layout._asdict().items() if value
        ]


def in_turn(cycles: Iterable[int]) -> tuple[int, ...]:
    """What each hindrance adds to those before it. cycles: without any, with the first alone, the second alone, ..."""
    return tuple(after - before for before, after in pairwise(accumulate(cycles, max)))
