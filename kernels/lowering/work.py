"""The scheduler's view of an operator: work that can be cut into tiles, and moves of bytes.

The scheduler knows no operator. A `Work` tells it which rows and channels there are to cut, which input rows
a piece of output needs, which constants a range of channels needs, and how one tile becomes an instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from importlib import import_module
from typing import Literal, NamedTuple

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Instruction
from npusim.kernels.operator.operator import Call, Part

OperandRef = tuple[str, int]
"""An operand of the node: ("in", position) or ("out", position)."""


CONSTANTS: OperandRef = ("constants", 0)
"""The constants of a tile, as the target of moves from operands."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A tensor, or a contiguous part of it, as `count` rows of `row_bytes` from `offset_bytes` on.

    The rows of the next batch entry begin `entry_bytes` further on; 0: all entries share the same rows.
    A tile needs some of the rows, or with `by_columns` some of the columns: the same bytes of all rows.
    An output row consists of pixels of `Work.channels` bytes each.
    """

    operand: OperandRef
    count: int
    row_bytes: int
    offset_bytes: int = 0
    entry_bytes: int = 0
    by_columns: bool = False

    def part_bytes(self, parts: int) -> int:
        """Return the bytes of a number of rows, or columns."""
        return parts * (self.count if self.by_columns else self.row_bytes)

    def begin(self, entry: int, first: int = 0) -> int:
        """Return where a row or column of an entry begins, in bytes from the start of the tensor."""
        return (
            self.offset_bytes + entry * self.entry_bytes + first * (1 if self.by_columns else self.row_bytes)
        )

    def end(self, entry: int, last: int) -> int:
        """Return the position behind the last byte of the rows or columns before `last`."""
        return self.begin(entry) + self.row_bytes * (self.count if self.by_columns else last)


@dataclass(frozen=True, slots=True)
class Tile:
    """A piece of an entry's output: rows first_row..last_row-1, channels first_channel..last_channel-1."""

    first_row: int
    last_row: int
    first_channel: int
    last_channel: int
    entry: int = 0

    @property
    def rows(self) -> int:
        """The number of rows of the tile."""
        return self.last_row - self.first_row

    @property
    def channels(self) -> int:
        """The number of channels of the tile."""
        return self.last_channel - self.first_channel


class Written(NamedTuple):
    """The destination of a tile of an output: address of its first pixel, and row and pixel strides in bytes."""

    address: int
    row_stride: int
    pixel_stride: int


