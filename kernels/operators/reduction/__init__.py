"""Axes combined: mean, softmax, index of the largest."""
