"""The preparation of a network for scheduling: its items, its states, and the storages of its tensors."""
