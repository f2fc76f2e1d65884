"""Whether any element over some dimensions is true."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operators.reduction.selection import TRUTHS, selecting_operator

OPERATOR = selecting_operator("reduce_any", np.logical_or, True, TRUTHS)
