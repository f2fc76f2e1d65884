"""Functions of one operand, which in 8 bits are a table of 256 quantized values."""
