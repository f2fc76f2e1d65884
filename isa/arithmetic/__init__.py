"""Exact integer arithmetic: output stage and vector unit, convolution through float products, packed weights."""
