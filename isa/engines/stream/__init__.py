"""The streaming MAC engine, modelled on ST's Neural-ART: feature maps stream through units of multipliers."""
