"""From decisions to instructions: slots, sequence, moves, waits."""
