"""Tiles: how a work is cut so that its buffers fit and transfers hide behind computation.

The search uses the machine's own `cost` of the instructions that each cut would give.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, inf
from typing import NamedTuple

from npusim.isa.hardware import Hardware
from npusim.isa.instruction import WORD_BYTES, Instruction, Unit
from npusim.kernels.work import Tile, TileAddresses, Work
from npusim.scheduler.allocate import aligned
from npusim.scheduler.packed import share
from npusim.scheduler.transfers import Transfers

PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192)

PRICE = 1 / 4
"""Share that counts of the transfers or computation of a tile that another layer may hide."""

SHARED = 1 / 6
"""Share that counts of what is hidden in the layer itself: computation while its transfers pass, or transfers in the
time of its computation. They may not be hidden in the network: DMA or units could work for other layers meanwhile.
"""

_TAPERS = (64, 32, 16, 12, 8, 6, 4, 3, 2)
"""Parts of all channels that a smaller last tile may have."""

_PATIENCE = 3
"""Channels get fewer along the cuts of one row step; after this many without gain only overhead grows."""


@dataclass(frozen=True, slots=True)
class Residency:
    """Which operands of a work live in the scratchpad as a whole; `loaded` inputs arrive from DRAM piecewise."""

    inputs: tuple[bool, ...]
    output: bool
    loaded: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Depth:
    """Buffers per operand that streams, so that one is filled or emptied while another is in use."""

    inputs: int = 2
    constants: int = 2
    results: int = 2


class End(NamedTuple):
    """Whether a work is the first or the last of its network: nothing hides its loads, or its computation."""

    first: bool
    last: bool


MIDDLE = End(first=False, last=False)

DOUBLE = Depth()
SINGLE = Depth(1, 1, 1)
"""No overlap of transfers and computation, for the smallest scratchpad."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A way to tile a work.

    channels_outside: for each channel range all rows (constants loaded once), else for each row range all
                      channels (feature map loaded once).
    keep_constants:   with rows outside, the constants of all channels stay for the whole work.
    last_channels:    the last so many channels are a tile of their own; 0: as the step has it.
    """

    row_step: int
    channel_step: int
    channels_outside: bool
    keep_constants: bool
    last_channels: int = 0

    def channels(self, work: Work) -> list[tuple[int, int]]:
        """The ranges of channels, first to last."""
        ends = [*range(self.channel_step, work.channels, self.channel_step), work.channels]
        last = work.channels - self.last_channels
        if self.last_channels and last > 0 and last not in ends:
            ends = sorted([*ends, last])
        return list(zip([0, *ends], ends, strict=False))

    def tiles(self, work: Work) -> list[Tile]:
        """The tiles in order of execution."""
        rows = [(r, min(r + self.row_step, work.rows)) for r in range(0, work.rows, self.row_step)]
        channels = self.channels(work)
        if self.channels_outside:
            return [Tile(*r, *c) for c in channels for r in rows]
        return [Tile(*r, *c) for r in rows for c in channels]


def band_bytes(work: Work, position: int, first_row: int, last_row: int) -> int:
    """Bytes of an input's rows that output rows need."""
    rows, needed = work.inputs[position]
    first, last = needed(first_row, last_row)
    return (last - first) * rows.row_bytes


