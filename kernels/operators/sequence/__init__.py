"""Layers that go through a sequence and keep a state."""
