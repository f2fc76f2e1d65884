"""The side of the devices: what a driver is, the drivers that ship with npusim, and the registry of all."""
