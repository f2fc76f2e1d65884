"""Control-flow operations (IF, WHILE), and vendor-specific operations (OEM_OPERATION, extensions).

That condition, operands and graphs agree is a rule of `npusim.frontends.nn_hal.rules.control`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npusim.frontends.nn_hal.enumerations import OperandType, OperationType
from npusim.frontends.nn_hal.operations.conversion import Conversion
from npusim.frontends.nn_hal.operations.row import Row
from npusim.kernels.operator.registered import custom


def of_vendor(type_: OperationType) -> Row:
    """Return the row of a vendor-specific operation, which the user may have registered by its name."""
    forms = ("inputs:any?* > outputs:any?*",)
    return Row(type_, forms, convert=_registered, operators=(custom(type_.name),))


def _registered(c: Conversion) -> Sequence[int]:
    """Add the node of an operation that the user registered; a scalar of type OEM is passed as its bytes."""
    inputs: list[int | None] = []
    for argument in c.call.inputs:
        operand = argument.operand
        if operand.type is OperandType.OEM and operand.bytes is not None:
            inputs.append(c.builder.constant(argument.place, np.array(operand.bytes, np.uint8)))
        else:
            inputs.append(c.given(argument))
    return c.node(
        custom(c.call.operation.type.name), inputs, *[c.result_of(output) for output in c.call.outputs]
    )


ROWS: tuple[Row, ...] = (
    Row(OperationType.IF, ("condition:B8 then:g else:g inputs:any* > outputs:any+",)),
    Row(OperationType.WHILE, ("condition:g body:g inputs:any+ > outputs:any+",)),
    of_vendor(OperationType.OEM_OPERATION),
)
