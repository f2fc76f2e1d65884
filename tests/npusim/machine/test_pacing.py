"""The pace of a transfer: one entry for each grant of the port, wherever and in whatever direction it walks."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.isa.hardware.file import hardware
from npusim.isa.instructions.beats import Beats, straight
from npusim.isa.instructions.region import Region, Space
from npusim.machine.pacing import pace
from npusim.machine.request import cut

TIMING = hardware("edge-128").port_timing(Space.DRAM)


@pytest.mark.parametrize("seed", range(200))
def test_there_is_a_pace_for_every_grant(seed: int) -> None:
    """Also of copies that walk down over the borders of grants, from near the beginning of one."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 9))
    counts = tuple(int(count) for count in rng.integers(1, 9, 3))
    strides = [int(rng.integers(size, 90)) for _ in range(2)]
    signed = (strides[0] * int(rng.choice([-7, 7])), strides[1] * int(rng.choice([-1, 1])))
    region = Region(Space.DRAM, 0, (*counts[:2], size), signed)
    region = region._replace(address=-region.rising.address + int(rng.integers(0, 2 * TIMING.grant_bytes)))
    run = straight(size, 8)
    for write in (False, True):
        beats = Beats(run, counts[0] * counts[1], run.beats * (not write), run.beats * write)
        found = pace(region, write, beats, 20, TIMING)
        entries = found.not_before if write else found.landing
        if entries is None:  # the port alone decides, as no burst takes long
            assert min(signed) > 0
        else:
            assert len(entries) == len(cut(region, TIMING)[0])
