"""The chips, one line each."""

from __future__ import annotations

from benchmarks.silicon import cortex_m7, ethos_u55, gap9, rockchip, stm32n6
from benchmarks.silicon.frame import Chip

CHIPS: tuple[Chip, ...] = (*ethos_u55.CHIPS, *gap9.CHIPS, *stm32n6.CHIPS, *cortex_m7.CHIPS, *rockchip.CHIPS)
