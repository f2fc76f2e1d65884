"""A study as a page and as figures."""
