"""The list of MAC engine types."""

from __future__ import annotations

from npusim.isa.base.errors import nearest
from npusim.isa.engines.bit_serial.bit_serial import BitSerial
from npusim.isa.engines.block.block import Block
from npusim.isa.engines.engine import Engine
from npusim.isa.engines.mac_array import MacArray
from npusim.isa.engines.stream.stream import Stream
from npusim.isa.engines.systolic.systolic import Systolic

ENGINES: tuple[Engine, ...] = (Systolic(), Block(), BitSerial(), Stream())

_BY_KIND = {engine.kind: engine for engine in ENGINES}


def engine_of(array: MacArray) -> Engine:
    """Return the engine type of an array, by its `kind`."""
    return _BY_KIND[array.kind]


def kind_fault(kind: str) -> str | None:
    """Return a message if no engine type has this name; else None."""
    if kind in _BY_KIND:
        return None
    near = nearest(kind, _BY_KIND)
    hint = f", did you mean {near}?" if near else ""
    return f"{kind} is not one of {', '.join(_BY_KIND)}{hint}"
