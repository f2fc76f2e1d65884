"""Reports of served requests: terminal, CSV and page."""
