"""Operand types: element type, scaling and zero points of each, one row per type."""

from __future__ import annotations

from typing import Literal

from npusim.frontends.nn_hal.enumerations import OperandType
from npusim.isa.base.elements import element
from npusim.isa.base.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TypeRow:
    """One operand type.

    element:     its element type in `npusim.isa.base.tensor`; None if no operation reads such operands.
    tensor:      whether it has dimensions.
    scaling:     the meaning of `scale`: one scale, an optional one (of a bias), one per channel, or none.
    zero_points: the smallest and largest zero point.
    """

    type: OperandType
    element: str | None
    tensor: bool
    scaling: Literal["none", "one", "optional", "per channel"] = "none"
    zero_points: tuple[int, int] = (0, 0)

    @property
    def element_bytes(self) -> int | None:
        """Bytes of an element in memory; None if any length is allowed."""
        return element(self.element).bits // 8 if self.element else None


_T = OperandType
# fmt: off
TYPES: tuple[TypeRow, ...] = (
    TypeRow(_T.FLOAT32,                        "float32", False),
    TypeRow(_T.INT32,                          "int32",   False),
    TypeRow(_T.UINT32,                         "uint32",  False),
    TypeRow(_T.TENSOR_FLOAT32,                 "float32", True),
    TypeRow(_T.TENSOR_INT32,                   "int32",   True,  "optional"),
    TypeRow(_T.TENSOR_QUANT8_ASYMM,            "uint8",   True,  "one", (0, 255)),
    TypeRow(_T.BOOL,                           "bool",    False),
    TypeRow(_T.TENSOR_QUANT16_SYMM,            "int16",   True,  "one"),
    TypeRow(_T.TENSOR_FLOAT16,                 "float16", True),
    TypeRow(_T.TENSOR_BOOL8,                   "bool",    True),
    TypeRow(_T.FLOAT16,                        "float16", False),
    TypeRow(_T.TENSOR_QUANT8_SYMM_PER_CHANNEL, "int8",    True,  "per channel"),
    TypeRow(_T.TENSOR_QUANT16_ASYMM,           "uint16",  True,  "one", (0, 65535)),
    TypeRow(_T.TENSOR_QUANT8_SYMM,             "int8",    True,  "one"),
    TypeRow(_T.TENSOR_QUANT8_ASYMM_SIGNED,     "int8",    True,  "one", (-128, 127)),
    TypeRow(_T.SUBGRAPH,                       None,      False),
    TypeRow(_T.OEM,                            None,      False),
    TypeRow(_T.TENSOR_OEM_BYTE,                "uint8",   True),
)
# fmt: on

_BY_TYPE = {row.type: row for row in TYPES}


def row_of(type_: OperandType) -> TypeRow:
    """Return the row of an operand type."""
    return _BY_TYPE[type_]
