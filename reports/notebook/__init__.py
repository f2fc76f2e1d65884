"""The display of results in notebooks."""
