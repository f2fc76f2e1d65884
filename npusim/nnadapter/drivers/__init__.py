"""The drivers that ship with npusim."""
