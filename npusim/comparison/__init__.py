"""Runs side by side: what changed, in which layers, and conditions on it."""
