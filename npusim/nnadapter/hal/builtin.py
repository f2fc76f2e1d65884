"""`builtin_device`: the CPU device that NNAdapter always has, with its arithmetic and its 32 operations.

It computes on real numbers: codes are dequantized, and results divided by their scale, cut off toward zero and clamped
to -127..127. Timed as the simulated host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from npusim.frontends.nnadapter.codes import OperationType
from npusim.nnadapter.hal.driver import Properties, Submodel
from npusim.nnadapter.hal.properties import above_zero
from npusim.nnadapter.hal.simulated import Host, SimulatedContext

THREADS = "BUILTIN_DEVICE_NUM_THREADS"

OPERATIONS = tuple(
    kind.name.lower()
    for kind in (
        *(OperationType.ADD, OperationType.SUB, OperationType.MUL, OperationType.DIV, OperationType.MAX),
        *(OperationType.MIN, OperationType.POW, OperationType.FLOOR_DIV, OperationType.RELU),
        *(OperationType.RELU6, OperationType.BATCH_NORMALIZATION, OperationType.CAST, OperationType.CONCAT),
        *(OperationType.CONV_2D, OperationType.CUM_SUM, OperationType.DEQUANTIZE, OperationType.EXPAND),
        *(OperationType.FILL, OperationType.FILL_LIKE, OperationType.FULLY_CONNECTED, OperationType.GATHER),
        *(OperationType.LOG_SOFTMAX, OperationType.MAT_MUL, OperationType.MESHGRID),
        *(OperationType.AVERAGE_POOL_2D, OperationType.MAX_POOL_2D, OperationType.QUANTIZE),
        *(OperationType.RESHAPE, OperationType.SHAPE, OperationType.SLICE, OperationType.SOFTMAX),
        OperationType.STACK,
    )
)
"""What it supports, as partition files write it."""


class Builtin(Host):
    """The built-in CPU device of NNAdapter."""

    name = "builtin_device"
    vendor = "Paddle"
    in_reals = True
    keys: ClassVar[Mapping[str, Any]] = {THREADS: above_zero}

    def create_context(self, device: object, properties: Properties, callback: Any) -> SimulatedContext:
        """A context with as many threads as the properties say."""
        changes = {"host.threads": properties[THREADS]} if THREADS in properties else {}
        return SimulatedContext(self.own_machine(), host_changes=changes)

    def validate_program(self, context: SimulatedContext, model: Submodel) -> Sequence[str | None]:
        """One of the 32 operations of NNAdapter's own models, or why not."""
        return [
            self._reason(context, Submodel(model.network, (place,)))
            if operation.kind in OPERATIONS
            else f"{operation.kind} is none of the {len(OPERATIONS)} operations of {self.name}"
            for place, operation in zip(model.places, model.operations, strict=True)
        ]
