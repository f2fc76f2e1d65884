"""Searches of hardware spaces and what-if: one engine that compiles, executes and measures points."""
