"""The language of NNEF documents: its elements, grammar, types, checks and the expansion of fragments."""
