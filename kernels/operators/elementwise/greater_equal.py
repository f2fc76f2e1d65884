"""greater_equal: whether the first of two elements is larger or equal; operands broadcast."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operators.elementwise.comparison import comparing_operator

OPERATOR = comparing_operator("greater_equal", np.greater_equal)
