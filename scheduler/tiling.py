"""Tiles: how a work is cut so that its buffers fit and transfers hide behind computation.

The search uses the machine's own `cost` of the instructions that each cut would give.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from npusim.isa.hardware import Hardware
from npusim.isa.instruction import WORD_BYTES
from npusim.kernels.work import Tile, TileAddresses, Work
from npusim.scheduler.allocate import aligned
from npusim.scheduler.packed import share

_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192)

_PATIENCE = 3
"""Cuts get finer along the search; after this many without gain only overhead grows."""


@dataclass(frozen=True, slots=True)
class Residency:
    """Which operands of a work live in the scratchpad as a whole; `loaded` inputs arrive from DRAM piecewise."""

    inputs: tuple[bool, ...]
    output: bool
    loaded: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """A way to tile a work.

    channels_outside: for each channel range all rows (constants loaded once), else for each row range all
                      channels (feature map loaded once).
    keep_constants:   with rows outside, the constants of all channels stay for the whole work.
    """

    row_step: int
    channel_step: int
    channels_outside: bool
    keep_constants: bool

    def tiles(self, work: Work) -> list[Tile]:
        """The tiles in order of execution."""
        rows = [(r, min(r + self.row_step, work.rows)) for r in range(0, work.rows, self.row_step)]
        channels = [
            (c, min(c + self.channel_step, work.channels)) for c in range(0, work.channels, self.channel_step)
        ]
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


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a cut needs and costs: scratchpad bytes, DRAM bytes, cycles."""

    buffer_bytes: int
    cycles: float


def _spans(total: int, step: int) -> list[tuple[int, int, int]]:
    """(first, last, repetitions) of the distinct sizes that a step cuts a total into."""
    whole, rest = divmod(total, step)
    found = [(0, step, whole)] if whole else []
    if rest:
        found.append((total - rest, total, 1))
    return found


def tile_cycles(work: Work, tile: Tile, hardware: Hardware) -> int:
    """The machine's cost of one tile."""
    pixel_bytes = work.channels
    address = TileAddresses((0,) * len(work.inputs), 0, 0, work.output.row_bytes, pixel_bytes)
    return work.emit(tile, address).cost(hardware).cycles


def _constant_traffic(work: Work, hardware: Hardware) -> float:
    """Bytes that all constants take in DRAM: weights packed if the hardware has a decoder."""
    size = work.constant_bytes(0, work.channels)
    if not size or not hardware.dma.decoder_bytes_per_cycle:
        return size
    constants = work.constants(0, work.channels)
    if constants.weights is None:
        return size
    return len(constants.plain) + constants.weights.size * share(constants.weights, constants.zero_point)


def _band_total(work: Work, position: int, row_step: int, row_tiles: int) -> int:
    """Bytes of an input that all row tiles load; tiles between the first and the last need equally much."""
    first = band_bytes(work, position, 0, min(row_step, work.rows))
    if row_tiles == 1:
        return first
    last = band_bytes(work, position, (row_tiles - 1) * row_step, work.rows)
    middle = row_tiles // 2
    inner = band_bytes(work, position, middle * row_step, min((middle + 1) * row_step, work.rows))
    return first + (row_tiles - 2) * inner + last


