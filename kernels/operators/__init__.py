"""One file per operator, by family; `npusim.kernels.table` lists them."""
