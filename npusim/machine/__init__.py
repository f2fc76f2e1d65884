"""The machine: front end, units, scratchpad banks and the DRAM port as one discrete-event model."""
