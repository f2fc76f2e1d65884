"""Two operands, element by element."""
