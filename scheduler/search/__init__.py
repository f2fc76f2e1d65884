"""The search for a faster schedule, timed by the machine."""
