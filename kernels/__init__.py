"""The operators of npusim: graphs of them, what each means in bytes, and how each becomes work for a unit."""
