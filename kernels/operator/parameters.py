"""Parameters of operators: one frozen class of values per operator, checked by its constructor.

The annotation of a field states its legal values. Rules of the operator state what an annotation cannot express, such
as a permutation. An illegal value raises GraphError with the field and the value, whether it comes from a model file, a
program file or Python. The host calls of a program store parameters as JSON (`plain`, `of`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, Self, dataclass_transform, get_type_hints

from npusim.isa.base.errors import GraphError, nearest
from npusim.isa.base.plain_values import Between, Codec, Misfit, printable
from npusim.isa.program.record import codec

MOST = (1 << 31) - 1
"""Largest size, count or step: every model format holds them in signed 32-bit integers."""

Size = Annotated[int, Between(0, MOST)]
"""A size, or a position counted from the front."""
Count = Annotated[int, Between(1, MOST)]
"""A count or a distance of at least 1."""
Step = Annotated[int, Between(-MOST, MOST)]
"""A distance in either direction."""

Sizes = tuple[Size, ...]
Steps = tuple[Step, ...]
Pair = tuple[Count, Count]
"""One value for height and one for width."""
Border = tuple[Size, Size]
"""Padding before and after the elements of an axis."""
Borders = tuple[Border, Border]
"""((top, bottom), (left, right))."""

NO_BORDERS: Borders = ((0, 0), (0, 0))

Activation = Literal["none", "relu", "relu6", "relu_n1_to_1"]

Rescale = Literal["fixed_point", "float32", "fused", "dynamic", "dynamic_asymmetric", "power_of_two"]
"""The ways to requantize: how quantized values or their sums become quantized values of a result.

fixed_point: by integer multipliers and shifts, as TFLite's kernels do.
float32:     as ONNX defines it: quantized values become float32, the operator computes on them, the result is divided
             by its scale and rounded half to even, and the zero point is added. Weighted sums are exact, and rescaled
             by one product; their int32 output is the sum itself
             (`npusim.kernels.operators.convolution.exact_sum`).
fused:       as the operators of com.microsoft do, where they differ from that; normalizations by integer sums.
dynamic, dynamic_asymmetric: float32 activations meet 8-bit weights: rows of activations are quantized at run time, with
             zero point 0 or with one of their own, as LiteRT does (`npusim.kernels.operator.dynamic_range`).
power_of_two: by a shift of one int16 operand, whose scale and that of the result are powers of two, as LiteRT adds and
             subtracts where PotScaleInt16 is set.
"""

DYNAMIC_RANGE: tuple[Rescale, ...] = ("dynamic", "dynamic_asymmetric")
"""The requantizations of layers with 8-bit weights and float32 activations."""

_REQUIRED = object()
_DEFAULT = object()


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Parameters:
    """The parameters of an operator that has none, and the base of all others.

    A subclass behaves as a frozen dataclass with keyword arguments. It is none, because generating the methods of all
    dataclasses took longer than importing the operators.

    Raises GraphError for a value that is missing, unknown, or not what the annotation of its field allows. Lists count
    as tuples, and numbers of numpy as those of Python.
    """

    rescale: Rescale = "fixed_point"

    def __init__(self, /, **values: Any) -> None:
        kind: Any = type(self)
        codecs = _codecs(kind)
        for name in values:
            if name not in codecs:
                near = nearest(name, codecs)
                hint = f"did you mean {near}?" if near else f"known here: {', '.join(codecs) or 'none'}"
                raise GraphError(f"{printable(name)}: unknown parameter, {hint}")
        for name, kinds in codecs.items():
            value = values.get(name, _DEFAULT)
            if value is _DEFAULT:
                value = getattr(kind, name, _REQUIRED)
                if value is _REQUIRED:
                    raise GraphError(f"{name}: is missing")
                self.__dict__[name] = value
                continue
            try:
                self.__dict__[name] = kinds.read(kinds.write(value))
            except Misfit as fault:
                raise GraphError(fault.below(name).located) from None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the parameters with these plain values by name. Raises GraphError as the constructor does."""
        return cls(**values)

    def plain(self) -> dict[str, Any]:
        """Return the values by name as JSON stores them, without those that have their default."""
        kind: Any = type(self)
        return {
            name: kinds.write(value)
            for (name, kinds), value in zip(_codecs(kind).items(), vars(self).values(), strict=True)
            if value != getattr(kind, name, _REQUIRED)
        }

    def changed(self, **values: Any) -> Self:
        """Return a copy with some values changed."""
        return type(self)(**{**vars(self), **values})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name}: parameters do not change; `changed` makes others")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name}: parameters do not change; `changed` makes others")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        shown = {
            name: value for name, value in vars(self).items() if (name, value) != ("rescale", "fixed_point")
        }
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


@cache
def _codecs(kind: Any) -> dict[str, Codec]:
    """Return how to check each field, in the order of the annotations, those of the base class last."""
    hints = get_type_hints(kind, include_extras=True)
    hints["rescale"] = hints.pop("rescale")
    return {name: codec(annotation) for name, annotation in hints.items()}


NONE = Parameters()
"""The parameters of operators without any."""


class Activated(Parameters):
    """Parameters of operators that apply an activation to their own output."""

    activation: Activation = "none"


class ByValue(Parameters):
    """Parameters of operators that choose or compare.

    by_value: quantized values are compared exactly by the floats they stand for, and results have the scale of the
              output, as NNAPI defines it. Otherwise they are compared as TFLite's kernels do.
    """

    by_value: bool = False


class Unchecked(Parameters):
    """Parameters of an operator that npusim does not have: plain values by name."""

    values: Mapping[str, Any] = {}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return parameters with all of the values."""
        return cls(values=values)

    def plain(self) -> dict[str, Any]:
        """Return all values."""
        return dict(self.values)
