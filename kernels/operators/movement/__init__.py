"""Operators that move elements, and conversions between scales and element types."""
