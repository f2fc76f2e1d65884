"""Searches of hardware spaces: points compiled and simulated, collected in a study on disk."""
