"""What one run, or a table of runs, shows of itself."""
