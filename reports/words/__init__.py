"""Words, colours and numbers as all reports show them."""
