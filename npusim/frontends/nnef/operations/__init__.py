"""The operations of NNEF by family, one row each."""
