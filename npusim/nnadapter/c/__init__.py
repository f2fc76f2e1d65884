"""NNAdapter's 28 functions under their own names: result codes as integers, results through `Ref` cells.

    from npusim.nnadapter import c

    device = c.Ref()
    if c.NNAdapterDevice_acquire("npusim", device) != c.NNADAPTER_NO_ERROR:
        print(c.last_error())

None is the null pointer, a list an array. No function raises, whatever it is given; `last_error` has the sentence of
the last call that failed. Functions come from the table of `npusim.nnadapter.c.c_functions`, codes (NNADAPTER_CONV_2D,
NNADAPTER_UNKNOWN, ...) from those of `npusim.frontends.nnadapter.nnadapter_codes`.
"""

from __future__ import annotations

from typing import Any

from npusim.frontends.nnadapter import nnadapter_codes
from npusim.nnadapter.c.c_functions import FUNCTIONS
from npusim.nnadapter.c.c_structs import Dimensions, NNAdapterOperandType
from npusim.nnadapter.c.calling import Ref, last_error

PREFIX = "NNADAPTER_"

NNADAPTER_VERSION = nnadapter_codes.VERSION
NNADAPTER_UNKNOWN = nnadapter_codes.UNKNOWN
NNADAPTER_MAX_SIZE_OF_DIMENSIONS = nnadapter_codes.MAX_SIZE_OF_DIMENSIONS
NNADAPTER_MAX_SIZE_OF_DYNAMIC_DIMENSIONS = nnadapter_codes.MAX_SIZE_OF_DYNAMIC_DIMENSIONS
NNADAPTER_MAX_SIZE_OF_HINTS = nnadapter_codes.MAX_SIZE_OF_HINTS

_NAMES: dict[str, Any] = {
    **{function.__name__: function for function in FUNCTIONS},
    **{
        f"{PREFIX}{name}": int(kind[name])
        for kind in nnadapter_codes.ENUMERATIONS
        for name in kind.__members__
    },
}

__all__ = ["Dimensions", "NNAdapterOperandType", "Ref", "last_error"]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return _NAMES[name]
    raise AttributeError(f"module 'npusim.nnadapter.c' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_NAMES, *(name for name in globals() if name.startswith(PREFIX))})
