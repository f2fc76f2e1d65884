"""The door of NNAdapter: models of its operands and operations become graphs."""
