"""The instruction rows, one file per unit, and how they become words and back."""
