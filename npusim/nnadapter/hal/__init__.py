"""Device drivers: their interface, the drivers that ship with npusim, and the registry of all."""
