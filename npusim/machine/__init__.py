"""The timed model of the NPU: front end, units, scratchpad banks and memory ports as one discrete-event simulation."""
