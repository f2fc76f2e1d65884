"""The enumerations of the NN HAL with their numbers, the version of each enumerator, and the properties of types.

Names and numbers are those of types.hal 1.0, and of the later version for an enumerator that it added.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

from npusim.isa.base.elements import element
from npusim.isa.base.lazy_dataclass import dataclass


class HalVersion(IntEnum):
    """The interface version of a model: NN HAL 1.0 to 1.3, then AIDL. The numbers are NNAPI feature levels."""

    V1_0 = 1
    V1_1 = 2
    V1_2 = 3
    V1_3 = 4
    AIDL_V1 = 5
    AIDL_V2 = 6
    AIDL_V3 = 7


class OperandType(IntEnum):
    """The type of an operand: a scalar, a tensor, or a reference to a graph."""

    FLOAT32 = 0
    INT32 = 1
    UINT32 = 2
    TENSOR_FLOAT32 = 3
    TENSOR_INT32 = 4
    TENSOR_QUANT8_ASYMM = 5
    BOOL = 6
    TENSOR_QUANT16_SYMM = 7
    TENSOR_FLOAT16 = 8
    TENSOR_BOOL8 = 9
    FLOAT16 = 10
    TENSOR_QUANT8_SYMM_PER_CHANNEL = 11
    TENSOR_QUANT16_ASYMM = 12
    TENSOR_QUANT8_SYMM = 13
    TENSOR_QUANT8_ASYMM_SIGNED = 14
    SUBGRAPH = 15
    OEM = 10000
    TENSOR_OEM_BYTE = 10001


class OperationType(IntEnum):
    """What an operation computes."""

    ADD = 0
    AVERAGE_POOL_2D = 1
    CONCATENATION = 2
    CONV_2D = 3
    DEPTHWISE_CONV_2D = 4
    DEPTH_TO_SPACE = 5
    DEQUANTIZE = 6
    EMBEDDING_LOOKUP = 7
    FLOOR = 8
    FULLY_CONNECTED = 9
    HASHTABLE_LOOKUP = 10
    L2_NORMALIZATION = 11
    L2_POOL_2D = 12
    LOCAL_RESPONSE_NORMALIZATION = 13
    LOGISTIC = 14
    LSH_PROJECTION = 15
    LSTM = 16
    MAX_POOL_2D = 17
    MUL = 18
    RELU = 19
    RELU1 = 20
    RELU6 = 21
    RESHAPE = 22
    RESIZE_BILINEAR = 23
    RNN = 24
    SOFTMAX = 25
    SPACE_TO_DEPTH = 26
    SVDF = 27
    TANH = 28
    BATCH_TO_SPACE_ND = 29
    DIV = 30
    MEAN = 31
    PAD = 32
    SPACE_TO_BATCH_ND = 33
    SQUEEZE = 34
    STRIDED_SLICE = 35
    SUB = 36
    TRANSPOSE = 37
    ABS = 38
    ARGMAX = 39
    ARGMIN = 40
    AXIS_ALIGNED_BBOX_TRANSFORM = 41
    BIDIRECTIONAL_SEQUENCE_LSTM = 42
    BIDIRECTIONAL_SEQUENCE_RNN = 43
    BOX_WITH_NMS_LIMIT = 44
    CAST = 45
    CHANNEL_SHUFFLE = 46
    DETECTION_POSTPROCESSING = 47
    EQUAL = 48
    EXP = 49
    EXPAND_DIMS = 50
    GATHER = 51
    GENERATE_PROPOSALS = 52
    GREATER = 53
    GREATER_EQUAL = 54
    GROUPED_CONV_2D = 55
    HEATMAP_MAX_KEYPOINT = 56
    INSTANCE_NORMALIZATION = 57
    LESS = 58
    LESS_EQUAL = 59
    LOG = 60
    LOGICAL_AND = 61
    LOGICAL_NOT = 62
    LOGICAL_OR = 63
    LOG_SOFTMAX = 64
    MAXIMUM = 65
    MINIMUM = 66
    NEG = 67
    NOT_EQUAL = 68
    PAD_V2 = 69
    POW = 70
    PRELU = 71
    QUANTIZE = 72
    QUANTIZED_16BIT_LSTM = 73
    RANDOM_MULTINOMIAL = 74
    REDUCE_ALL = 75
    REDUCE_ANY = 76
    REDUCE_MAX = 77
    REDUCE_MIN = 78
    REDUCE_PROD = 79
    REDUCE_SUM = 80
    ROI_ALIGN = 81
    ROI_POOLING = 82
    RSQRT = 83
    SELECT = 84
    SIN = 85
    SLICE = 86
    SPLIT = 87
    SQRT = 88
    TILE = 89
    TOPK_V2 = 90
    TRANSPOSE_CONV_2D = 91
    UNIDIRECTIONAL_SEQUENCE_LSTM = 92
    UNIDIRECTIONAL_SEQUENCE_RNN = 93
    RESIZE_NEAREST_NEIGHBOR = 94
    QUANTIZED_LSTM = 95
    IF = 96
    WHILE = 97
    ELU = 98
    HARD_SWISH = 99
    FILL = 100
    RANK = 101
    BATCH_MATMUL = 102
    PACK = 103
    MIRROR_PAD = 104
    REVERSE = 105
    OEM_OPERATION = 10000


class FusedActivationFunc(IntEnum):
    """The activation function that an operation applies to its result."""

    NONE = 0
    RELU = 1
    RELU1 = 2
    RELU6 = 3


class OperandLifeTime(IntEnum):
    """How an operand is used."""

    TEMPORARY_VARIABLE = 0
    MODEL_INPUT = 1
    MODEL_OUTPUT = 2
    CONSTANT_COPY = 3
    CONSTANT_REFERENCE = 4
    NO_VALUE = 5
    SUBGRAPH = 6
    SUBGRAPH_INPUT = 1
    SUBGRAPH_OUTPUT = 2


class DeviceStatus(IntEnum):
    """Whether a device takes work."""

    AVAILABLE = 0
    BUSY = 1
    OFFLINE = 2
    UNKNOWN = 3


class ErrorStatus(IntEnum):
    """How a call ended."""

    NONE = 0
    DEVICE_UNAVAILABLE = 1
    GENERAL_FAILURE = 2
    OUTPUT_INSUFFICIENT_SIZE = 3
    INVALID_ARGUMENT = 4
    MISSED_DEADLINE_TRANSIENT = 5
    MISSED_DEADLINE_PERSISTENT = 6
    RESOURCE_EXHAUSTED_TRANSIENT = 7
    RESOURCE_EXHAUSTED_PERSISTENT = 8


class LoopTimeoutDurationNs(IntEnum):
    """Time limits of a WHILE in nanoseconds: the default of an execution, and the maximum."""

    DEFAULT = 2_000_000_000
    MAXIMUM = 15_000_000_000


_LAST_OF: dict[type[IntEnum], tuple[tuple[int, HalVersion], ...]] = {
    OperandType: (
        *(
            (OperandType.TENSOR_QUANT8_ASYMM, HalVersion.V1_0),
            (OperandType.TENSOR_QUANT8_SYMM, HalVersion.V1_2),
        ),
        *((OperandType.SUBGRAPH, HalVersion.V1_3), (OperandType.TENSOR_OEM_BYTE, HalVersion.V1_0)),
    ),
    OperationType: (
        *((OperationType.TANH, HalVersion.V1_0), (OperationType.TRANSPOSE, HalVersion.V1_1)),
        *((OperationType.RESIZE_NEAREST_NEIGHBOR, HalVersion.V1_2), (OperationType.RANK, HalVersion.V1_3)),
        *((OperationType.PACK, HalVersion.AIDL_V2), (OperationType.REVERSE, HalVersion.AIDL_V3)),
        (OperationType.OEM_OPERATION, HalVersion.V1_0),
    ),
    OperandLifeTime: (
        (OperandLifeTime.NO_VALUE, HalVersion.V1_0),
        (OperandLifeTime.SUBGRAPH, HalVersion.V1_3),
    ),
}
"""Per enumeration that grew: the last enumerator of each step in the order of numbers, and the version of that step."""


def since(enumerator: OperandType | OperationType | OperandLifeTime) -> HalVersion:
    """Return the version in which an enumerator appeared; it exists in all later ones."""
    versions = (version for last, version in _LAST_OF[type(enumerator)] if enumerator <= last)
    return next(versions, HalVersion.V1_2)  # V1_2 introduced operations of extensions


EXTENSIONS = 1 << 16
"""Smallest number of an extension's operation: the prefix of the extension, shifted left by 16 bits."""


def of_extension(extension: str, number: int) -> OperationType:
    """Return the operation of an extension by its number, prefix included; its name is like "com.acme.ops:3"."""
    member = int.__new__(OperationType, number)
    member._name_ = f"{extension}:{number % EXTENSIONS}"
    member._value_ = number
    return member


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
