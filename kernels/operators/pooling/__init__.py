"""Pools: windows of an image combined to one value each."""
