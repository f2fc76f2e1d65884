"""A network of NNEF calls: checked, fragments expanded, attributes evaluated, calls in their order.

The language hands this to the operations. It contains no grammar, types or expressions any more.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import field
from typing import Literal, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

from npusim.frontends.nnef.places import DocumentError, Place
from npusim.frontends.nnef.tensor_file import TensorFile
from npusim.isa.base.lazy_dataclass import dataclass

Item: TypeAlias = Literal["scalar", "integer", "logical"]
"""The kind of values in a tensor."""

Number: TypeAlias = float | int | bool
"""A literal that stands for a constant tensor of extent one: float is a scalar, int an integer, bool a logical."""

Operand: TypeAlias = Union[str, Number, "tuple[Operand, ...]"]
"""A tensor argument: a tensor's name, a literal, or several of these for array and tuple parameters."""

Attribute: TypeAlias = Union[float, int, bool, str, "list[Attribute]", "tuple[Attribute, ...]"]
"""An evaluated attribute: arrays are lists, tuples are tuples."""

ResultNames: TypeAlias = Union[str, "tuple[str, ...]"]
"""The name of a result, or the names of the items if it is an array of tensors."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an operation, with a value for every parameter, given or default.

    operation: its name: a standard operation, or a fragment of the document that has no body or is kept whole.
    results: one entry for each declared result.
    tensors: by parameter name, in declared order.
    attributes: by parameter name, in declared order.
    item: what `?` stands for in a generic operation.
    place: the place of the call in the graph, or in the fragment that was expanded.
    within: the calls of fragments that led to it, outermost first: fragment name and place.
    """

    operation: str
    results: tuple[ResultNames, ...]
    tensors: dict[str, Operand]
    attributes: dict[str, Attribute]
    item: Item | None
    place: Place
    within: tuple[tuple[str, Place], ...] = ()

    def result_names(self) -> tuple[str, ...]:
        """Return the names of all result tensors in order, arrays flattened."""
        names: list[str] = []
        for result in self.results:
            names.extend([result] if isinstance(result, str) else result)
        return tuple(names)

    def fault(self, rule: str, text: str) -> DocumentError:
        """Return the error for this call, with its place, operation and results."""
        tensors = ", ".join(self.result_names())
        shown = f"{self.operation} of {tensors[:80]}: {text}"
        if self.within:
            fragment, place = self.within[0]
            shown += f"; in fragment {fragment}, called at line {place.line}, column {place.column}"
        return self.place.fault(rule, shown)


@dataclass(frozen=True, slots=True)
class Variable:
    """A tensor whose values are in a data file; several names may share one label.

    data: the file's contents; None without a file.
    """

    name: str
    label: str
    shape: tuple[int, ...]
    item: Item
    place: Place
    data: TensorFile | None = None


@dataclass(frozen=True, slots=True)
class Quantization:
    """An entry of the quantization file.

    operation: such as "zero_point_linear_quantize".
    tensors:   tensor parameters (scale, zero_point, min, max): float64 or int64 arrays of rank 0, or per channel.
    attributes: the others (bits, signed, symmetric).
    """

    operation: str
    tensors: dict[str, NDArray[np.float64] | NDArray[np.int64]]
    attributes: dict[str, Attribute]
    place: Place


@dataclass(frozen=True, slots=True)
class Network:
    """A network.

    inputs, outputs: names in the graph's order; every input is the result of an `external` call.
    calls: in an executable order, including `external`, `variable` and `constant`.
    items: the kind of values of each tensor, by its name.
    variables: by tensor name.
    quantization: by tensor name; only tensors that the graph names have an entry.
    warnings: one line each.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    calls: tuple[Call, ...]
    items: dict[str, Item]
    variables: dict[str, Variable]
    quantization: dict[str, Quantization]
    warnings: tuple[str, ...] = field(default=())

    def missing(self) -> tuple[str, ...]:
        """Return the labels of the variables without data, each once."""
        return tuple(dict.fromkeys(v.label for v in self.variables.values() if v.data is None))


Shape: TypeAlias = "tuple[int, ...]"

Infer: TypeAlias = Callable[[Call, MutableMapping[str, Shape]], None]
"""The function (call, shapes by tensor name) that adds the shapes of the call's results. Raises DocumentError.

The expansion asks for shapes only if a document computes with them (shape_of, or unstack to an array without names).
"""
