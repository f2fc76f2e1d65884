"""Buffer sizes and cycles of the tiles of a layer, transfer rates, and packed weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import count
from typing import NamedTuple

from npusim.isa.arithmetic.packing import GROUP, HEADER_BYTES, Lengths
from npusim.isa.arithmetic.packing_memo import lengths, pack
from npusim.isa.base.identity_cache import IdentityCache
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import PortTiming, Space, whole_cycles
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.instruction import Context, Instruction
from npusim.isa.program.program import Piece
from npusim.kernels.lowering.work import Constants, Tile, TileAddresses, Work, Written
from npusim.scheduler.fit.allocate import aligned
from npusim.scheduler.fit.cuts import Cut, Residency, band_bytes, cuts, finest_channels, streams_rows

_NUMBERS = count()


@lru_cache(maxsize=512)
def numbered(*values: Hashable) -> int:
    """Return a number that identifies values of the hardware in cache keys; it hashes faster than they do."""
    return next(_NUMBERS)


class Transfers:
    """Transfer rates and latencies of one machine's memories, as tile estimates use them.

    constants, maps, code: the memories that hold constants, feature maps, and instructions.
    cycles_per_byte: cycles per byte of a long run at each memory's port, by space: whole cycles per grant plus the
                     exposed row misses; 0 for the scratchpad, which has no such port.
    map_burst_bytes: burst size of the memory of feature maps.
    gap_cycles:      cycles from the start of a load to its first byte, by space. The DMA channel idles meanwhile.
    tile_overhead:   cycles by which each tile more delays the layer: a setup, and the decoding of two instructions.
    array, number:   identify the MAC array and vector unit, and all that estimates read of the machine, in cache keys.
    """

    def __init__(self, hardware: Hardware) -> None:
        dma = hardware.dma
        self.constants, self.maps, self.code = (
            hardware.holder(content) for content in ("constants", "activations", "code")
        )
        timings = [hardware.port_timing(space) for space in hardware.outer_spaces]
        self.cycles_per_byte = (0.0, *map(_cycles_per_byte, timings))
        self.gap_cycles = (0, *(dma.setup_cycles + timing.latency_cycles for timing in timings))
        self.map_burst_bytes = hardware.port(self.maps).burst_bytes
        self._port_bytes = dma.port_bytes_per_cycle
        self._decoded_bytes = min(dma.port_bytes_per_cycle, dma.decoder_bytes_per_cycle)
        self.tile_overhead = dma.setup_cycles + hardware.front_end.decode_cycles * 2
        self.array = numbered(hardware.mac_array, hardware.vector)
        holders, rates = (self.constants, self.maps, self.code), (self.cycles_per_byte, self.gap_cycles)
        self.number = numbered(self.array, *holders, *rates, self.map_burst_bytes, self.tile_overhead)

    def no_bytes(self) -> list[float]:
        """Return a zero byte count for each memory."""
        return [0] * len(self.cycles_per_byte)

    def cycles(self, space: Space, size_bytes: float) -> float:
        """Return the transfer cycles of bytes at the port of a memory."""
        return size_bytes * self.cycles_per_byte[space]

    def together_cycles(self, traffic: list[float]) -> float:
        """Return the cycles until bytes, given by memory, have passed their ports, all ports at the same time."""
        return max([size * rate for size, rate in zip(traffic, self.cycles_per_byte, strict=True)])

    def port_cycles(self, size_bytes: float, weights: float = 0) -> float:
        """Return the cycles in which bytes, and packed weights while they unpack, pass the port to the scratchpad."""
        return size_bytes / self._port_bytes + (weights / self._decoded_bytes if weights else 0)

    def load_cycles(self, space: Space, size_bytes: float, packed_bytes: int = 0, weights: int = 0) -> float:
        """Return the cycles that a load occupies its channel; `packed_bytes` of it unpack to `weights` weights."""
        passing = self.port_cycles(size_bytes - packed_bytes, weights)
        return self.gap_cycles[space] + max(self.cycles(space, size_bytes), passing)


def _cycles_per_byte(timing: PortTiming) -> float:
    grant_cycles = whole_cycles(timing.grant_bytes // timing.burst_bytes * timing.burst_cycles)
    visit_cycles = grant_cycles * (timing.row_bytes // timing.grant_bytes)
    return (visit_cycles + timing.exposed_miss_cycles(visit_cycles)) / timing.row_bytes


_SAMPLES = 128
"""Number of groups of weights that an estimate samples."""


_LENGTHS = IdentityCache[dict[tuple[int, bool], Lengths]]()
"""Packed lengths of constant tensors, by zero point and whether the decoder skips zeros."""


def _tensor_lengths(tensor: Array, zero_point: int, skips: bool) -> Lengths:
    """Return the packed lengths of a constant tensor (`npusim.isa.arithmetic.packing.lengths`)."""
    known = _LENGTHS.of(tensor, lambda _: {})
    if (zero_point, skips) not in known:
        known[zero_point, skips] = lengths(tensor, zero_point, skips)
    return known[zero_point, skips]


def block(constants: Constants, packed: bool, skips: bool = False) -> tuple[Piece, int]:
    """Return the stored form of constants, and how many of its bytes are packed weights (0 if none are).

    Weights are packed if `packed` allows it and packing makes them shorter. Weights without data, known by their size
    only, stay unpacked, because their packed length depends on the data.
    """
    plain, weights, zero_point = constants.plain, constants.weights, constants.zero_point
    if constants.absent_bytes:
        return Piece(constants.absent_bytes, None), 0
    if weights is None:
        return Piece(len(plain), lambda: plain), 0
    size = _lengths(constants, skips).packed_bytes() if packed else weights.size
    if size < weights.size:
        return Piece(len(plain) + size, lambda: plain + pack(weights, zero_point, skips)), size
    return Piece(len(plain) + weights.size, lambda: plain + weights.tobytes()), 0


def spared_bytes(constants: Constants, hardware: Hardware) -> int:
    """Return the weight bytes beyond `mac_array.weight_bits`, which have addresses but take no room and no time."""
    return constants.weight_count - hardware.mac_array.stored_bytes(constants.weight_count)


def _lengths(constants: Constants, skips: bool) -> Lengths:
    """Return the packed lengths of the weights' groups, taken from the whole tensor if its groups are the same."""
    weights, whole, first = constants.weights, constants.whole, constants.first_weight
    assert weights is not None
    if whole is None:
        return _tensor_lengths(weights, constants.zero_point, skips)
    last = first + weights.size
    if first % GROUP or (last % GROUP and last < whole.size):
        return lengths(weights, constants.zero_point, skips)
    groups = slice(first // GROUP, -(-last // GROUP))
    return Lengths(*(of_group[groups] for of_group in _tensor_lengths(whole, constants.zero_point, skips)))


def share(constants: Constants, skips: bool = False) -> float:
    """Estimate the bytes of a packed weight, at most 1, from evenly spread groups of weights."""
    all_lengths, weights = _lengths(constants, skips), constants.weights
    groups = 0 if weights is None else weights.size // GROUP
    if groups == 0:
        return min(all_lengths.packed_bytes() / max(0 if weights is None else weights.size, 1), 1.0)
    step = -(-groups // _SAMPLES)
    chosen = Lengths(*(by_group[:groups:step] for by_group in all_lengths))
    return min((chosen.packed_bytes() - HEADER_BYTES) / (len(chosen.low_bytes) * GROUP), 1.0)


def sizes(total: int, step: int) -> list[tuple[int, int]]:
    """Return the distinct sizes of the pieces when `total` is cut by `step`, as (size, repetitions)."""
    whole, rest = divmod(total, step)
    return [(size, count) for size, count in ((step, whole), (rest, 1)) if size and count]


class _Channels(NamedTuple):
    """The channel ranges of a cut, and the bytes of their constants.

    spans: the distinct widths of the ranges in channels, with their repetitions; tiles: number of ranges.
    kept_bytes, tile_bytes: scratchpad bytes of the constants of all ranges, and of the widest one.
    """

    spans: list[tuple[int, int]]
    tiles: int
    kept_bytes: int
    tile_bytes: int


class Tables:
    """A cache of the sizes and cycles of the tiles of equal works (`Work.alike`) on one MAC array and vector unit.

    cycles:   by the rows and channels of a tile.
    bands:    input bytes, by input and row step.
    channels: by channel step and last channels of a cut.
    cuts:     the candidates, by what they depend on of a residency.
    """

    __slots__ = ("bands", "channels", "cuts", "cycles", "unit")

    def __init__(self) -> None:
        self.unit: Unit | None = None
        self.cycles: dict[tuple[int, int], int] = {}
        self.bands: dict[tuple[int, int], tuple[int, int]] = {}
        self.channels: dict[tuple[int, int], _Channels] = {}
        self.cuts: dict[tuple[bool, int], list[list[Cut]]] = {}


@lru_cache(maxsize=512)
def _tables(array: int, alike: Hashable) -> Tables:
    """Return the cache of equal works on a MAC array. It has room for a network on some ten arrays of a study."""
    return Tables()


class TileCosts:
    """Buffer sizes and cycles of the tiles of one layer, for any placement of its operands.

    All tile searches of the layer share them. Cycles come from the machine's own cost model. They depend on the size
    of a tile only, so each size is computed once, for equal layers and machines with the same array together.
    """

    def __init__(self, work: Work, hardware: Hardware, transfers: Transfers | None = None) -> None:
        self.work = work
        self.hardware = hardware
        self.transfers = transfers or Transfers(hardware)
        self._tables = Tables() if work.alike is None else _tables(self.transfers.array, work.alike)
        self._traffic: dict[bool, float] = {}
        self._streams: dict[bool, bool] = {}

    @property
    def unit(self) -> Unit:
        """The unit that executes the tiles."""
        if self._tables.unit is None:
            self._tables.unit = self._whole[0].unit
        return self._tables.unit

    @cached_property
    def _whole(self) -> tuple[Instruction, ...]:
        """The instructions of a tile of all rows and channels."""
        return self._instructions(self.work.rows, self.work.channels)

    def cycles(self, rows: int, channels: int) -> int:
        """Return the computing cycles of a tile of `rows` x `channels`, by the machine's cost model."""
        key = (rows, channels)
        cycles = self._tables.cycles.get(key)
        if cycles is None:
            context = Context(self.hardware)
            whole = key == (self.work.rows, self.work.channels)
            instructions = self._whole if whole else self._instructions(rows, channels)
            cycles = self._tables.cycles[key] = sum([issued.cost(context).cycles for issued in instructions])
        return cycles

    def key(self, pack: bool) -> Hashable:
        """Return the cache key of estimates: what they read of work and machine; None if no other work is equal."""
        work = self.work
        return (
            None if work.alike is None else (self.transfers.number, work.alike, self.constant_traffic(pack))
        )

    def streams_constants(self, pack: bool) -> bool:
        """Return True if the work is limited by the transfer of constants that it reads only once.

        Prefetching all of them would then gain no more than the time of the work before. A work that cannot be cut by
        channels needs all constants at its start, so it never streams them.
        """
        if pack not in self._streams:
            self._streams[pack] = self._find_streams(pack)
        return self._streams[pack]

    def _find_streams(self, pack: bool) -> bool:
        work, context = self.work, Context(self.hardware)
        if not work.channel_step or not work.constant_bytes(0, work.channels):
            return False
        if any(instruction.rereads(context) for instruction in self._whole):
            return False
        arriving = self.transfers.cycles(self.transfers.constants, self.constant_traffic(pack))
        # If one tile takes all channels, it starts after all constants have arrived. Require that the transfer takes
        # twice the computing time before giving up the prefetch.
        ranges = 1 if work.channel_step < work.channels else 2
        return arriving > ranges * self.cycles(work.rows, work.channels)

    def _instructions(self, rows: int, channels: int) -> tuple[Instruction, ...]:
        """Return the instructions of a tile of this size at dummy addresses; costs do not depend on addresses."""
        nowhere = self._slices_nowhere if channels < self.work.channels else self._nowhere
        return self.work.instructions(Tile(0, rows, 0, channels), nowhere)

    @cached_property
    def _nowhere(self) -> TileAddresses:
        """Dummy addresses, with the strides of operands that are stored whole."""
        work = self.work
        row_bytes = tuple([operand.row_bytes for operand, _ in work.inputs])
        outputs = tuple([Written(0, rows.row_bytes, work.channels) for rows in work.outputs])
        weight_row_bytes = 0 if work.weights is None else work.weights.row_bytes
        inputs = (0,) * len(row_bytes)
        return TileAddresses(inputs, row_bytes, 0, outputs, weight_row_bytes=weight_row_bytes)

    @cached_property
    def _slices_nowhere(self) -> TileAddresses:
        """Dummy addresses, with the strides of inputs of which only a slice of the channels is loaded."""
        return replace(self._nowhere, sliced=self.work.sliced)

    def constant_traffic(self, pack: bool) -> float:
        """Return the bytes of all constants at the port: weights of few bits, or packed if `pack` and possible."""
        if pack not in self._traffic:
            self._traffic[pack] = self._find_constant_traffic(pack)
        return self._traffic[pack]

    def _find_constant_traffic(self, pack: bool) -> float:
        size = self.work.constant_bytes(0, self.work.channels)
        if not size or not (self.hardware.mac_array.few_bits or (pack and self.hardware.packs_weights)):
            return size
        constants = self.work.constants(0, self.work.channels)
        if self.hardware.mac_array.few_bits:
            return size - spared_bytes(constants, self.hardware)
        if constants.weights is None:
            return size
        return len(constants.plain) + constants.weights.size * share(
            constants, self.hardware.dma.decoder_skips
        )

    def bands(self, position: int, row_step: int) -> tuple[int, int]:
        """Return the input bytes of the row tile that needs most, and of all row tiles of a batch entry together.

        Tiles between the first and the last need the same number of rows, so one of them stands for all.
        """
        key = (position, row_step)
        band = self._tables.bands.get(key)
        if band is None:
            rows, count = self.work.rows, -(-self.work.rows // row_step)
            first, middle, last = (
                band_bytes(self.work, position, number * row_step, min((number + 1) * row_step, rows))
                for number in (0, count // 2, count - 1)
            )
            together = first if count == 1 else first + last + (count - 2) * middle
            band = self._tables.bands[key] = max(first, middle, last), together
        return band

    def channels(self, cut: Cut) -> _Channels:
        """Return the channel ranges of a cut."""
        key = (cut.channel_step, cut.last_channels)
        ranges = self._tables.channels.get(key)
        if ranges is None:
            work = self.work
            spans = sizes(work.channels, cut.channel_step)
            if cut.last_channels:
                spans = list(Counter(last - first for first, last in cut.channels(work)).items())
            ranges = self._tables.channels[key] = _Channels(
                spans,
                sum([count for _, count in spans]),
                sum([count * aligned(work.constant_bytes(0, channels)) for channels, count in spans]),
                aligned(work.constant_bytes(0, min(cut.channel_step, work.channels))),
            )
        return ranges

    def cuts(self, residency: Residency, last_resort: bool) -> list[list[Cut]]:
        """Return the candidate cuts of the work (`npusim.scheduler.fit.cuts.cuts`)."""
        key = streams_rows(residency), finest_channels(self.work, residency) if last_resort else 0
        if key not in self._tables.cuts:
            self._tables.cuts[key] = list(cuts(self.work, residency, last_resort))
        return self._tables.cuts[key]
