"""logical_xor: whether one of two truths holds and the other does not; operands broadcast."""

from __future__ import annotations

import numpy as np

from npusim.kernels.lowering.elementwise import lower_comparison
from npusim.kernels.operators.elementwise.logic import logical_operator

OPERATOR = logical_operator(
    "logical_xor", np.logical_xor, lambda call: lower_comparison(call, "not_equal", "codes", {})
)
