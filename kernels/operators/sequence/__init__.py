"""Recurrent layers: operators that go through a sequence and keep a state."""
