"""The NNEF front end: documents, their containers, tensor files and quantization files.

`document.load(path).network(whole, infer)` returns a network (`call_network`): checked, fragments expanded, attributes
evaluated. `nnef_writer` writes one.
"""
