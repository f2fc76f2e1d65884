"""The structs of the NN HAL: models, requests and their parts.

They are plain and mutable, and unchecked until a device gets them. A vec may be any sequence, an enumerator a plain
int, a number a numpy scalar, and memory any object with the buffer protocol. Lengths and offsets are in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from npusim.frontends.nn_hal.enumerations import HalVersion, OperandLifeTime, OperandType
from npusim.isa.base.lazy_dataclass import dataclass

Memory = Any
"""A C-contiguous buffer: bytearray, mmap, numpy array of any dtype, memoryview, bytes where nothing is written.

`collections.abc.Buffer` is newer than the oldest Python that npusim runs on.
"""


@dataclass
class PerformanceInfo:
    """Time and energy of the device for the reference workload, each divided by that of the CPU; lower is better."""

    execTime: float
    powerUsage: float


@dataclass
class Capabilities:
    """The performance of a device; the fields after the first two came with 1.1 to 1.3."""

    float32Performance: PerformanceInfo
    quantized8Performance: PerformanceInfo
    relaxedFloat32toFloat16PerformanceScalar: PerformanceInfo
    relaxedFloat32toFloat16PerformanceTensor: PerformanceInfo
    operandPerformance: dict[OperandType, PerformanceInfo]
    ifPerformance: PerformanceInfo
    whilePerformance: PerformanceInfo


@dataclass
class DataLocation:
    """A range of a pool: bytes `offset` to `offset + length`."""

    poolIndex: int = 0
    offset: int = 0
    length: int = 0


@dataclass
class SymmPerChannelQuantParams:
    """One scale per index of dimension `channelDim`."""

    scales: Sequence[float]
    channelDim: int


@dataclass
class Operand:
    """An operand of a graph.

    dimensions:        a 0 is unspecified; from V1_2 an empty list is an unspecified rank.
    numberOfConsumers: how often operations of its graph have it as input.
    scale, zeroPoint:  real value = (code - zeroPoint) * scale.
    location:          of a constant; of a reference to a graph (0, index of the graph, 0).
    extraParams:       of per-channel types.
    """

    type: int
    dimensions: Sequence[int] = ()
    numberOfConsumers: int = 0
    scale: float = 0.0
    zeroPoint: int = 0
    lifetime: int = OperandLifeTime.TEMPORARY_VARIABLE
    location: DataLocation = field(default_factory=DataLocation)
    extraParams: SymmPerChannelQuantParams | None = None


@dataclass
class Operation:
    """An operation: inputs and outputs are indexes of operands of its graph."""

    type: int
    inputs: Sequence[int]
    outputs: Sequence[int]


@dataclass
class Subgraph:
    """A graph that IF or WHILE executes."""

    operands: Sequence[Operand]
    operations: Sequence[Operation]
    inputIndexes: Sequence[int]
    outputIndexes: Sequence[int]


@dataclass
class ExtensionNameAndPrefix:
    """An extension of a model: its operations' codes have the prefix above their 16 low bits."""

    name: str
    prefix: int


@dataclass
class Model:
    """A main graph, the graphs that it refers to, and the memory of constants."""

    operands: Sequence[Operand]
    operations: Sequence[Operation]
    inputIndexes: Sequence[int]
    outputIndexes: Sequence[int]
    operandValues: Memory = field(default=b"", repr=False)
    pools: Sequence[Memory] = field(default=(), repr=False)
    relaxComputationFloat32toFloat16: bool = False
    referenced: Sequence[Subgraph] = ()
    version: int = HalVersion.V1_0
    extensionNameToPrefix: Sequence[ExtensionNameAndPrefix] = ()


@dataclass
class RequestArgument:
    """The memory of an input or output, and sizes that the model leaves open."""

    hasNoValue: bool = False
    location: DataLocation = field(default_factory=DataLocation)
    dimensions: Sequence[int] = ()


@dataclass
class Request:
    """The arguments of an execution, in the order of the model's inputs and outputs."""

    inputs: Sequence[RequestArgument]
    outputs: Sequence[RequestArgument]
    pools: Sequence[Memory] = field(repr=False)


@dataclass
class OutputShape:
    """The dimensions of an output as computed, and whether its buffer holds them."""

    dimensions: list[int]
    isSufficient: bool


@dataclass
class Timing:
    """Simulated microseconds on the device, and in the driver with the device."""

    timeOnDevice: int
    timeInDriver: int
