"""Bytes moved, and quantized values of one scale as quantized values of another."""
