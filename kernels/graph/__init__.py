"""Graphs: the value that every front door makes, its check, and rewrites that keep its bytes."""
