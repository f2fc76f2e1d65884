"""Difference of two tensors, which may broadcast."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operators.elementwise.sums import summing_operator

OPERATOR = summing_operator("sub", np.subtract)
