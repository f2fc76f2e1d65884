"""Text forms of programs and of the instruction set: assembly, and the reference manual."""
