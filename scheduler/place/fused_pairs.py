"""Fused pairs: two consecutive works on different units, pipelined row tile by row tile.

The feature map between them stays in the scratchpad as a whole. A tile of the second work starts as soon as the first
work has written the rows that it needs, and runs beside the next tile of the first work. Unlike in a chain, nothing is
computed twice, but all constants of the first work must arrive before its first tile ends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import NamedTuple

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.kernels.lowering.work import Tile, Work
from npusim.scheduler.fit.cuts import Cut
from npusim.scheduler.fit.tiling import PRICE, SHARED, TileSearch
from npusim.scheduler.place.chains import Chain
from npusim.scheduler.place.residency import Residents

_PRICE = 1 / 8
"""Weight of the cycles of constants, which all arrive before the first tile: works before the pair hide most."""

_CHUNKS = 8
"""If channels can be cut, the constants of a tile take at most 1/8 of the scratchpad."""

PARTS = (2, 3, 4, 6, 8, 12, 16)
"""Candidate numbers of row tiles of the first work."""


Steps = tuple[tuple[tuple[Tile, ...], Tile | None], ...]
"""Per row step of a fused pair, the tiles of the first work, then the tile of the second that these make ready."""


@dataclass(frozen=True, slots=True)
class FusedPair:
    """The tile order of a fused pair, items `first` and `first + 1`."""

    first: int
    tiles: Steps

    @property
    def items(self) -> tuple[int, int]:
        """The indices of both items."""
        return self.first, self.first + 1


def plan_fused_pairs(residents: Residents, chains: Mapping[int, Chain]) -> dict[int, FusedPair]:
    """Return the fused pairs, by first item, that save most cycles together. No item is in two pairs."""
    chained = {index for chain in chains.values() for index in chain.items}
    # Dynamic programming from the last item to the first: the most cycles that all items from here on can save.
    gains = [0.0] * (len(residents.sharing.items) + 2)
    options: dict[int, FusedPair] = {}
    for index in range(len(residents.sharing.items) - 2, -1, -1):
        gains[index] = gains[index + 1]
        if chained.isdisjoint((index, index + 1)):
            gain, fused_pair = _best(residents, index)
            if fused_pair is not None and gain + gains[index + 2] > gains[index]:
                gains[index] = gain + gains[index + 2]
                options[index] = fused_pair
    fused_pairs: dict[int, FusedPair] = {}
    index = 0
    while index < len(residents.sharing.items):
        if index in options:
            fused_pairs[index] = options[index]
        index += 2 if index in options else 1
    return fused_pairs


def _best(residents: Residents, first: int) -> tuple[float, FusedPair | None]:
    """Return the fastest fused pair of an item and the next one, and the cycles that it saves by estimate."""
    chosen = residents.choices.fused_pairs.get(first)
    if any(residents.allowance(index).plain for index in (first, first + 1)):
        return 0.0, None
    if any(index in residents.choices.cuts for index in (first, first + 1)):
        return 0.0, None
    works = pair(residents, first)
    if works is None:
        return 0.0, None
    alone, computing = (
        residents.cycles(first) + residents.cycles(first + 1),
        residents.computing_cycles(first) + residents.computing_cycles(first + 1),
    )
    room = residents.capacity_bytes - residents.live_bytes_during(first, first + 1)
    known, key = (
        residents.network.memo.of(_Best),
        (_pair_key(residents, first, works), chosen, alone, computing, room),
    )
    best = known.get(key)
    if best is None:
        best = known[key] = _fastest(residents, first, works, *key)
    return best.gain, None if best.tiles is None else FusedPair(first, best.tiles)


class _Best(NamedTuple):
    """The cycles that the fastest fused pair saves by estimate, and its tiles; None if no pair saves any."""

    gain: float
    tiles: Steps | None


def _fastest(
    residents: Residents,
    first: int,
    works: tuple[Work, Work],
    pair_key: Hashable,
    parts: int | None,
    alone: float,
    computing: int,
    room: int,
) -> _Best:
    """Return the fastest fused pair of an item and the next one, of all numbers of row tiles or of the given one.

    alone, computing: estimated cycles, and computing cycles, of both works run one after the other.
    room:             bytes of the scratchpad that the pair may fill.
    """
    known = residents.network.memo.of(FusedTiles)
    best = _Best(0.0, None)
    for count in PARTS if parts is None else (parts,):
        if not 1 < count <= works[0].rows:
            continue
        fused_tiles = known.get((pair_key, count))
        if fused_tiles is None:
            tiles = _tiles(residents, first, works, -(-works[0].rows // count))
            fused_tiles = known[pair_key, count] = FusedTiles(
                tiles, (residents.searches[first], residents.searches[first + 1])
            )
        if fused_tiles.size_bytes > room or fused_tiles.follows < 2:
            continue
        # The estimate has the pair wait for transfers, but they may arrive while earlier layers compute. So cycles
        # that the pair computes longer than its works alone count against it even where transfers seem to hide them.
        gain = inf if parts else alone - fused_tiles.cycles + min(computing - fused_tiles.computing_cycles, 0)
        if gain > best.gain:
            best = _Best(gain, fused_tiles.tiles)
    return best


def _pair_key(residents: Residents, first: int, works: tuple[Work, Work]) -> Hashable:
    """Return the cache key of a fused pair: the two tile searches, and where the second layer reads the first."""
    sharing = residents.sharing
    between, base = sharing.outputs[first][0]
    a, b = works
    reads = tuple(
        [
            (offset + rows.offset_bytes, rows.row_bytes) if root == between else None
            for (root, offset), (rows, _) in zip(sharing.inputs[first + 1], b.inputs, strict=True)
        ]
    )
    written = base + a.output.offset_bytes, a.output.row_bytes
    return residents.searches[first], residents.searches[first + 1], written, reads


def pair(residents: Residents, first: int) -> tuple[Work, Work] | None:
    """Return the works of an item and the next one if the two can be fused; else None."""
    sharing = residents.sharing
    if first + 1 >= len(sharing.items):
        return None
    a, b = sharing.items[first].body, sharing.items[first + 1].body
    if not isinstance(a, Work) or not isinstance(b, Work) or not (a.by_rows and b.by_rows):
        return None
    if residents.searches[first].unit == residents.searches[first + 1].unit:
        return None
    reads = [[root for root, _ in sharing.inputs[index]] for index in (first, first + 1)]
    between, result = sharing.outputs[first][0][0], sharing.outputs[first + 1][0][0]
    if between not in residents.roots or between not in reads[1]:
        return None
    # The second work must not overwrite the first one's inputs, which later tiles still read. Nor may both load the
    # same storage from DRAM: loads arrive in the order of items, not of tiles.
    loaded = {root for root in reads[0] if sharing.storages[root].from_dram}
    if result in reads[0] or not loaded.isdisjoint(reads[1]) or between in reads[0]:
        return None
    return a, b


def _tiles(residents: Residents, first: int, works: tuple[Work, Work], row_step: int) -> Steps:
    """Return the row tiles of the first work, each with the tile of the second work that it makes ready, or None."""
    a, b = works
    channels = Cut(row_step, _channel_step(residents, a), False, True).channels(a)
    base = residents.sharing.outputs[first][0][1]
    tiles: list[tuple[tuple[Tile, ...], Tile | None]] = []
    done = 0
    for row in range(0, a.rows, row_step):
        last = min(row + row_step, a.rows)
        written = base + a.output.offset_bytes + last * a.output.row_bytes
        ready = (
            b.rows
            if last == a.rows
            else bisect_right(
                range(b.rows + 1), written, lo=1, key=lambda rows: _needs(residents, first, b, rows)
            )
            - 1
        )
        follows = Tile(done, ready, 0, b.channels) if ready > done else None
        tiles.append((tuple(Tile(row, last, *tile_channels) for tile_channels in channels), follows))
        done = max(done, ready)
    return tuple(tiles)


def _needs(residents: Residents, first: int, work: Work, rows: int) -> int:
    """Return where the bytes end, in the storage between two works, that the second's first `rows` rows need."""
    between = residents.sharing.outputs[first][0][0]
    ends = [0]
    for (root, offset), (rows_of, needed) in zip(
        residents.sharing.inputs[first + 1], work.inputs, strict=True
    ):
        if root == between:
            ends.append(offset + rows_of.offset_bytes + needed(0, rows)[1] * rows_of.row_bytes)
    return max(ends)


