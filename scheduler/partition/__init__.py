"""Partitioning of models into several programs and the steps between them, over devices or at IF and WHILE."""
