"""The placement of feature maps: residency, fused layers, the layout of DRAM."""
