"""Speed and memory of npusim beside its peers, measured in the same minutes on the same machine."""
