"""Serving: many requests against one machine, from their arrivals to percentiles of their times."""
