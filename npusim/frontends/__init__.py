"""Front doors: one folder per model format, each turning what it reads into a graph."""
