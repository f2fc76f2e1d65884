"""The operations of NNAdapter: one row each, by family."""
