"""The instruction set: one class per instruction, and the encoding of instructions as words."""
