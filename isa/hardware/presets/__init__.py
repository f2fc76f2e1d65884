"""Hardware descriptions that ship with npusim, a TOML file each: `npusim hw list`, `npusim hw show NAME`."""
