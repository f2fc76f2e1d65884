"""not_equal: whether two elements differ; operands broadcast."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operators.elementwise.comparison import comparing_operator

OPERATOR = comparing_operator("not_equal", np.not_equal, scaled_16=True)
