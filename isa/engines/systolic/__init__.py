"""The systolic MAC engine: its closed forms for cycles and its choice of dataflow."""
