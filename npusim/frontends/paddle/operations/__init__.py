"""The operators of Paddle that npusim has."""
