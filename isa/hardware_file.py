"""The place of `change` in scripts written for npusim 0.1.0; its home is `npusim.isa.hardware.file`."""

from npusim.isa.hardware.file import change

__all__ = ["change"]
