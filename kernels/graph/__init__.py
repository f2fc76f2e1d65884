"""Graphs: the value that every front end makes, its check, and rewrites that keep its bytes."""
