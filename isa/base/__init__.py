"""What everything stands on: faults, tensor types, workloads, reading and showing what users write."""
