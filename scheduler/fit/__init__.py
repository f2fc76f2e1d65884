"""How a layer is cut into tiles that fit the scratchpad, and where buffers are placed."""
