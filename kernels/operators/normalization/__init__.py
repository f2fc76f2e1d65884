"""Normalizations: elements scaled by statistics of the elements around them."""
