"""Operations that decide which graph is executed, and the one that only its vendor knows.

That condition, operands and graphs agree is a rule of `npusim.frontends.nn_hal.rules.control`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npusim.frontends.nn_hal.enumerations import OperandType, OperationType
from npusim.frontends.nn_hal.operations.conversion import Conversion
from npusim.frontends.nn_hal.operations.row import Row
from npusim.kernels.operator.registered import custom

_OEM = custom(OperationType.OEM_OPERATION.name)


def _oem(c: Conversion) -> Sequence[int]:
    """What the user registered as OEM_OPERATION. A scalar of type OEM is handed over as its bytes."""
    inputs: list[int | None] = []
    for argument in c.call.inputs:
        operand = argument.operand
        if operand.type is OperandType.OEM and operand.bytes is not None:
            inputs.append(c.builder.constant(argument.place, np.array(operand.bytes, np.uint8)))
        else:
            inputs.append(c.given(argument))
    return c.node(_OEM, inputs, *[c.result_of(output) for output in c.call.outputs])


ROWS: tuple[Row, ...] = (
    Row(OperationType.IF, ("condition:B8 then:g else:g inputs:any* > outputs:any+",)),
    Row(OperationType.WHILE, ("condition:g body:g inputs:any+ > outputs:any+",)),
    Row(OperationType.OEM_OPERATION, ("inputs:any?* > outputs:any?*",), convert=_oem, operators=(_OEM,)),
)
