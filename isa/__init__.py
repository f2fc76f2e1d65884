"""What compiler and machine agree on: instructions and their encoding, hardware descriptions, programs, the arithmetic.

Imports nothing else of npusim. `table` lists the instruction rows; encoder, assembler, validator and manual are
derived from them, and `interpreter` executes them without a clock. `Hardware` is one frozen, validated value;
`Program` is all that the machine ever sees.
"""
