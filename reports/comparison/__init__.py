"""The reports of a comparison of runs: in the terminal, as CSV, and as a page."""
