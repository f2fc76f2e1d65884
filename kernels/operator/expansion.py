"""A call as several simpler ones, for operators that no unit computes as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import NamedTuple

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.operator.parameters import Parameters


class Constant(NamedTuple):
    """Data that the parts of a call need beside the call's own operands."""

    type: TensorType
    data: Array


class PartCall(NamedTuple):
    """One of the simpler calls: its name, operator, parameters, and operands and results by number."""

    name: str
    op: str
    parameters: Parameters
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]


@dataclass(slots=True)
class Expansion:
    """Simpler calls in the order of their execution. Numbers of tensors: first the operands of the call, then others.

    operands:  how many operands the call has.
    constants, values: types of further tensors, by number.
    results:   the tensors that are the outputs of the call, in order.
    on_host:   the names of calls that the host may compute; all others run on the NPU, or the call stays whole.
    """

    operands: int
    constants: dict[int, Constant] = field(default_factory=dict)
    values: dict[int, TensorType] = field(default_factory=dict)
    parts: list[PartCall] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    on_host: set[str] = field(default_factory=set)

    def _new(self) -> int:
        return self.operands + len(self.constants) + len(self.values)

    def constant(self, data: Array, quantization: Quantization | None = None) -> int:
        """Add a constant and return its number."""
        number = self._new()
        self.constants[number] = Constant(TensorType(data.dtype.name, data.shape, quantization), data)
        return number

    def call(
        self,
        name: str,
        op: str,
        inputs: Sequence[int | None],
        outputs: Sequence[TensorType],
        parameters: Parameters,
    ) -> tuple[int, ...]:
        """Add a call and return the numbers of its results."""
        results = []
        for kind in outputs:
            number = self._new()
            self.values[number] = kind
            results.append(number)
        self.parts.append(PartCall(name, op, parameters, tuple(inputs), tuple(results)))
        return tuple(results)
