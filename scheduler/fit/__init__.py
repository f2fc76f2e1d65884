"""How a work is cut so that it fits: cuts, tiles, placement of buffers, choices."""
