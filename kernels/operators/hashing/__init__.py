"""Operators that hash: projections to bits, and samples drawn from seeds."""
