"""The search for tiles: buffers must fit the scratchpad, and transfers should overlap with computation.

Computing cycles come from the machine's own `cost` of the instructions of each cut.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import cached_property, lru_cache
from math import gcd, inf

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.word import WORD_BYTES
from npusim.kernels.lowering.work import Work
from npusim.scheduler.fit.allocate import aligned
from npusim.scheduler.fit.costs import TileCosts, sizes
from npusim.scheduler.fit.cuts import (
    DOUBLE,
    MIDDLE,
    Cut,
    Depth,
    End,
    Residency,
    band_bytes,
    finest_channels,
    output_bytes,
    slices,
)

PRICE = 1 / 4
"""Weight of a first or last tile's cycles that a neighbouring layer may hide."""

SHARED = 1 / 6
"""Weight of the cycles that overlap within the layer: the shorter of its transfers and its computation.

They still count, because they occupy the DMA or a unit, which could work for other layers meanwhile.
"""

_TAPERS = (64, 32, 16, 12, 8, 6, 4, 3, 2)
"""Divisors: a smaller last tile may have 1/64, 1/32, ..., 1/2 of all channels."""

_PATIENCE = 3
"""Number of cuts without gain after which the search skips the other cuts of a row step.

Channels get fewer along these cuts, so after that only the overhead grows.
"""


_MOST_BUDGETS = 64
"""Most budgets for which a cut is remembered. A study of scratchpads of many sizes asks for that many per layer."""


class Found:
    """A cache of the results of tile searches of equal works on equal machines.

    smallest_buffers: bytes of the smallest cut; None if not computed yet.
    best:             the fastest cut with its cycles, by budget; None if none fits.
    enough_bytes:     a budget that excludes no cut. `with_enough` is the fastest cut for it and for every larger one.
    """

    __slots__ = ("best", "enough_bytes", "smallest_buffers", "with_enough")

    def __init__(self) -> None:
        self.smallest_buffers: int | None = None
        self.best: dict[int, tuple[float, Cut] | None] = {}
        self.enough_bytes = inf
        self.with_enough: tuple[float, Cut] | None = None


@lru_cache(maxsize=2048)
def _found(work: Hashable, residency: Residency, depth: Depth, end: End, last_resort: bool) -> Found:
    """Return the cached results for all values that a search reads, except the budget."""
    return Found()


