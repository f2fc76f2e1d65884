"""equal: whether two elements are equal; operands broadcast."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operators.elementwise.comparison import comparing_operator

OPERATOR = comparing_operator("equal", np.equal, scaled_16=True)