def output_bytes(work: Work, rows: int, channels: int) -> int:
    """Bytes of a piece of the output, stored densely."""
    return rows * (work.output.row_bytes // work.channels) * channels


def _spans(total: int, step: int) -> list[tuple[int, int]]:
    """The distinct sizes into which a step cuts a total: (size, repetitions)."""
    whole, rest = divmod(total, step)
    return [(size, count) for size, count in ((step, whole), (rest, 1)) if size and count]


class _Channels(NamedTuple):
    """How a cut divides the channels.

    spans: the distinct numbers of channels that its tiles have, and their repetitions; tiles: all repetitions.
    kept_bytes, tile_bytes: scratchpad bytes of the constants of all tiles, and of one as wide as the step.
    """

    spans: list[tuple[int, int]]
    tiles: int
    kept_bytes: int
    tile_bytes: int


class TileCosts:
    """What the tiles of one work need and cost wherever its operands lie; all searches of the work share them.

    Costs are the machine's; they depend on the size of a tile only, so each size is asked for once.
    """

    def __init__(self, work: Work, hardware: Hardware) -> None:
        self.work = work
        self.hardware = hardware
        self.transfers = Transfers(hardware)
        self._cycles: dict[tuple[int, int], int] = {}
        self._bands: dict[tuple[int, int], tuple[int, int]] = {}
        self._channels: dict[tuple[int, int], _Channels] = {}
        self._traffic: dict[bool, float] = {}
        self._cuts: dict[bool, list[list[Cut]]] = {}

    @cached_property
    def unit(self) -> Unit:
        """The unit that executes the tiles."""
        return self._instruction(self.work.rows, self.work.channels).unit

    def cycles(self, rows: int, channels: int) -> int:
        """The machine's cost of a tile of this size."""
        key = (rows, channels)
        found = self._cycles.get(key)
        if found is None:
            found = self._cycles[key] = self._instruction(rows, channels).cost(self.hardware).cycles
        return found

    def _instruction(self, rows: int, channels: int) -> Instruction:
        """A tile of this size, at no address in particular."""
        work = self.work
        strides = (work.output.row_bytes, work.channels)
        address = TileAddresses((0,) * len(work.inputs), 0, 0, *strides)
        return work.emit(Tile(0, rows, 0, channels), address)

    def constant_traffic(self, pack: bool) -> float:
        """Bytes that all constants take in DRAM: weights packed if the hardware has a decoder and it is wanted."""
        if pack not in self._traffic:
            self._traffic[pack] = self._find_constant_traffic(pack)
        return self._traffic[pack]

    def _find_constant_traffic(self, pack: bool) -> float:
        size = self.work.constant_bytes(0, self.work.channels)
        if not size or not pack or not self.hardware.dma.decoder_bytes_per_cycle:
            return size
        constants = self.work.constants(0, self.work.channels)
        if constants.weights is None:
            return size
        return len(constants.plain) + constants.weights.size * share(constants)

    def bands(self, position: int, row_step: int) -> tuple[int, int]:
        """Bytes of an input that row tiles need: the one that needs most, and all together.

        Those between the first and the last need equally much.
        """
        key = (position, row_step)
        found = self._bands.get(key)
        if found is None:
            rows, count = self.work.rows, -(-self.work.rows // row_step)
            first, middle, last = (
                band_bytes(self.work, position, number * row_step, min((number + 1) * row_step, rows))
                for number in (0, count // 2, count - 1)
            )
            together = first if count == 1 else first + last + (count - 2) * middle
            found = self._bands[key] = max(first, middle, last), together
        return found

    def channels(self, cut: Cut) -> _Channels:
        """How a cut divides the channels."""
        key = (cut.channel_step, cut.last_channels)
        found = self._channels.get(key)
        if found is None:
            work = self.work
            spans = _spans(work.channels, cut.channel_step)
            if cut.last_channels:
                spans = list(Counter(last - first for first, last in cut.channels(work)).items())
            found = self._channels[key] = _Channels(
                spans,
                sum([count for _, count in spans]),
                sum([count * aligned(work.constant_bytes(0, each)) for each, count in spans]),
                aligned(work.constant_bytes(0, min(cut.channel_step, work.channels))),
            )
        return found

    def cuts(self, residency: Residency) -> list[list[Cut]]:
        """`cuts` of the work."""
        streams_rows = _streams_rows(residency)
        if streams_rows not in self._cuts:
            self._cuts[streams_rows] = list(cuts(self.work, residency))
        return self._cuts[streams_rows]


class TileSearch:
    """The cuts of one work under one residency: what each needs and costs, and the best that fits."""

    def __init__(
        self,
        work: Work,
        residency: Residency,
        hardware: Hardware,
        depth: Depth = DOUBLE,
        pack: bool = True,
        end: End = MIDDLE,
        costs: TileCosts | None = None,
    ) -> None:
        self.work = work
        self.residency = residency
        self.hardware = hardware
        self._depth = depth
        self._end = end
        self._costs = costs or TileCosts(work, hardware)
        self._pack = pack
        self._transfers = self._costs.transfers
        self._tile_overhead = hardware.dma.setup_cycles + hardware.front_end.decode_cycles * 2
        self._inputs: dict[int, int] = {}
        self._smallest_buffers: int | None = None
        self._best: dict[int, tuple[float, Cut] | None] = {}

    @property
    def unit(self) -> Unit:
        """The unit that executes the tiles."""
        return self._costs.unit

    @cached_property
    def _constant_traffic(self) -> float:
        return self._costs.constant_traffic(self._pack)

    def tile_cycles(self, rows: int, channels: int) -> int:
        """The machine's cost of a tile of this size."""
        return self._costs.cycles(rows, channels)

    def buffer_bytes(self, cut: Cut) -> int:
        """Scratchpad bytes of the streaming buffers: of each that more than one tile needs as many as `Depth` says."""
        work, depth = self.work, self._depth
        channels = self._costs.channels(cut)
        if cut.keep_constants and not cut.channels_outside:
            size = channels.kept_bytes
        else:
            size = channels.tile_bytes * min(depth.constants, channels.tiles)
        size += self._input_bytes(cut.row_step)
        if not self.residency.output:
            row_tiles = -(-work.rows // cut.row_step)
            tile = output_bytes(work, min(cut.row_step, work.rows), min(cut.channel_step, work.channels))
            size += aligned(tile) * min(depth.results, row_tiles * channels.tiles)
        return size

    def _input_bytes(self, row_step: int) -> int:
        """Scratchpad bytes of the streaming buffers of the inputs."""
        found = self._inputs.get(row_step)
        if found is None:
            buffers = min(self._depth.inputs, -(-self.work.rows // row_step))
            found = self._inputs[row_step] = sum(
                aligned(self._costs.bands(position, row_step)[0]) * buffers
                for position, resident in enumerate(self.residency.inputs)
                if not resident
            )
        return found

    def cycles(self, cut: Cut, limit: float = inf) -> float:
        """Estimated time: transfers overlap computation but for one tile at either end.

        Cuts whose transfers alone take `limit` or more are not looked at any closer; what they get is no less.
        """
        channels = self._costs.channels(cut)
        tiles = -(-self.work.rows // cut.row_step) * channels.tiles
        transfer = self.transfer_cycles(cut)
        overhead = tiles * self._tile_overhead
        if transfer + overhead >= limit:
            return transfer + overhead
        compute = self.computing_cycles(cut)
        hidden = min(compute, transfer) * SHARED
        return max(compute, transfer) + hidden + self._exposed(cut, compute, transfer, tiles) + overhead

    def computing_cycles(self, cut: Cut) -> int:
        """The machine's cost of all tiles."""
        rows, spans = _spans(self.work.rows, cut.row_step), self._costs.channels(cut).spans
        return sum([rn * cn * self.tile_cycles(r, c) for r, rn in rows for c, cn in spans])

    @property
    def constant_cycles(self) -> float:
        """The time in which all constants pass the DRAM port."""
        return self._transfers.dram_cycles(self._constant_traffic)

    def transfer_cycles(self, cut: Cut) -> float:
        """The time of all transfers between DRAM and scratchpad, instructions included."""
        work, residency = self.work, self.residency
        spans, channel_tiles, _, _ = self._costs.channels(cut)
        row_tiles = -(-work.rows // cut.row_step)
        tiles = row_tiles * channel_tiles
        reload = row_tiles if not cut.channels_outside and not cut.keep_constants and channel_tiles > 1 else 1
        traffic = self._constant_traffic * reload
        loads = channel_tiles * reload if self._constant_traffic else 0
        for position, resident in enumerate(residency.inputs):
            if not resident:
                passes = channel_tiles if cut.channels_outside and row_tiles > 1 else 1
                traffic += self._costs.bands(position, cut.row_step)[1] * passes
                loads += row_tiles * passes
            elif residency.loaded[position]:
                traffic += band_bytes(work, position, 0, work.rows)
                loads += row_tiles
        if not residency.output:
            traffic += sum([count * self._stored(size, cut.channel_step) for size, count in spans])
        traffic += (tiles + loads + (0 if residency.output else tiles)) * WORD_BYTES
        # A channel sets up a load only when the bytes of the one before it have arrived.
        return self._transfers.dram_cycles(traffic) + loads * self._transfers.gap_cycles

    def _exposed(self, cut: Cut, compute: float, transfer: float, tiles: int) -> float:
        """What hides behind nothing: transfers of the first tile or computation of the last one.

        Most of it does hide behind the layers before and after, where there are any: a quarter is the price.
        """
        if compute >= transfer:
            return self._first_cycles(cut) if self._end.first else transfer / tiles * PRICE
        if not self._end.last:
            last = compute / tiles * PRICE
            if self._end.first:
                part = (compute / transfer) ** 8
                last = part * self._first_cycles(cut) + (1 - part) * last
            return last
        arrived = finished = 0.0
        for tile in cut.tiles(self.work):
            cycles = self.tile_cycles(tile.rows, tile.channels)
            arrived += transfer * cycles / compute
            finished = max(arrived, finished) + cycles
        return finished - transfer

    def _first_cycles(self, cut: Cut) -> float:
        """The time of the transfers that the first tile needs."""
        traffic, loads = 0.0, 0
        if self._constant_traffic:
            whole = cut.keep_constants and not cut.channels_outside
            step = self.work.channels if whole else min(cut.channel_step, self.work.channels)
            traffic, loads = traffic + self._constant_traffic * step / self.work.channels, 1
        for position, resident in enumerate(self.residency.inputs):
            if not resident or self.residency.loaded[position]:
                rows = min(cut.row_step, self.work.rows)
                traffic += band_bytes(self.work, position, 0, rows)
                loads += 1
        return self._transfers.dram_cycles(traffic) + loads * self._transfers.gap_cycles

    def _stored(self, channels: int, step: int) -> float:
        """DRAM bytes of storing some channels of all pixels: whole bursts, shared only by pixels side by side.

        Runs of `channels` bytes begin at multiples of g = gcd(pixel, step, burst) in their bursts, evenly, and
        so touch (channels + burst - g) / burst of them.
        """
        work, burst = self.work, self.hardware.dram.burst_bytes
        pixels = output_bytes(work, work.rows, 1)
        if channels == work.channels:
            return pixels * channels
        grid = gcd(work.channels, step, burst)
        return pixels * min(channels + burst - grid, work.channels)

    def smallest_buffers(self) -> int:
        """Bytes of scratchpad below which no cut fits."""
        if self._smallest_buffers is None:
            work = self.work
            step = min(work.channel_step, work.channels) if work.channel_step else work.channels
            self._smallest_buffers = min(
                self.buffer_bytes(Cut(row_step, channel_step, outside, keep))
                for row_step in {1, work.rows}
                for channel_step in {step, work.channels}
                for outside, keep in ((True, False), (False, True), (False, False))
            )
        return self._smallest_buffers

    def best(self, budget_bytes: int) -> tuple[float, Cut] | None:
        """The fastest cut whose buffers fit the budget, with its estimated cycles; None if none fits."""
        if budget_bytes not in self._best:
            self._best[budget_bytes] = self._search(budget_bytes)
        return self._best[budget_bytes]

    def ranked(self, budget_bytes: int) -> list[Cut]:
        """All cuts whose buffers fit, the fastest by estimate first; equally fast ones in the order of `cuts`."""
        fitting = [
            cut
            for group in self._costs.cuts(self.residency)
            for cut in group
            if self.buffer_bytes(cut) <= budget_bytes
        ]
        return sorted(fitting, key=self.cycles)

    def _search(self, budget_bytes: int) -> tuple[float, Cut] | None:
        best: tuple[float, Cut] | None = None
        for group in self._costs.cuts(self.residency):
            worse = 0
            for cut in group:
                if self.buffer_bytes(cut) > budget_bytes:
                    continue
                cycles = self.cycles(cut, inf if best is None else best[0])
                if best is None or cycles < best[0]:
                    best, worse = (cycles, cut), 0
                    continue
                worse += 1
                if worse >= _PATIENCE:
                    break
        return best if best is None or not self._end.last else self._tapered(best, budget_bytes)

    def _tapered(self, best: tuple[float, Cut], budget_bytes: int) -> tuple[float, Cut]:
        """The best cut with a smaller last tile, so that little is left to compute when the last weights are there."""
        work = self.work
        for group in self._costs.cuts(self.residency) if work.channel_step else ():
            for cut in group:
                for part in _TAPERS:
                    last = -(-work.channels // (part * work.channel_step)) * work.channel_step
                    if not 0 < last < min(cut.channel_step, work.channels):
                        continue
                    tapered = replace(cut, last_channels=last)
                    if self.buffer_bytes(tapered) <= budget_bytes:
                        best = min(best, (self.cycles(tapered, best[0]), tapered), key=lambda pair: pair[0])
        return best


def _streams_rows(residency: Residency) -> bool:
    """Whether any operand comes or goes row by row."""
    return not residency.output or not all(residency.inputs) or any(residency.loaded)


def cuts(work: Work, residency: Residency) -> Iterator[list[Cut]]:
    """The cuts worth a look, coarse ones first: one list per row step."""
    row_steps = [work.rows]
    if _streams_rows(residency):
        row_steps = list(dict.fromkeys(-(-work.rows // parts) for parts in PARTS if parts <= work.rows))
        if row_steps[-1] != 1:
            row_steps.append(1)
    channel_steps = [work.channels]
    if work.channel_step:
        groups = -(-work.channels // work.channel_step)
        steps = (-(-groups // parts) * work.channel_step for parts in PARTS if parts <= groups)
        channel_steps = list(dict.fromkeys(min(step, work.channels) for step in steps))
        if channel_steps[-1] > work.channel_step:
            channel_steps.append(work.channel_step)
    for row_step in row_steps:
        found = []
        for step in channel_steps:
            if row_step >= work.rows:
                found.append(Cut(row_step, step, True, False))
            elif step >= work.channels:
                found.append(Cut(row_step, step, False, True))
            else:
                found.append(Cut(row_step, step, True, False))
                found.append(Cut(row_step, step, False, True))
                found.append(Cut(row_step, step, False, False))
        yield found
