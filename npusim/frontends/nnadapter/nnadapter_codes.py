"""The codes of NNAdapter, with its names (without "NNADAPTER_") and numbers, and an error class per result code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import ClassVar, Final

from npusim.isa.base.errors import NpusimError, replaced

VERSION: Final = 1
"""Version of the interface."""

UNKNOWN: Final = -65535
"""A size that is not known, as the C interface writes it; in Python it is -1."""

MAX_SIZE_OF_DIMENSIONS: Final = 8
"""Most dimensions of an operand."""

MAX_SIZE_OF_DYNAMIC_DIMENSIONS: Final = 8
"""Most shapes (gears) that an operand may take."""

MAX_SIZE_OF_HINTS: Final = 8
"""Most hints that a device may leave at an operand."""


class ResultCode(IntEnum):
    """The result of a function of the API."""

    NO_ERROR = 0
    OUT_OF_MEMORY = 1
    INVALID_DIMENSIONS = 2
    INVALID_PARAMETER = 3
    DEVICE_NOT_FOUND = 4
    DEVICE_INTERNAL_ERROR = 5
    FEATURE_NOT_SUPPORTED = 6


class Precision(IntEnum):
    """Element type of an operand, with the kind of its quantization."""

    BOOL8 = 0
    BOOL = 0
    """Alias of BOOL8, which the document uses for FILL, FILL_LIKE and PRIOR_BOX."""
    INT8 = 1
    UINT8 = 2
    INT16 = 3
    UINT16 = 4
    INT32 = 5
    UINT32 = 6
    INT64 = 7
    UINT64 = 8
    FLOAT16 = 9
    FLOAT32 = 10
    FLOAT64 = 11
    QUANT_INT8_SYMM_PER_LAYER = 24
    QUANT_INT8_SYMM_PER_CHANNEL = 25
    QUANT_UINT8_ASYMM_PER_LAYER = 26
    QUANT_INT16_SYMM_PER_LAYER = 27
    QUANT_INT16_SYMM_PER_CHANNEL = 28
    QUANT_UINT16_ASYMM_PER_LAYER = 29
    QUANT_INT32_SYMM_PER_LAYER = 30
    QUANT_INT32_SYMM_PER_CHANNEL = 31
    QUANT_UINT32_ASYMM_PER_LAYER = 32
    QUANT_UINT8_ASYMM_PER_CHANNEL = 33
    """Named by the document (QUANTIZE, DEQUANTIZE), but without a number in Paddle Lite's header: the next free one."""


class Layout(IntEnum):
    """The order of the dimensions of an image."""

    NCHW = 0
    NHWC = 1
    HWCN = 2
    HWNC = 3


class Lifetime(IntEnum):
    """Origin of an operand's value. The runtime sets it, never the caller."""

    TEMPORARY_VARIABLE = 0
    TEMPORARY_SHAPE = 1
    CONSTANT_COPY = 2
    CONSTANT_REFERENCE = 3
    MODEL_INPUT = 4
    MODEL_OUTPUT = 5


class OperationType(IntEnum):
    """The standard operations."""

    ABS = 0
    ADAPTIVE_AVERAGE_POOL_2D = 1
    ADAPTIVE_MAX_POOL_2D = 2
    ADD = 3
    AND = 4
    ARG_MAX = 5
    ARG_MIN = 6
    ASSIGN = 7
    AVERAGE_POOL_2D = 8
    BATCH_NORMALIZATION = 9
    CAST = 10
    CHANNEL_SHUFFLE = 11
    CLIP = 12
    CONCAT = 13
    CONV_2D = 14
    CONV_2D_TRANSPOSE = 15
    COS = 16
    CUM_SUM = 17
    DEFORMABLE_CONV_2D = 18
    DEQUANTIZE = 19
    DIV = 20
    EQUAL = 21
    EXP = 22
    EXPAND = 23
    FILL = 24
    FILL_LIKE = 25
    FLATTEN = 26
    FLOOR = 27
    FLOOR_DIV = 28
    FULLY_CONNECTED = 29
    GATHER = 30
    GELU = 31
    GREATER = 32
    GREATER_EQUAL = 33
    GRID_SAMPLE = 34
    GROUP_NORMALIZATION = 35
    HARD_SIGMOID = 36
    HARD_SWISH = 37
    INSTANCE_NORMALIZATION = 38
    LAYER_NORMALIZATION = 39
    LEAKY_RELU = 40
    LESS = 41
    LESS_EQUAL = 42
    LOG = 43
    LOG_SOFTMAX = 44
    LP_NORMALIZATION = 45
    LRN = 46
    MAT_MUL = 47
    MAX = 48
    MAX_POOL_2D = 49
    MESHGRID = 50
    MIN = 51
    MUL = 52
    NOT = 53
    NOT_EQUAL = 54
    OR = 55
    PAD = 56
    POW = 57
    PRIOR_BOX = 58
    PRELU = 59
    QUANTIZE = 60
    RANGE = 61
    REDUCE_MEAN = 62
    REDUCE_MAX = 63
    REDUCE_SUM = 64
    RELU = 65
    RELU6 = 66
    RESHAPE = 67
    RESIZE_NEAREST = 68
    RESIZE_LINEAR = 69
    ROI_ALIGN = 70
    ROLL = 71
    RSQRT = 72
    SHAPE = 73
    SIGMOID = 74
    SIN = 75
    SLICE = 76
    SOFTMAX = 77
    SOFTPLUS = 78
    SPLIT = 79
    SQUARE = 80
    SQUEEZE = 81
    STACK = 82
    SUB = 83
    SUM = 84
    SWISH = 85
    TANH = 86
    TILE = 87
    TOP_K = 88
    TRANSPOSE = 89
    UNSQUEEZE = 90
    UNSTACK = 91
    WHERE = 92
    XOR = 93
    NON_MAX_SUPPRESSION = 94
    YOLO_BOX = 95