class TileSearch:
    """Search for the fastest cut of one work, for one placement of its operands.

    It estimates the scratchpad bytes and the cycles of each cut.
    """

    def __init__(
        self,
        work: Work,
        residency: Residency,
        hardware: Hardware,
        depth: Depth = DOUBLE,
        pack: bool = True,
        end: End = MIDDLE,
        costs: TileCosts | None = None,
        last_resort: bool = False,
    ) -> None:
        self.work = work
        self.residency = residency
        self.hardware = hardware
        self._depth = depth
        self._end = end
        self._costs = costs or TileCosts(work, hardware)
        self._pack = pack
        self._last_resort = last_resort
        self._transfers = self._costs.transfers
        self._inputs: dict[int, int] = {}
        key = self._costs.key(pack)
        self._found = Found() if key is None else _found(key, residency, depth, end, last_resort)

    @property
    def unit(self) -> Unit:
        """The unit that executes the tiles."""
        return self._costs.unit

    @cached_property
    def _constant_traffic(self) -> float:
        return self._costs.constant_traffic(self._pack)

    def tile_cycles(self, rows: int, channels: int) -> int:
        """Return the computing cycles of a tile of `rows` x `channels`, by the machine's cost model."""
        return self._costs.cycles(rows, channels)

    def buffer_bytes(self, cut: Cut) -> int:
        """Return the scratchpad bytes of all streaming buffers of a cut.

        An operand that several tiles stream has as many buffers as `Depth` says.
        """
        work, depth = self.work, self._depth
        channels = self._costs.channels(cut)
        if (cut.keep_constants and not cut.channels_outside) or (work.weights and work.entries > 1):
            size = channels.kept_bytes
        else:
            size = channels.tile_bytes * min(depth.constants, channels.tiles)
        if self._streams_weights:
            size += self._weight_bytes(cut)
        size += self._slice_bytes(cut) if slices(work, cut) else self._input_bytes(cut.row_step)
        row_tiles = -(-work.rows // cut.row_step)
        for position in self._streamed_outputs:
            rows, width = min(cut.row_step, work.rows), min(cut.channel_step, work.channels)
            tile = aligned(output_bytes(work, rows, width, position))
            size += tile * min(depth.results, row_tiles * channels.tiles * work.entries)
        return size

    @cached_property
    def _streams_weights(self) -> bool:
        """Return True if weights that are not constant come from DRAM tile by tile."""
        return self.work.weights is not None and not self.residency.inputs[-1]

    @cached_property
    def _streamed_outputs(self) -> list[int]:
        """The positions of the outputs that are stored to DRAM tile by tile."""
        return [position for position, resident in enumerate(self.residency.outputs) if not resident]

    def _weight_bytes(self, cut: Cut) -> int:
        """Return the scratchpad bytes of the streaming buffers of non-constant weights."""
        work, depth = self.work, self._depth
        assert work.weights is not None
        spans, tiles, _, _ = self._costs.channels(cut)
        if cut.keep_constants and not cut.channels_outside:
            kept = sum([count * aligned(work.weights.part_bytes(size)) for size, count in spans])
            return kept * min(depth.constants, work.entries)
        widest = aligned(work.weights.part_bytes(min(cut.channel_step, work.channels)))
        return widest * min(depth.constants, tiles * work.entries)

    def _input_bytes(self, row_step: int) -> int:
        """Return the scratchpad bytes of the streaming buffers of inputs that are loaded by rows."""
        size = self._inputs.get(row_step)
        if size is None:
            buffers = min(self._depth.inputs, -(-self.work.rows // row_step) * self.work.entries)
            size = self._inputs[row_step] = sum(
                aligned(self._costs.bands(position, row_step)[0]) * buffers
                for position in range(len(self.work.inputs))
                if not self.residency.inputs[position]
            )
        return size

    def _slice_bytes(self, cut: Cut) -> int:
        """Return the scratchpad bytes of the streaming buffers of inputs that are loaded by channel slices."""
        tiles = -(-self.work.rows // cut.row_step) * self._costs.channels(cut).tiles * self.work.entries
        return sum(
            aligned(self._costs.bands(position, cut.row_step)[0] // self.work.channels * cut.channel_step)
            * min(self._depth.inputs, tiles)
            for position in range(len(self.work.inputs))
        )

    def cycles(self, cut: Cut, limit: float = inf) -> float:
        """Return the estimated cycles of a cut: transfers overlap with computation except for one tile at either end.

        limit: if transfers and overhead alone reach it, their cycles are returned without a closer estimate. The cut
               is then at least that slow, so it cannot win.
        """
        channels = self._costs.channels(cut)
        tiles = -(-self.work.rows // cut.row_step) * channels.tiles * self.work.entries
        transfer = self.transfer_cycles(cut)
        overhead = tiles * self._transfers.tile_overhead
        if self._end.ahead is not None and not self._end.first:
            late = max(transfer / tiles - self._end.ahead, 0.0)
            return max(self.computing_cycles(cut) + late, transfer - self._end.ahead) + overhead
        if transfer + overhead >= limit:
            return transfer + overhead
        compute = self.computing_cycles(cut)
        hidden = min(compute, transfer) * SHARED
        return max(compute, transfer) + hidden + self._exposed(cut, compute, transfer, tiles) + overhead

    def computing_cycles(self, cut: Cut) -> int:
        """Return the computing cycles of all tiles, by the machine's cost model."""
        rows, spans = sizes(self.work.rows, cut.row_step), self._costs.channels(cut).spans
        return self.work.entries * sum(
            [rn * cn * self.tile_cycles(r, c) for r, rn in rows for c, cn in spans]
        )

    @property
    def constant_cycles(self) -> float:
        """Cycles in which all constants pass the port of their memory."""
        return self._transfers.cycles(self._transfers.constants, self._constant_traffic)

    def transfer_cycles(self, cut: Cut) -> float:
        """Return the cycles of all transfers between the scratchpad and other memories, instruction fetch included."""
        work, residency, entries = self.work, self.residency, self.work.entries
        spans, channel_tiles, _, _ = self._costs.channels(cut)
        row_tiles = -(-work.rows // cut.row_step) * entries
        tiles = row_tiles * channel_tiles
        reload = self._reloads(cut, channel_tiles, row_tiles)
        transfers = self._transfers
        maps = transfers.maps
        traffic = transfers.no_bytes()
        traffic[transfers.constants] += self._constant_traffic * reload
        constant_loads = channel_tiles * reload if self._constant_traffic else 0
        loads = 0
        for position in range(len(work.inputs)):
            if slices(work, cut):
                pixels = self._costs.bands(position, cut.row_step)[1] // work.channels * entries
                traffic[maps] += sum(
                    [count * pixels * self._touched(size, cut.channel_step) for size, count in spans]
                )
                loads += tiles
            elif not residency.inputs[position]:
                passes = channel_tiles if cut.channels_outside and row_tiles > 1 else 1
                traffic[maps] += self._costs.bands(position, cut.row_step)[1] * entries * passes
                loads += row_tiles * passes
            elif residency.loaded[position]:
                traffic[maps] += band_bytes(work, position, 0, work.rows) * entries
                loads += row_tiles
        if work.weights is not None and (self._streams_weights or residency.loaded[-1]):
            again = entries * (reload if self._streams_weights else 1)
            traffic[maps] += work.weights.part_bytes(work.channels) * again
            loads += channel_tiles * again
        for position in self._streamed_outputs:
            stored = sum([count * self._stored(size, cut.channel_step, position) for size, count in spans])
            traffic[maps] += stored * entries
        words = tiles + constant_loads + loads + tiles * len(self._streamed_outputs)
        traffic[transfers.code] += words * WORD_BYTES
        # Latencies add up: a channel sets up a load only when the bytes of the load before it have arrived.
        gaps = constant_loads * transfers.gap_cycles[transfers.constants] + loads * transfers.gap_cycles[maps]
        return transfers.together_cycles(traffic) + gaps

    def _reloads(self, cut: Cut, channel_tiles: int, row_tiles: int) -> int:
        """Return how often all constants are loaded, or all non-constant weights of a batch entry."""
        if cut.channels_outside or cut.keep_constants or channel_tiles == 1:
            return 1
        return -(-self.work.rows // cut.row_step) if self.work.weights else row_tiles

    def _exposed(self, cut: Cut, compute: float, transfer: float, tiles: int) -> float:
        """Return the exposed cycles: the transfers of the first tile, or the computation of the last one.

        A layer before or after hides most of them, so only the share `PRICE` counts there.
        """
        if compute >= transfer:
            return self._first_cycles(cut) if self._end.first else transfer / tiles * PRICE
        if not self._end.last:
            last = compute / tiles * PRICE
            if self._end.first:
                part = (compute / transfer) ** 8
                last = part * self._first_cycles(cut) + (1 - part) * last
            return last
        if not compute:
            return 0.0
        arrived = finished = 0.0
        for tile in cut.tiles(self.work):
            cycles = self.tile_cycles(tile.rows, tile.channels)
            arrived += transfer * cycles / compute
            finished = max(arrived, finished) + cycles
        return finished - transfer

    def _first_cycles(self, cut: Cut) -> float:
        """Return the cycles of the transfers that the first tile needs."""
        transfers = self._transfers
        traffic, loads, gaps = transfers.no_bytes(), 0, 0
        if self._constant_traffic:
            whole = cut.keep_constants and not cut.channels_outside
            step = self.work.channels if whole else min(cut.channel_step, self.work.channels)
            traffic[transfers.constants] += self._constant_traffic * step / self.work.channels
            gaps = transfers.gap_cycles[transfers.constants]
        for position in range(len(self.work.inputs)):
            if not self.residency.inputs[position] or self.residency.loaded[position]:
                rows = min(cut.row_step, self.work.rows)
                traffic[transfers.maps] += band_bytes(self.work, position, 0, rows)
                loads += 1
        if self.work.weights is not None and (self._streams_weights or self.residency.loaded[-1]):
            traffic[transfers.maps] += self.work.weights.part_bytes(min(cut.channel_step, self.work.channels))
            loads += 1
        return transfers.together_cycles(traffic) + gaps + loads * transfers.gap_cycles[transfers.maps]

    def _stored(self, channels: int, step: int, position: int) -> float:
        """Return the bytes at the port when `channels` channels of all pixels of an output are stored."""
        return output_bytes(self.work, self.work.rows, 1, position) * self._touched(channels, step)

    def _touched(self, channels: int, step: int) -> int:
        """Return the average bytes at the port per pixel when `channels` of its channels are transferred.

        Transfers are whole bursts. If all channels are transferred, neighbouring pixels share bursts. Else runs of
        `channels` bytes begin at multiples of g = gcd(pixel, step, burst) within a burst, all equally often, so
        a run touches (channels + burst - g) / burst bursts on average.
        """
        work, burst = self.work, self._transfers.map_burst_bytes
        if channels == work.channels:
            return channels
        grid = gcd(work.channels, step, burst)
        return min(channels + burst - grid, work.channels)

    def smallest_buffers(self) -> int:
        """Return the scratchpad bytes of the smallest cut; with fewer, no cut fits."""
        if self._found.smallest_buffers is None:
            work = self.work
            step = finest_channels(work, self.residency) if self._last_resort else work.channel_step
            step = min(step or work.channels, work.channels)
            self._found.smallest_buffers = min(
                self.buffer_bytes(Cut(row_step, channel_step, outside, keep))
                for row_step in {1, work.rows}
                for channel_step in {step, work.channels}
                for outside, keep in ((True, False), (False, True), (False, False))
            )
        return self._found.smallest_buffers

    def best(self, budget_bytes: int) -> tuple[float, Cut] | None:
        """Return the fastest cut whose buffers fit the budget, with its estimated cycles; None if none fits."""
        if budget_bytes >= self._found.enough_bytes:
            return self._found.with_enough
        if budget_bytes not in self._found.best:
            best, largest = self._search(budget_bytes)
            if largest <= budget_bytes:
                # The budget excluded no cut, so neither does a larger one, nor any that takes the largest of them.
                self._found.enough_bytes, self._found.with_enough = largest, best
                return best
            if len(self._found.best) >= _MOST_BUDGETS:
                self._found.best.clear()
            self._found.best[budget_bytes] = best
        return self._found.best[budget_bytes]

    def ranked(self, budget_bytes: int) -> list[Cut]:
        """Return all cuts whose buffers fit, fastest by estimate first; ties keep the order of `cuts`."""
        fitting = [
            cut
            for group in self._costs.cuts(self.residency, self._last_resort)
            for cut in group
            if self.buffer_bytes(cut) <= budget_bytes
        ]
        return sorted(fitting, key=self.cycles)

    def _search(self, budget_bytes: int) -> tuple[tuple[float, Cut] | None, int]:
        """Return the fastest cut that fits, and the bytes of the largest cut that the search looked at."""
        best: tuple[float, Cut] | None = None
        largest = 0
        for group in self._costs.cuts(self.residency, self._last_resort):
            worse = 0
            for cut in group:
                size_bytes = self.buffer_bytes(cut)
                largest = max(largest, size_bytes)
                if size_bytes > budget_bytes:
                    continue
                cycles = self.cycles(cut, inf if best is None else best[0])
                if best is None or cycles < best[0]:
                    best, worse = (cycles, cut), 0
                    continue
                worse += 1
                if worse >= _PATIENCE:
                    break
        return (
            (best, largest)
            if best is None or not self._end.last
            else self._tapered(best, largest, budget_bytes)
        )

    def _tapered(
        self, best: tuple[float, Cut], largest: int, budget_bytes: int
    ) -> tuple[tuple[float, Cut], int]:
        """Return the best cut with a smaller last tile, or `best` if none is faster; and the largest cut as `_search`.

        A small last tile leaves little to compute after the last weights have arrived.
        """
        work = self.work
        for group in self._costs.cuts(self.residency, self._last_resort) if work.channel_step else ():
            for cut in group:
                for part in _TAPERS:
                    last = -(-work.channels // (part * work.channel_step)) * work.channel_step
                    if not 0 < last < min(cut.channel_step, work.channels):
                        continue
                    tapered = replace(cut, last_channels=last)
                    size_bytes = self.buffer_bytes(tapered)
                    largest = max(largest, size_bytes)
                    if size_bytes <= budget_bytes:
                        best = min(best, (self.cycles(tapered, best[0]), tapered), key=lambda pair: pair[0])
        return best, largest
