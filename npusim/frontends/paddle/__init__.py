"""The front end for Paddle inference models: `.pdmodel` with its parameters."""
