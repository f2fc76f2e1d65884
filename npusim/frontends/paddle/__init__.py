"""Paddle inference models: `.pdmodel` with its parameters."""