class Custom(str):
    """The type of an operation that is not standard: the name or number under which a user registered it."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name or number as text."""
        return str(self)


class FuseCode(IntEnum):
    """The activation that an operation applies to its own output."""

    FUSED_NONE = 0
    FUSED_RELU = 1
    FUSED_RELU1 = 2
    FUSED_RELU6 = 3


class AutoPad(IntEnum):
    """The rule for the padding of a window."""

    AUTO_PAD_NONE = 0
    AUTO_PAD_SAME = 1
    AUTO_PAD_VALID = 2


class DeviceType(IntEnum):
    """The kind of a device: CPU, GPU or accelerator."""

    CPU = 0
    GPU = 1
    ACCELERATOR = 2


class PadMode(IntEnum):
    """The values that PAD puts around a tensor."""

    PAD_MODE_NONE = 0
    PAD_MODE_CONSTANT = 1
    PAD_MODE_REFLECT = 2
    PAD_MODE_REPLICATE = 3
    PAD_MODE_EDGE = 4


class InterpolateMode(IntEnum):
    """The interpolation of values between elements."""

    INTERPOLATE_MODE_NONE = 0
    INTERPOLATE_MODE_BILINEAR = 1
    INTERPOLATE_MODE_NEAREST = 2


class Event(IntEnum):
    """Events that a simulated device passes to its context's callback; the document leaves the numbers to devices."""

    RUN_BEGINS = 1
    RUN_ENDS = 2


ENUMERATIONS: Final = (
    ResultCode,
    Precision,
    Layout,
    Lifetime,
    OperationType,
    FuseCode,
    AutoPad,
    DeviceType,
    PadMode,
    InterpolateMode,
    Event,
)
"""All enumerations. `npusim.nnadapter` exports every name of their members."""


LONGEST_VALUE = 80
"""Maximum number of characters of a value that a message quotes."""


class NNAdapterError(NpusimError):
    """A call that NNAdapter refuses, with a message of one line; `code` is the result code of its C function."""

    code: ClassVar[ResultCode] = ResultCode.INVALID_PARAMETER

    def __init__(self, text: str) -> None:
        """Join the lines of the message, because quoted values may contain line breaks."""
        super().__init__(" ".join(text.split("\n")))


@contextmanager
def faults_as(kind: type[NNAdapterError]) -> Iterator[None]:
    """Raise errors of npusim and of the file system within the block as errors of this class."""
    try:
        yield
    except NNAdapterError:
        raise
    except NpusimError as fault:
        raise kind(str(fault)) from fault
    except OSError as fault:
        raise kind(f"{text_of(fault.filename)}: {fault.strerror or fault}") from fault


def text_of(value: object) -> str:
    """Return the shortened `repr` of a caller's value, for messages."""
    try:
        text = repr(value)
    except Exception:  # a `repr` of the caller's own, or an int with more digits than Python prints
        text = f"a {type(value).__name__}"
    return replaced(" ".join(text.split()), LONGEST_VALUE)


class OutOfMemory(NNAdapterError):
    """Memory for a buffer that cannot be allocated."""

    code = ResultCode.OUT_OF_MEMORY


class InvalidDimensions(NNAdapterError):
    """A shape that the model was not compiled for, or that does not fit its buffer."""

    code = ResultCode.INVALID_DIMENSIONS


class InvalidParameter(NNAdapterError):
    """A missing or wrong argument, a broken rule of an operation, or a call in the wrong order."""

    code = ResultCode.INVALID_PARAMETER


class DeviceNotFound(NNAdapterError):
    """A device that is not registered or cannot be opened."""

    code = ResultCode.DEVICE_NOT_FOUND


class DeviceInternalError(NNAdapterError):
    """A failure of a device or of its driver."""

    code = ResultCode.DEVICE_INTERNAL_ERROR


class FeatureNotSupported(NNAdapterError):
    """A request that no device of the context can fulfil."""

    code = ResultCode.FEATURE_NOT_SUPPORTED
