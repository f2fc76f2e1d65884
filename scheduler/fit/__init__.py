"""Cutting layers into tiles that fit the scratchpad, and placing buffers in a memory."""
