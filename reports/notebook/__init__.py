"""What results show of themselves in a notebook."""
