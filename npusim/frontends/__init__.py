"""Front ends: one package per model format, each of which reads a file into a graph."""
