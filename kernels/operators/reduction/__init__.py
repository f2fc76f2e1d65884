"""Reductions along axes: sums, means, extrema, softmax."""
