"""Operations that decide which graph is executed, and the one of whom nobody knows what it does.

That condition, operands and graphs agree is a rule of `npusim.frontends.nn_hal.rules.control`.
"""

from __future__ import annotations

from npusim.frontends.nn_hal.enumerations import OperationType
from npusim.frontends.nn_hal.operations.row import Row

ROWS: tuple[Row, ...] = (
    Row(OperationType.IF, ("condition:B8 then:g else:g inputs:any* > outputs:any+",)),
    Row(OperationType.WHILE, ("condition:g body:g inputs:any+ > outputs:any+",)),
    Row(OperationType.OEM_OPERATION, ("inputs:any?* > outputs:any?*",)),
)
