"""The operators of Paddle by family, one row each."""
