"""Operand types of tensors."""

from __future__ import annotations

from npusim.frontends.nnadapter.codes import Precision
from npusim.frontends.nnadapter.errors import FeatureNotSupported
from npusim.frontends.nnadapter.operand_type import PRECISIONS, OperandType
from npusim.isa.base.tensor import TensorType


def operand_type_of(kind: TensorType, name: str) -> OperandType:
    """The type of a tensor of a model that another door has read.

    Codes with a zero point that NNAdapter has no precision for, such as int8 with one, are plain elements.

    Raises FeatureNotSupported for elements that NNAdapter has no precision for.
    """
    scheme = kind.quantization if kind.quantized else None
    symmetric = scheme is None or not any(scheme.zero_points)
    wanted = "" if scheme is None else "layer" if scheme.axis is None else "channel"
    for scaled in dict.fromkeys((wanted, "")):
        for row in PRECISIONS:
            if (
                row.dtype == kind.dtype
                and row.scaled == scaled
                and (not scaled or symmetric or row.asymmetric)
            ):
                return _typed(row.precision, kind, scaled, row.asymmetric)
    raise FeatureNotSupported(f"{name}: has {kind.dtype} elements, NNAdapter has no precision for them")


def _typed(precision: Precision, kind: TensorType, scaled: str, asymmetric: bool) -> OperandType:
    made = OperandType(precision, list(kind.shape))
    scheme = kind.quantization
    if scheme is not None and scaled == "layer":
        made.scale, made.zero_point = scheme.scale, scheme.zero_point if asymmetric else None
    if scheme is not None and scaled == "channel":
        made.scales, made.channel_dim = tuple(scheme.scales), scheme.axis
        made.zero_points = tuple(scheme.zero_points) if asymmetric else None
    return made
