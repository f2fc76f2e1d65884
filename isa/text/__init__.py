"""Programs and the instruction set as text: assembly, and the reference manual."""