@dataclass(frozen=True, slots=True)
class TileAddresses:
    """The scratchpad addresses and strides of a tile's operands.

    inputs:    address of the first needed row, or column, of each input, and the bytes from row to row of each.
    constants: address of the constants of the tile's channels.
    weights, weight_row_bytes: address of the tile's part of `Work.weights`, and from one row of it to the next.
    sliced:    the inputs hold the tile's channels only (`Work.sliced`).
    outputs:   where the tile of each output goes.
    """

    inputs: tuple[int, ...]
    row_bytes: tuple[int, ...]
    constants: int
    outputs: tuple[Written, ...]
    sliced: bool = False
    weights: int = 0
    weight_row_bytes: int = 0

    @property
    def output(self) -> int:
        """The address of the first pixel of the only output."""
        return self.outputs[0].address


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of a range of channels: plain bytes, then weights, which may be packed and unpacked by the DMA.

    whole, first_weight: the tensor in C order that the weights are a part of, and the position of the first one in it.
    absent_bytes:        bytes of constants that are known by their size only; `absent_weights` of them are weights.
    """

    plain: bytes = b""
    weights: Array | None = None
    zero_point: int = 0
    whole: Array | None = None
    first_weight: int = 0
    absent_bytes: int = 0
    absent_weights: int = 0

    @property
    def weight_count(self) -> int:
        """The number of weights, one byte each."""
        return self.absent_weights if self.weights is None else self.weights.size

    @property
    def size_bytes(self) -> int:
        """Bytes in the scratchpad."""
        return len(self.plain) + (0 if self.weights is None else self.weights.size) + self.absent_bytes


RowsNeeded = Callable[[int, int], tuple[int, int]]
"""Gives the input rows or columns [first, last) for output rows [first, last). Later rows need no earlier ones."""


@dataclass(frozen=True, slots=True)
class Work(Part):
    """One computation on the MAC array or the vector unit, ready to be cut into tiles.

    rows, channels: size of the outputs, in the two dimensions that can be cut.
    channel_step:   granularity in which channels may be cut (0: not at all).
    inputs:         operands that are read from the scratchpad, with the rows that output rows need of each.
    constants:      returns the constants for channels [first, last).
    constant_bytes: returns their bytes in the scratchpad, fetched ones included; 0 if there are none.
    fetched:        operands whose bytes are copied among the constants of a tile, although they are computed.
    fetches:        returns the copies of these bytes for channels [first, last), into the constants or behind them.
    outputs:        operands that are written; all have the same rows and channels.
    emit:           returns the instruction for a tile, or several in their order; all run on one unit.
    overwrites:     inputs that the first output may replace, because each output row needs only the same row of them.
    last_resort:    granularity in which channels may be cut where no coarser tile fits (0: as `channel_step`).
    sliced:         output channels need only the same input channels; an input row is pixels of `channels` bytes.
    entries:        number of batch entries; each has its own part of the operands, and all have the same constants.
    weights:        a computed operand in place of constant weights, with a row or column per channel; None: constants.
    look_up:        each output byte is a function of one byte of the only input, so its producer may apply it.
    alike:          equal for works whose tiles need and cost the same at any address; None: different from all others.
    """

    rows: int
    channels: int
    channel_step: int
    inputs: tuple[tuple[Rows, RowsNeeded], ...]
    outputs: tuple[Rows, ...]
    constants: Callable[[int, int], Constants]
    constant_bytes: Callable[[int, int], int]
    emit: Callable[[Tile, TileAddresses], Instruction | tuple[Instruction, ...]]
    overwrites: tuple[int, ...] = ()
    last_resort: int = 0
    sliced: bool = False
    entries: int = 1
    weights: Rows | None = None
    alike: Hashable = None
    look_up: bool = False
    fetched: tuple[OperandRef, ...] = ()
    fetches: Callable[[int, int], tuple[Move, ...]] | None = None

    @property
    def reads(self) -> tuple[Rows, ...]:
        """The operands that the work reads: the inputs, then the weights."""
        inputs = tuple([rows for rows, _ in self.inputs])
        return inputs if self.weights is None else (*inputs, self.weights)

    @property
    def by_rows(self) -> bool:
        """True if its rows can be computed stripe by stripe, in turn with those of other works.

        It then has one entry, one output, and weights that are constants.
        """
        constant = self.weights is None and not self.fetched
        return self.entries == 1 and constant and len(self.outputs) == 1

    @property
    def is_batch_of_products(self) -> bool:
        """True for a batch of products of two activations, such as the scores of attention heads."""
        return self.weights is not None and self.entries > 1

    @property
    def output(self) -> Rows:
        """The first output."""
        return self.outputs[0]

    def instructions(self, tile: Tile, where: TileAddresses) -> tuple[Instruction, ...]:
        """Return the instructions for a tile."""
        emitted = self.emit(tile, where)
        return emitted if isinstance(emitted, tuple) else (emitted,)


@dataclass(frozen=True, slots=True)
class Move(Part):
    """A strided copy between tensors, or a fill of part of one. Offsets and strides are in bytes.

    counts: repetitions from the outermost dimension in; the last is the number of contiguous bytes. At most four.
    source_strides: a stride of 0 repeats the source, a negative one reads it backwards from `source_offset` on.
    value:  the byte of a fill.
    view:   how the copy could be avoided, if units can access parts of tensors: "target", if the producer of the source
            writes into the target, "source", if the readers of the target read the source.
    """

    target: OperandRef
    target_offset: int
    counts: tuple[int, ...]
    target_strides: tuple[int, ...]
    source: OperandRef | None = None
    source_offset: int = 0
    source_strides: tuple[int, ...] = ()
    value: int = 0
    view: Literal["", "target", "source"] = ""


@dataclass(frozen=True, slots=True)
class Pick(Part):
    """A copy between table rows that indices in memory select and a tensor with these rows one after the other.

    See `npusim.isa.instructions.gather`. Offsets and strides are in bytes. `tables` holds `batches` times `repeats`
    tables one after the other, each with the sizes `limits` along the indexed axes and rows of `row_bytes`. Each batch
    has `rows` indices, each of one number of type `index_type` per indexed axis, and each selects `span` rows. A
    gather copies from `tables` to `dense`, a scatter back. `bounds`: what happens to an index outside its limit.
    """

    tables: OperandRef
    dense: OperandRef
    indices: OperandRef
    index_type: str
    batches: int
    repeats: int
    rows: int
    limits: tuple[int, ...]
    row_bytes: int
    dense_stride: int
    dense_offset: int = 0
    table_offset: int = 0
    index_offset: int = 0
    span: int = 1
    bounds: str = "checked"
    scatter: bool = False

    @property
    def source(self) -> OperandRef:
        """The operand that is read."""
        return self.dense if self.scatter else self.tables

    @property
    def target(self) -> OperandRef:
        """The operand that is written."""
        return self.tables if self.scatter else self.dense

    @property
    def index_bytes(self) -> int:
        """The bytes of one index."""
        return len(self.limits) * (8 if self.index_type == "int64" else 4)

    @property
    def run_bytes(self) -> int:
        """The contiguous bytes that an index picks."""
        return self.span * self.row_bytes

    @property
    def size_bytes(self) -> int:
        """Bytes that are copied."""
        return self.batches * self.repeats * self.rows * self.run_bytes


Parts = tuple[Work | Move | Pick, ...]
"""The parts of a node in the order in which the NPU executes them."""


def deferred(module: str, name: str) -> Callable[[Call, Hardware], Parts]:
    """Return a lowering that imports its function from a module of `npusim.kernels.lowering` with the first call.

    For lowerings that few networks need, so that the others start without their modules.
    """

    def lower(call: Call, hardware: Hardware) -> Parts:
        function = getattr(import_module(f"npusim.kernels.lowering.{module}"), name)
        parts: Parts = function(call, hardware)
        return parts

    return lower


def same_rows(first: int, last: int) -> tuple[int, int]:
    """Return the same rows: each output row needs the input row of its number."""
    return first, last


def one_row(first: int, last: int) -> tuple[int, int]:
    """Return the only row of an input, which every output row needs."""
    return 0, 1


def no_constants(first: int, last: int) -> Constants:
    """Return the constants of a work that has none."""
    return Constants(b"")


def no_constant_bytes(first: int, last: int) -> int:
    """Return 0: the work has no constants."""
    return 0
