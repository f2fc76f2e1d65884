"""Bytes moved, and codes of one scale as codes of another."""
