"""NNAdapter in Python: one model on several simulated devices, compiled once and kept."""
