"""Reports of one run, or of a table of runs."""
