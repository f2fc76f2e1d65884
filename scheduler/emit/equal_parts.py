"""Equal parts of a program: found, aligned in memory, and repeated.

Two instructions of neighbouring parts are equal if they differ in nothing but addresses outside of the scratchpad and
in the counts of their waits, which are equal relative to the instructions before them. Host calls are equal if their
rows of the host-call table differ in nothing but names and such addresses.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import HostCall, Placement
from npusim.isa.hardware.units import PRODUCERS
from npusim.isa.instructions.control import Barrier, Call
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.region import Space
from npusim.isa.instructions.table import column, decode_again, decode_all, row_of, with_column
from npusim.isa.instructions.word import WAITS
from npusim.isa.program.program import Buffer, MemoryImage, Program
from npusim.isa.program.repeat import Range, Repeat

FEWEST = 3
"""Fewest equal parts: the machine compares its states before the second and before the third."""

_ADDRESSES = ("index", "source", "target")
"""Fields with an address, each beside a field with the memory that it is in."""

Code = NDArray[np.uint8]
Numbers = NDArray[np.int64]


class Parts(NamedTuple):
    """Equal parts: the first instruction of the first one, the instructions of each, and how many there are."""

    first: int
    size: int
    number: int

    @property
    def end(self) -> int:
        """The instruction behind the last part."""
        return self.first + self.number * self.size


def equal_parts(program: Program, layers: int) -> Parts | None:
    """Return the longest run of equal parts of a program, each with so many layers; None if there are fewer than 3.

    From each part to the next one, an address outside of the scratchpad rises by a step that is the same for all parts.
    """
    counts = np.bincount(program.layer_of, minlength=len(program.layers))
    sums = np.convolve(counts, np.ones(layers, np.int64), "valid")
    sizes = [size for size, _ in Counter(sums.tolist()).most_common(_MOST_SIZES)]
    plain, behind = _normalized(program)
    places = _places(program)
    layer_of = program.layer_of.astype(np.int64)
    best = None
    for size in sizes:
        if not 0 < size < len(plain):
            continue
        same = layer_of[size:] - layer_of[:-size] == layers
        same &= (behind[:-size] == behind[size:]).all(axis=1) & (plain[:-size] == plain[size:]).all(axis=1)
        edges = np.flatnonzero(np.diff(np.concatenate(([0], same, [0])))).tolist()
        for first, end in zip(edges[::2], edges[1::2], strict=True):
            parts = _steady(places, Parts(first, size, (end - first) // size + 1))
            if parts.number >= FEWEST and (best is None or parts.number > best.number):
                best = parts
    return best


_MOST_SIZES = 3
"""Numbers of instructions in as many successive layers that are tried as the size of a part, most frequent first."""


def _normalized(program: Program) -> tuple[Code, Numbers]:
    """Return the instruction words in a form in which those of equal parts are equal, and their relative waits.

    The words have no addresses outside of the scratchpad and no counts of waits. Host calls have the number of their
    first equal row in the host-call table. A relative wait, [n, WAITS], is the number of completions between the
    awaited one and the instruction, and -1 where a wait is unused.
    """
    code = np.array(program.code)
    done = _completed(program)
    behind = np.zeros((len(code), WAITS), np.int64)
    for number, (name, units, counts) in enumerate(_waits(code)):
        behind[:, number] = np.where(counts > 0, done[np.arange(len(code)), units] - counts, -1)
        code = with_column(Barrier, code, name, np.zeros(len(code), np.int64))
    for row, rows, name, spaces, addresses in _addresses(program.code):
        kept = np.where(spaces == Space.SCRATCHPAD, addresses, 0)
        code[rows] = with_column(row, code[rows], name, kept)
    at, numbers = _calls(code)
    firsts = np.array(_first_equal(program.host_calls), np.int64)
    code[at] = with_column(Call, code[at], "index", firsts[numbers])
    return code, behind


def _places(program: Program) -> Numbers:
    """Return the addresses outside of the scratchpad that each instruction names, and 0 for all others, [n, places]."""
    at, numbers = _calls(program.code)
    of_calls = [
        [
            place.address if place.space != Space.SCRATCHPAD else 0
            for place in _ends(program.host_calls[number])
        ]
        for number in numbers.tolist()
    ]
    most = max(map(len, of_calls), default=0)
    places = np.zeros((len(program.code), len(_ADDRESSES) + most), np.int64)
    for call, of_call in zip(at.tolist(), of_calls, strict=True):
        places[call, len(_ADDRESSES) : len(_ADDRESSES) + len(of_call)] = of_call
    for _, rows, name, spaces, addresses in _addresses(program.code):
        places[rows, _ADDRESSES.index(name)] = np.where(spaces == Space.SCRATCHPAD, 0, addresses)
    return places


def _steady(places: Numbers, parts: Parts) -> Parts:
    """Return the longest run of parts with the same steps between the addresses of each part and the next one."""
    of_parts = places[parts.first : parts.end].reshape(parts.number, -1)
    steps = np.diff(of_parts, axis=0)
    begins = [0, *(np.flatnonzero((steps[1:] != steps[:-1]).any(axis=1)) + 1).tolist(), len(steps)]
    number, begin = max((end - begin + 1, begin) for begin, end in pairwise(begins))
    return Parts(parts.first + begin * parts.size, parts.size, number)


def _ends(call: HostCall) -> list[Placement]:
    """Return the placements of the operands and results that a host call has."""
    return [place for place in (*call.inputs, *call.outputs) if place is not None]


def _with_places(call: HostCall, change: Callable[[Placement], Placement]) -> HostCall:
    """Return a host call with other placements, which are changed in the order of `_ends`."""
    inputs = tuple(place and change(place) for place in call.inputs)
    return replace(call, inputs=inputs, outputs=tuple(map(change, call.outputs)))


def _calls(code: Code) -> tuple[Numbers, Numbers]:
    """Return which instructions call the host, and their rows of the host-call table."""
    at = np.flatnonzero(code[:, 0] == Call.opcode)
    return at, column(Call, code[at], "index")


def _first_equal(calls: Sequence[HostCall]) -> list[int]:
    """Return for each host call the first one that is equal but for names and addresses outside of the scratchpad."""
    plain = [replace(_with_places(call, _plain), name="") for call in calls]
    firsts: dict[str, list[int]] = {}
    first_parts = []
    for number, call in enumerate(plain):
        # Parameters cannot be hashed, so calls are compared with the different ones of their operator.
        others = firsts.setdefault(call.op, [])
        first = next((other for other in others if plain[other] == call), number)
        if first == number:
            others.append(number)
        first_parts.append(first)
    return first_parts


def _plain(place: Placement) -> Placement:
    """Return a placement without its name, and without its address if that is outside of the scratchpad."""
    return replace(place, name="", address=place.address if place.space == Space.SCRATCHPAD else 0)


def _completed(program: Program) -> Numbers:
    """Return how many instructions of each unit precede each instruction, [n + 1, units]."""
    done = np.zeros((len(program.code) + 1, len(PRODUCERS)), np.int64)
    units = np.array([instruction.unit for instruction in decode_all(program.code)])
    for unit in PRODUCERS:
        done[1:, unit] = np.cumsum(units == unit)
    return done


def _waits(code: Code) -> Iterator[tuple[str, Numbers, Numbers]]:
    """Yield the waits of instructions: the name of the field with the count, the units, and the counts."""
    for number in range(WAITS):
        unit, count = f"wait{number}.unit", f"wait{number}.count"
        yield count, column(Barrier, code, unit), column(Barrier, code, count)


def _addresses(code: Code) -> Iterator[tuple[type[Instruction], Numbers, str, Numbers, Numbers]]:
    """Yield each field of code that may hold an address outside of the scratchpad.

    It is the class, the instructions of the class, the field's name, the memories, and the addresses.
    """
    for opcode in sorted(set(code[:, 0].tolist())):
        row = row_of(opcode)
        names = {spec.name for spec in row.specs}
        rows = np.flatnonzero(code[:, 0] == opcode)
        for name in _ADDRESSES:
            if f"{name}_space" in names:
                spaces, addresses = (column(row, code[rows], field) for field in (f"{name}_space", name))
                yield row, rows, name, spaces, addresses


def aligned(program: Program, parts: Parts, stripe_bytes: int) -> tuple[Program, Parts]:
    """Return a program whose code has every part, and what follows the last, at a multiple of `stripe_bytes`."""
    starts = [parts.first + number * parts.size for number in range(parts.number + 1)]
    word = Barrier(align=stripe_bytes.bit_length() - 1).encode()
    code = np.insert(program.code, starts, np.frombuffer(word, np.uint8), axis=0)
    code.flags.writeable = False
    decode_again(code, program.code, np.insert(np.arange(len(program.code)), starts, 0))
    layer_of = np.insert(program.layer_of, starts, program.layer_of[[max(start - 1, 0) for start in starts]])

    def inserted(position: int) -> int:
        return bisect_left(starts, position + 1)

    buffers = tuple(
        _later(buffer, inserted(buffer.first_instruction), inserted(buffer.last_instruction))
        for buffer in program.buffers
    )
    result = replace(program, code=code, layer_of=layer_of, buffers=buffers)
    result = replace(result, dram_size_bytes=result.code_address + result.code_size_bytes)
    return result, Parts(parts.first + 1, parts.size + 1, parts.number)


def ranges_of(program: Program, parts: Parts) -> tuple[Range, ...] | None:
    """Return the address ranges in which each part accesses its own data; None if these ranges are not separate.

    Separate means: no row of a memory belongs to two of them, or to one and to what all parts access alike. Steps are
    whole stripes, so every part finds its rows in the same banks. What follows the parts does not go back before the
    last one.
    """
    hardware = program.hardware
    context = program.context
    accesses: list[list[tuple[int, int, int]]] = [
        [
            (region.space, region.address, region.end)
            for region in (*reads, *writes)
            if region.space != Space.SCRATCHPAD
        ]
        for reads, writes in (instruction.regions(context) for instruction in decode_all(program.code))
    ]
    begin = parts.end - parts.size
    stepped: list[tuple[int, int, int, int]] = []
    for position in range(begin, parts.end):
        for (space, address, end), (_, before, _) in zip(
            accesses[position], accesses[position - parts.size], strict=True
        ):
            stepped.append((space, address, end, address - before))
    ranges: list[Range] = []
    latest = None
    for space, address, end, step in sorted(stepped):
        if latest == (space, step):
            if step:
                ranges[-1] = ranges[-1]._replace(end=max(ranges[-1].end, end))
        elif step:
            ranges.append(Range(space, address - (parts.number - 1) * step, address, end, step))
        latest = space, step
    for range_ in ranges:
        if range_.step < 0 or range_.step % hardware.port_timing(Space(range_.space)).stripe_bytes:
            return None
    fixed = [(space, address, end) for space, address, end, step in stepped if not step]
    earlier = [access for of_one in accesses[:begin] for access in of_one]
    later = [access for of_one in accesses[parts.end :] for access in of_one]
    for range_ in ranges:
        row = hardware.port_timing(Space(range_.space)).row_bytes
        low, high = range_.first // row * row, -(-range_.end // row) * row
        others = [(other.space, other.first, other.end) for other in ranges if other is not range_]
        # What is used before the parts may lie behind the range, where its address changes, but not in its last row.
        unclear = [
            *(access for access in (*fixed, *others) if access[1] < high and access[2] > low),
            *(access for access in earlier if access[1] < high and access[2] > range_.end),
            *(access for access in later if access[1] < range_.last and access[2] > range_.first),
        ]
        if any(space == range_.space for space, _, _ in unclear):
            return None
    return tuple(ranges)


def whole_program(repeat: Repeat) -> Program:
    """Return the program in which the last part is repeated. A negative number of copies removes parts instead.

    Layers and tensors are still those of the short program.
    """
    short, end, size, copies = repeat.short, repeat.end, repeat.size, repeat.copies
    begin, kept = end - size, end + min(copies, 0) * size
    positions = np.concatenate(
        (np.arange(kept), np.tile(np.arange(begin, end), max(copies, 0)), np.arange(end, len(short.code)))
    )
    copy = np.concatenate(
        (
            np.zeros(kept, np.int64),
            np.repeat(np.arange(1, copies + 1), size),
            np.full(len(short.code) - end, copies),
        )
    )
    code = np.array(short.code[positions])
    done = _completed(short)
    per_part = done[end] - done[begin]
    for name, units, counts in _waits(code):
        # If parts are removed, an instruction behind them may wait for one of those. It would have ended long before.
        raised = np.where(counts > 0, np.maximum(counts + copy * per_part[units], 1), 0)
        code = with_column(Barrier, code, name, raised)
    for row, rows, name, spaces, addresses in _addresses(code):
        moved = addresses + _offsets(repeat, spaces, addresses, copy[rows])
        code[rows] = with_column(row, code[rows], name, moved)
    at, numbers = _calls(code)
    code[at] = with_column(Call, code[at], "index", np.arange(len(at)))
    code.flags.writeable = False
    if copies < 0:
        # The machine runs this one. Many of its words are still those of the longer program.
        decode_again(code, short.code, positions)
    added = sum(range_.step for range_ in repeat.ranges) * copies
    images = tuple(_lengthened_image(repeat, image) for image in short.images)
    constants = replace(short.constants, size_bytes=sum(image.size_bytes for image in images))  # type: ignore[type-var]
    whole = replace(
        short,
        code=code,
        layer_of=(short.layer_of[positions] + copy * repeat.layers).astype(np.uint32),
        code_address=short.code_address + added,
        constants=constants,
        images=images,
        host_calls=_host_calls(repeat, numbers, copy[at]),
        buffers=tuple(_buffers(repeat)),
    )
    return replace(whole, dram_size_bytes=whole.code_address + whole.code_size_bytes)


def with_fewer_parts(repeat: Repeat) -> Repeat:
    """Return the description of the same program by a short form with only 3 of the equal parts.

    Its buffers are left out, because only the machine executes it.
    """
    short, layers = repeat.short, repeat.layers
    removed = repeat.number - FEWEST
    fewer = whole_program(repeat._replace(copies=-removed))
    stop = int(fewer.layer_of[repeat.end - removed * repeat.size - 1])
    return repeat._replace(
        short=replace(
            fewer, layers=(*short.layers[:stop], *short.layers[stop + removed * layers :]), buffers=()
        ),
        number=FEWEST,
        copies=repeat.copies + removed,
        ranges=tuple(_with_fewer_parts(range_, repeat.ranges, removed) for range_ in repeat.ranges),
    )


def _with_fewer_parts(range_: Range, ranges: Sequence[Range], removed: int) -> Range:
    """Return an address range as it is after `removed` parts were taken out of all ranges of its memory."""
    below = sum(other.step for other in ranges if other.space == range_.space and other.end <= range_.first)
    first, last = range_.first - removed * below, range_.last - removed * (below + range_.step)
    return range_._replace(first=first, last=last, end=range_.end - removed * (below + range_.step))


def _offsets(repeat: Repeat, spaces: Numbers, addresses: Numbers, copy: Numbers) -> Numbers:
    """Return how much higher addresses are in the whole program.

    copy: how many copies of the last part precede the instruction, its own included.
    """
    offsets = np.zeros_like(addresses)
    for range_ in repeat.ranges:
        inside = (addresses >= range_.first) & (addresses < range_.end)
        above = addresses >= range_.end
        steps = np.where(above, repeat.copies, np.where(inside, copy, 0))
        offsets += np.where(spaces == range_.space, steps * range_.step, 0)
    return offsets


def _host_calls(repeat: Repeat, numbers: Numbers, copy: Numbers) -> tuple[HostCall, ...]:
    """Return the host-call table of the whole program, in the order of its instructions.

    numbers: the row of the short program's table for each call.
    copy:    how many copies of the last part precede the call, its own included.
    """
    calls = [repeat.short.host_calls[number] for number in numbers.tolist()]
    ends = [_ends(call) for call in calls]
    places = [place for of_call in ends for place in of_call]
    spaces, addresses = (
        np.array([getattr(place, name) for place in places], np.int64) for name in ("space", "address")
    )
    moved = addresses + _offsets(repeat, spaces, addresses, np.repeat(copy, list(map(len, ends))))
    left = iter(moved.tolist())

    def later(place: Placement) -> Placement:
        return replace(place, address=next(left))

    return tuple([_with_places(call, later) for call in calls])


def _lengthened_image(repeat: Repeat, image: MemoryImage) -> MemoryImage:
    below = [
        range_ for range_ in repeat.ranges if range_.space == image.space and range_.end <= image.address
    ]
    inside = [
        range_
        for range_ in repeat.ranges
        if range_.space == image.space and image.address <= range_.first < image.end
    ]
    return replace(
        image,
        address=image.address + repeat.copies * sum(range_.step for range_ in below),
        size_bytes=image.size_bytes + repeat.copies * sum(range_.step for range_ in inside),
    )


def _buffers(repeat: Repeat) -> Iterator[Buffer]:
    """Yield the buffers of the whole program: those of the last part but one again in each copy."""
    end, size = repeat.end, repeat.size
    for buffer in repeat.short.buffers:
        first, last = buffer.first_instruction, buffer.last_instruction
        if first >= end - size:
            yield _later(buffer, repeat.copies * size, repeat.copies * size)
            continue
        last_in_parts = first >= end - 2 * size
        yield _later(buffer, 0, repeat.copies * size if last >= end and not last_in_parts else 0)
        if last_in_parts:
            for number in range(1, repeat.copies + 1):
                yield _later(buffer, number * size, number * size)


def _later(buffer: Buffer, first: int, last: int) -> Buffer:
    begin, end = buffer.first_instruction + first, buffer.last_instruction + last
    return Buffer(buffer.name, buffer.address, buffer.size_bytes, begin, end)
