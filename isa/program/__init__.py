"""Programs: the value, its checks, its file, and the interpreter that runs one without a clock."""
