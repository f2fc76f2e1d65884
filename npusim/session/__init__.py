"""The functions of the Python interface (load, compile, simulate, run), and their inputs, states and settings."""
