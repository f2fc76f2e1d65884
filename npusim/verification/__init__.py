"""npusim beside LiteRT: a model on both, layer by layer."""
