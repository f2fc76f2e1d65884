"""The NNEF door: documents of neural networks, their containers, tensor files and quantization files."""
