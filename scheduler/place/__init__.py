"""Where feature maps live: residency, chains, weaves, the layout of DRAM."""
