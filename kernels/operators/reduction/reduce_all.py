"""Whether all elements over some dimensions are true."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operators.reduction.selection import TRUTHS, selecting_operator

OPERATOR = selecting_operator("reduce_all", np.logical_and, False, TRUTHS)
