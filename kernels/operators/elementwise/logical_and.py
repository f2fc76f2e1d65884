"""logical_and: whether both of two truths hold; operands broadcast."""

from __future__ import annotations

import numpy as np

from npusim.kernels.lowering.elementwise import lower_truths
from npusim.kernels.operators.elementwise.logic import logical_operator

OPERATOR = logical_operator("logical_and", np.logical_and, lambda call: lower_truths(call, "min"))
