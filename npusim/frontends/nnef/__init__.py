"""The NNEF door: documents of neural networks, their containers, tensor files and quantization files.

`document.load(path).network(whole, infer)` gives a network (`network`): checked, fragments expanded, attributes
evaluated. `writer` goes the other way.
"""
