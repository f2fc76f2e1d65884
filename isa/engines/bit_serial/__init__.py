"""An engine whose weights pass bit by bit: GAP9's NE16."""
