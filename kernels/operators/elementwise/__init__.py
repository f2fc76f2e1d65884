"""Operators that compute element by element, most of them on two operands."""
