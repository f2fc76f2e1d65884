"""The rules of the HAL, each a function whose docstring says it, by what they look at."""
