"""The systolic array: its engine, its closed forms, its fastest mappings."""
