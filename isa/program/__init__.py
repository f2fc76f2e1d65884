"""Programs: their representation, checks and file format, and an interpreter that runs one without a clock."""
