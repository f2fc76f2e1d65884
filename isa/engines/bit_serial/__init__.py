"""The bit-serial MAC engine, modelled on the NE16 of GAP9, whose weights pass one bit per cycle."""
