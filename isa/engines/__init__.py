"""MAC engine types, each with closed forms for the cycles of a convolution and for their breakdown."""
