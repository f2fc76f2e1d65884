"""Graphs: the value that every front front end makes, its check, and rewrites that keep its bytes."""
