"""Compiled models that are kept: the container of bytes, what it holds, tokens, and the folder it lies in."""
