"""Functions of one operand, which in 8 bits are look-ups in a table of 256 entries."""
