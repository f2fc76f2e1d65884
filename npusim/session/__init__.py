"""The verbs of the Python interface, and what they need: inputs, states, settings, tuning."""
