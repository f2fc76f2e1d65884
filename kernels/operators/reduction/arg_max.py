"""arg_max: the position of the largest element along one axis, the first one if there are several."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operators.reduction.position import position_operator

OPERATOR = position_operator("arg_max", np.argmax)
