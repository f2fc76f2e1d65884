"""Several units through which feature maps stream, an output element a cycle: ST's Neural-ART."""
