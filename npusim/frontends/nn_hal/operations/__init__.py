"""The operations of NNAPI: one row each, by family; `npusim.frontends.nn_hal.operations.table` lists them."""
