"""The largest element over some dimensions; of truths whether any is true."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operators.reduction.selection import NUMBERS, selecting_operator

OPERATOR = selecting_operator("reduce_max", np.maximum, True, NUMBERS)
