"""From one operator to work that the scheduler can cut: per unit one file."""
