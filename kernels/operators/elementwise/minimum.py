"""minimum: the smaller of two elements; operands broadcast."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operators.elementwise.selection import selecting_operator

OPERATOR = selecting_operator("minimum", np.minimum)
