"""The shape of an operator: its rules, reference, workload and lowering in one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from npusim.isa.base.tensor import Array, Data, TensorType
from npusim.isa.base.workload import Workload

if TYPE_CHECKING:
    from npusim.isa.hardware.hardware import Hardware
    from npusim.kernels.lowering.work import Lowering


@dataclass(frozen=True, slots=True)
class Call:
    """One use of an operator: attributes and the types of its operands (None: optional input absent).

    `constants` holds the data of constant inputs by position, or SIZE_ONLY (absent positions are not constant).
    """

    attributes: Mapping[str, Any]
    inputs: tuple[TensorType | None, ...]
    outputs: tuple[TensorType, ...]
    constants: Mapping[int, Data]


Shapes = tuple[tuple[int, ...], ...]
"""The shapes of the outputs of a call."""

Rule = Callable[[Call], bool]
"""True when the call keeps the rule. Its docstring is the rule, the error message and the manual."""


class SlidingWindow(NamedTuple):
    """A window that slides over an image: its height and width, and the steps down and right."""

    kernel: tuple[int, int]
    stride: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Alias:
    """An input or output that is a contiguous part of another tensor: nothing needs to move.

    `part` lies `offset_bytes` into `whole`; both index the node's operands as ("in", i) or ("out", i).
    """

    part: tuple[str, int]
    whole: tuple[str, int]
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class Operator:
    """All that npusim knows of one operator.

    rules:     must hold for any execution (else GraphError: the model is malformed or not supported).
    infer:     the shapes that attributes and inputs give the outputs of a call that keeps the rules; None where only
               the outputs themselves say them (reshape).
    npu_rules: must hold for the NPU; otherwise the operator runs on the host and the report says why.
    reference: (call, values) -> outputs in numpy; bit-exact for integers.
    workload:  the amount of work of a call.
    lower:     how the NPU computes it; None if only the host can.
    unit:      which unit of the NPU that is: "mac", "vector" or "dma".
    alias:     for operators that move nothing when their operands share memory.
    border:    for windows over images: the code that they read outside the first input.
    states:    positions of inputs that may be states. A call with as many outputs more gives their next values there.
    window:    for windows over images: their size and stride.
    defined:   outputs -> what of them the operator gives, for one that need not fill them; otherwise all.
    """

    name: str
    rules: tuple[Rule, ...]
    npu_rules: tuple[Rule, ...]
    reference: Callable[[Call, Sequence[Array | None]], list[Array]]
    workload: Callable[[Call], Workload]
    lower: Callable[[Call, Hardware], Lowering] | None = None
    unit: Literal["mac", "vector", "dma"] | None = None
    alias: Callable[[Call], tuple[Alias, ...] | None] | None = None
    border: Callable[[Call], int] | None = None
    infer: Callable[[Call], Shapes] | None = None
    states: tuple[int, ...] = ()
    window: Callable[[Call], SlidingWindow] | None = None
    defined: Callable[[Sequence[Array]], list[Array]] | None = None
