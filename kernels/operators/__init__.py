"""The operators, by family; `npusim.kernels.table` lists them."""
