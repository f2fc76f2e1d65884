"""The smallest element over some dimensions; of truths whether all are true."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operators.reduction.selection import NUMBERS, selecting_operator

OPERATOR = selecting_operator("reduce_min", np.minimum, False, NUMBERS)
