"""The gaps in a program's code: behind a barrier with `align`, it continues at a multiple of bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npusim.isa.instructions.control import Barrier
from npusim.isa.instructions.table import column


def gaps(code: NDArray[np.uint8]) -> dict[int, int]:
    """Return the multiples of bytes at which code continues, by the position of the barrier, in rising order."""
    barriers = np.flatnonzero(code[:, 0] == Barrier.opcode)
    powers = column(Barrier, code[barriers], "align").tolist()
    return {position: 1 << power for position, power in zip(barriers.tolist(), powers, strict=True) if power}
