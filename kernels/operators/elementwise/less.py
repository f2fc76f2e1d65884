"""less: whether the first of two elements is smaller; operands broadcast."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operators.elementwise.comparison import comparing_operator

OPERATOR = comparing_operator("less", np.less)
