"""The language of NNEF documents: lexer, grammar, types, checks and the expansion of fragments."""
