"""The operations of NNEF: how each becomes nodes of a graph, a table of rows by family."""
