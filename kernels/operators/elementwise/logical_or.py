"""logical_or: whether at least one of two truths holds; operands broadcast."""

from __future__ import annotations

import numpy as np

from npusim.kernels.lowering.elementwise import lower_truths
from npusim.kernels.operators.elementwise.logic import logical_operator

OPERATOR = logical_operator("logical_or", np.logical_or, lambda call: lower_truths(call, "max"))