def estimate(work: Work, cut: Cut, residency: Residency, hardware: Hardware) -> Estimate:
    """Scratchpad bytes and cycles of a cut; transfers overlap computation except for one tile at either end."""
    rows, channels = _spans(work.rows, cut.row_step), _spans(work.channels, cut.channel_step)
    row_tiles, channel_tiles = sum(n for *_, n in rows), sum(n for *_, n in channels)
    tiles = row_tiles * channel_tiles
    compute = 0
    for r0, r1, rn in rows:
        for c0, c1, cn in channels:
            compute += rn * cn * tile_cycles(work, Tile(r0, r1, c0, c1), hardware)
    constants = work.constant_bytes(0, work.channels)
    chunk = max(work.constant_bytes(c0, c1) for c0, c1, _ in channels)
    reload = row_tiles if not cut.channels_outside and not cut.keep_constants and channel_tiles > 1 else 1
    traffic = _constant_traffic(work, hardware) * reload
    if cut.keep_constants and not cut.channels_outside:
        buffers = aligned(constants) + channel_tiles * 16
    else:
        buffers = aligned(chunk) * min(2, channel_tiles)
    for position, resident in enumerate(residency.inputs):
        if resident and not residency.loaded[position]:
            continue
        bands = _band_total(work, position, cut.row_step, row_tiles)
        if resident:
            traffic += band_bytes(work, position, 0, work.rows)
            continue
        traffic += bands * (channel_tiles if cut.channels_outside and row_tiles > 1 else 1)
        middle = min(cut.row_step * (row_tiles // 2), work.rows - cut.row_step) if row_tiles > 1 else 0
        widest = band_bytes(work, position, middle, min(middle + cut.row_step, work.rows))
        buffers += aligned(widest) * min(2, row_tiles)
    if not residency.output:
        buffers += aligned(output_bytes(work, cut.row_step, cut.channel_step)) * min(2, tiles)
        traffic += output_bytes(work, work.rows, work.channels)
    traffic += tiles * 2 * WORD_BYTES
    transfer = traffic * hardware.clock_mhz / (hardware.dram.bandwidth_gb_per_s * 1000)
    # Transfers of the first tile hide behind the layer before, mostly; computation of the last one only
    # if the layer is not the last. A quarter of what is exposed in isolation is the price.
    exposed = min(compute, transfer) / tiles
    overhead = tiles * (hardware.dma.setup_cycles + hardware.front_end.decode_cycles * 2)
    return Estimate(buffers, max(compute, transfer) + exposed / 4 + overhead)


def cuts(work: Work, residency: Residency) -> Iterator[list[Cut]]:
    """The cuts worth a look, coarse ones first: one list per row step."""
    streams_rows = not residency.output or not all(residency.inputs) or any(residency.loaded)
    row_steps = [work.rows]
    if streams_rows:
        row_steps = list(dict.fromkeys(-(-work.rows // parts) for parts in _PARTS if parts <= work.rows))
        if row_steps[-1] != 1:
            row_steps.append(1)
    channel_steps = [work.channels]
    if work.channel_step:
        groups = -(-work.channels // work.channel_step)
        steps = (-(-groups // parts) * work.channel_step for parts in _PARTS if parts <= groups)
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


def smallest_buffers(work: Work, residency: Residency, hardware: Hardware) -> int:
    """Bytes of scratchpad below which no cut of the work fits."""
    return min(
        estimate(work, cut, residency, hardware).buffer_bytes for cut in _extreme_cuts(work, residency)
    )


def _extreme_cuts(work: Work, residency: Residency) -> Iterator[Cut]:
    step = min(work.channel_step, work.channels) if work.channel_step else work.channels
    for row_step in (1, work.rows):
        for channel_step in (step, work.channels):
            yield Cut(row_step, channel_step, True, False)
            yield Cut(row_step, channel_step, False, False)


def choose(work: Work, residency: Residency, hardware: Hardware, budget_bytes: int) -> Cut | None:
    """The fastest cut whose buffers fit the budget; None if none fits."""
    best: tuple[float, Cut] | None = None
    idle_groups = 0
    for group in cuts(work, residency):
        improved, worse = False, 0
        for cut in group:
            found = estimate(work, cut, residency, hardware)
            if found.buffer_bytes > budget_bytes:
                continue
            if best is None or found.cycles < best[0]:
                best, improved, worse = (found.cycles, cut), True, 0
                continue
            worse += 1
            if worse >= _PATIENCE:
                break
        idle_groups = 0 if improved or best is None else idle_groups + 1
        if idle_groups >= _PATIENCE:
            break
    return None if best is None else best[1]
