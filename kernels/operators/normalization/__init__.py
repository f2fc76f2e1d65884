"""Values divided by a measure of those around them."""
