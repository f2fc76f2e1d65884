"""Partition: a graph that decides, as programs and the steps between them."""
