"""The DRAM that a run uses, region by region, in the order of its addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from npusim.isa.hardware.memories import Space

if TYPE_CHECKING:
    from npusim.isa.program.program import Program
    from npusim.numbers.run import RunResult


class DramRegion(NamedTuple):
    """A part of the DRAM that a run uses."""

    name: str
    kind: str
    address: int
    size_bytes: int


def used_bytes(result: RunResult) -> int:
    """The DRAM that a run uses, from address 0 on."""
    return max(stage.base(Space.DRAM) + stage.program.dram_size_bytes for stage in result.stages)


def regions(result: RunResult) -> list[DramRegion]:
    """The DRAM of a run; what is left between is for feature maps, alignment, and what crosses between programs."""
    known = dict.fromkeys(
        region for stage in result.stages for region in _known(stage.program, stage.base(Space.DRAM))
    )
    found: list[DramRegion] = []
    at, end = 0, used_bytes(result)
    for region in sorted((each for each in known if each.size_bytes), key=lambda each: each.address):
        if region.address > at:
            found.append(DramRegion("feature maps, alignment", "maps", at, region.address - at))
        found.append(region)
        at = max(at, region.address + region.size_bytes)
    if end > at:
        found.append(DramRegion("feature maps, alignment", "maps", at, end - at))
    return found


def _known(program: Program, base: int) -> Iterator[DramRegion]:
    """What a program has in the DRAM, which it sees from address `base` on."""
    for image in program.images:
        if image.space == Space.DRAM:
            spared = program.spared_bytes(Space.DRAM)
            name = f"constants, addresses of {spared} bytes more than they take" if spared else "constants"
            yield DramRegion(name, "constants", base + image.address, image.size_bytes)
    if program.code_space == Space.DRAM:
        yield DramRegion("instructions", "code", base + program.code_address, program.code_size_bytes)
    for kind, places in (("input", program.inputs), ("output", program.outputs)):
        for place in places:
            if place.space == Space.DRAM:
                yield DramRegion(place.name, kind, base + place.address, place.type.size_bytes)
