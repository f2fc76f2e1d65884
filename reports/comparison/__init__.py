"""A comparison in the terminal, as CSV, and as a page."""
