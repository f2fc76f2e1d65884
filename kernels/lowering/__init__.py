"""Lower operators to work that the scheduler can cut into tiles: one file per unit and kind of access."""
