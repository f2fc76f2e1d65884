"""A network made ready for scheduling: storages, states, what depends on no choice."""
