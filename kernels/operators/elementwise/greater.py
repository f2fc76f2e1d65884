"""greater: whether the first of two elements is larger; operands broadcast."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operators.elementwise.comparison import comparing_operator

OPERATOR = comparing_operator("greater", np.greater)