def _channel_step(residents: Residents, work: Work) -> int:
    """Return the channels per tile of the first work, so few that their constants fit between other buffers."""
    step = work.channels
    while work.channel_step and work.constant_bytes(0, step) * _CHUNKS > residents.capacity_bytes:
        smaller = -(-step // (2 * work.channel_step)) * work.channel_step
        if smaller >= step:
            break
        step = smaller
    return step


def _stage(steps: Steps, stage: int) -> list[Tile]:
    if stage == 0:
        return [tile for tiles, _ in steps for tile in tiles]
    return [tile for _, tile in steps if tile is not None]


def _cut(tiles: Sequence[Tile]) -> Cut:
    """Return a cut with the sizes of the given tiles that keeps constants in the scratchpad."""
    rows, channels = max(tile.rows for tile in tiles), max(tile.channels for tile in tiles)
    return Cut(rows, channels, channels_outside=False, keep_constants=True)


class FusedTiles:
    """A fused pair with its scratchpad bytes and estimated cycles.

    size_bytes: scratchpad bytes of the buffers of both works.
    follows:    number of tiles of the second work; a single tile has no tile of the first work to run beside.
    """

    def __init__(self, tiles: Steps, searches: tuple[TileSearch, TileSearch]) -> None:
        self.tiles = tiles
        self.follows = len(_stage(tiles, 1))
        self._searches = searches
        self._cuts = [_cut(_stage(tiles, stage)) for stage in (0, 1)]
        self.size_bytes = sum(
            search.buffer_bytes(cut) for search, cut in zip(searches, self._cuts, strict=True)
        )

    @cached_property
    def computing_cycles(self) -> float:
        """Cycles of the pair if no tile waits for transfers: a pipeline of two units."""
        searches = self._searches
        first = second = 0.0
        for a, b in self.tiles:
            first += sum(searches[0].tile_cycles(tile.rows, tile.channels) for tile in a)
            if b is not None:
                second = max(first, second) + searches[1].tile_cycles(b.rows, b.channels)
        return second

    @cached_property
    def cycles(self) -> float:
        """Cycles of the pair: the pipeline, or the transfers if they take longer, plus what is exposed."""
        searches, hardware = self._searches, self._searches[0].hardware
        transfer = sum(search.transfer_cycles(cut) for search, cut in zip(searches, self._cuts, strict=True))
        tiles = sum(len(_stage(self.tiles, stage)) for stage in (0, 1))
        overhead = tiles * (hardware.dma.setup_cycles + hardware.front_end.decode_cycles * 2)
        constants = sum(search.constant_cycles for search in searches) * _PRICE
        # All constants of the first work arrive before its first tile ends, so its own tiles hide none of the wait,
        # unlike in works that are cut by channels. Only earlier works can hide it, and the less the nearer transfers
        # come to the computing cycles: `late` is the exposed share. It grows continuously, because with a step faster
        # memory could give a slower schedule. Powers 1 and 3 lose up to 2.2 % over the bandwidths of digits_cnn.
        late = min(1.0, transfer / self.computing_cycles) ** 2 if self.computing_cycles else 1.0
        exposed = max(constants, self.computing_cycles * PRICE * late)
        # The shorter of both is hidden, but counts in part: DMA or units could work for other layers meanwhile.
        hidden = min(self.computing_cycles, transfer) * SHARED
        return max(self.computing_cycles, transfer) + exposed + hidden + overhead
