"""Operators that npusim does not have: host layers that are timed by their bytes."""

from __future__ import annotations

from npusim.isa.base.errors import SimulationError
from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Unchecked


def unknown_operator(name: str) -> Operator:
    """Return an operator of which only the operands are known."""
    return Operator(
        name=name,
        parameters=Unchecked,
        types=(),
        rules=(),
        infer=_as_they_are,
        reference=_nothing,
        workload=bytes_moved,
        on_host="npusim does not know it; timed by its bytes alone, without results",
    )


def _as_they_are(call: Call) -> Shapes:
    """Return the shapes that the outputs already have."""
    return tuple(output.shape for output in call.outputs)


def _nothing(call: Call, values: Values) -> list[Array]:
    raise SimulationError("an operator that npusim does not know has no results; only its time is estimated")


def bytes_moved(call: Call) -> Workload:
    """Return work in which all bytes read and written pass through the host once, at its copy speed."""
    given = {position: tensor for position, tensor in enumerate(call.inputs) if tensor is not None}
    constants = sum(tensor.size_bytes for position, tensor in given.items() if position in call.constants)
    read = sum(tensor.size_bytes for tensor in given.values()) - constants
    written = sum(output.size_bytes for output in call.outputs)
    return Workload(kind="move", weight_bytes=constants, output_bytes=read + written)
