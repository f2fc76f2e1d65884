"""From what happened in the machine to numbers: time, losses, bounds, energy, power, area, the results of a run."""
