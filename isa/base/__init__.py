"""Foundations of all packages: errors, tensor types, workloads, and reading and printing of user files."""
