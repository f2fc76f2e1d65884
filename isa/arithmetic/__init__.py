"""Exact arithmetic of the NPU in numpy: requantization, vector unit, convolution, packed weights."""
