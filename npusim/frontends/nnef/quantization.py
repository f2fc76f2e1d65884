"""Quantization files: what each tensor is quantized by, with values per tensor or per channel."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.frontends.nnef.language import standard
from npusim.frontends.nnef.language.expressions import ExpressionParser
from npusim.frontends.nnef.language.lexer import END, QUOTED
from npusim.frontends.nnef.language.syntax import Expression, Fragment, Invocation, Items, Literal, Parameter
from npusim.frontends.nnef.language.types import Array, Primitive, Tensor, Type, castable, substitute
from npusim.frontends.nnef.network import Attribute, Quantization
from npusim.frontends.nnef.places import DocumentError, Place, Source, quoted

Declared = Callable[[str], Fragment | None]

_Numbers = NDArray[np.float64] | NDArray[np.int64]


def parse(source: Source, own: Declared, tensors: Collection[str]) -> dict[str, Quantization]:
    """The entries of a quantization file by tensor. Raises DocumentError.

    own: gives the fragments of the document by name. tensors: the identifiers of the graph.
    """
    try:
        return _Parser(source, own, tensors).entries()
    except RecursionError:
        raise source.fault(0, "N", "the text nests too deeply for what is left of the stack") from None


class _Parser(ExpressionParser):
    """Reads quantization files."""

    def __init__(self, source: Source, own: Declared, tensors: Collection[str]) -> None:
        super().__init__(source)
        self.is_flat = True
        self.flat_reason = "; values are literals, and arrays of them"
        self._own = own
        self._tensors = tensors

    def entries(self) -> dict[str, Quantization]:
        lexer = self.lexer
        entries: dict[str, Quantization] = {}
        while lexer.kind != END:
            if lexer.kind != QUOTED:
                raise lexer.fault("Q1", f"expected the name of a tensor in quotes, found {lexer.shown()}")
            name, offset = lexer.text[1:-1], lexer.offset
            if name in entries:
                raise lexer.fault("Q3", f"tensor {quoted(name)} has an entry already")
            if name not in self._tensors:
                raise lexer.fault("Q4", f"the graph has no tensor {quoted(name)}")
            self.count(offset)
            lexer.advance()
            self.expect(":", "Q1", f"after tensor {quoted(name)}")
            entries[name] = self._quantization(offset)
            self.expect(";", "Q1", f"after the entry of {quoted(name)}")
        return entries

    def _quantization(self, entry: int) -> Quantization:
        operation, offset = self.identifier("a quantization", "Q1")
        fragment = standard.fragment(operation) or self._own(operation)
        if fragment is None:
            known = ", ".join(
                row.name for row in standard.OPERATIONS.values() if row.family == "quantization"
            )
            raise self.source.fault(offset, "Q2", f"{quoted(operation)} is no operation; there are {known}")
        if not isinstance(fragment.parameters[0].type, Tensor):
            raise self.source.fault(offset, "Q2", f"the first parameter of {quoted(operation)} is no tensor")
        call = self._invocation(operation, offset, None)
        assert isinstance(call, Invocation)
        values = self._values(call, fragment)
        tensors: dict[str, _Numbers] = {}
        attributes: dict[str, Attribute] = {}
        for parameter in fragment.parameters[1:]:
            value = values.get(parameter.name)
            kind = substitute(parameter.type, "scalar") if fragment.generic is not None else parameter.type
            if isinstance(kind, Tensor):
                tensors[parameter.name] = self._numbers(parameter, kind, value)
            else:
                attributes[parameter.name] = self._attribute(parameter, kind, value)
        self._check_values(call, tensors, attributes)
        return Quantization(operation, tensors, attributes, Place(self.source, entry))

    def _values(self, call: Invocation, fragment: Fragment) -> dict[str, Expression]:
        """The arguments by name (rules Q2, C3, C5, C6)."""
        fault = self.source.fault
        if call.positional:
            raise fault(call.positional[0].offset, "Q2", "an argument by position; write name = value")
        first, *parameters = [parameter.name for parameter in fragment.parameters]
        values: dict[str, Expression] = {}
        for name, offset, value in call.named:
            if name == first:
                raise fault(offset, "Q2", f"{quoted(name)} is the tensor itself, which is left out")
            if name not in parameters:
                known = ", ".join(parameters)
                raise fault(
                    offset, "C5", f"{quoted(call.name)} has no parameter {quoted(name)}; it has {known}"
                )
            if name in values:
                raise fault(offset, "C6", f"parameter {quoted(name)} of {quoted(call.name)} is named twice")
            values[name] = value
        for parameter in fragment.parameters[1:]:
            if parameter.name not in values and parameter.default is None:
                raise fault(
                    call.offset, "C3", f"{quoted(call.name)} lacks a value for {quoted(parameter.name)}"
                )
        return values

    def _literal(self, parameter: Parameter, value: Expression | None) -> Literal:
        if value is None:
            assert parameter.default is not None
            return parameter.default
        if isinstance(value, Literal):
            return value
        if isinstance(value, Items):
            raise self.source.fault(
                value.offset, "T4", f"the items of {quoted(parameter.name)} have no common type"
            )
        raise self.source.fault(value.offset, "Q2", f"{quoted(parameter.name)} is given no literal")

    def _attribute(self, parameter: Parameter, kind: Type, value: Expression | None) -> Attribute:
        literal = self._literal(parameter, value)
        if not castable(literal.type, kind):
            text = f"{quoted(parameter.name)} is {kind}, not {literal.type}"
            raise self.source.fault(literal.offset, "C9", text)
        attribute: Attribute = literal.value
        return attribute

    def _numbers(self, parameter: Parameter, kind: Tensor, value: Expression | None) -> _Numbers:
        """The value of a tensor parameter: rank 0, or an array of the literal's nesting."""
        literal = self._literal(parameter, value)
        item: Type | None = literal.type
        rank = 0
        while isinstance(item, Array):
            item = item.item
            rank += 1
        if (
            not isinstance(item, Primitive)
            or not castable(item, kind)
            or item.name not in ("scalar", "integer")
        ):
            text = f"{quoted(parameter.name)} is {kind} or an array of its values, not {literal.type}"
            raise self.source.fault(literal.offset, "C9", text)
        extents = _extents(literal.value)
        if extents is None or len(extents) != rank or rank > 8 or 0 in extents:
            text = f"the arrays of {quoted(parameter.name)} are empty or of different lengths"
            raise self.source.fault(literal.offset, "Q10", text)
        if item.name == "integer":
            return np.asarray(literal.value, np.int64)
        return np.asarray(literal.value, np.float64)

    def _check_values(
        self, call: Invocation, tensors: dict[str, _Numbers], attributes: dict[str, Any]
    ) -> None:
        """Rules Q5 and Q10: what values make sense together."""

        def fault(name: str, rule: str, text: str) -> DocumentError:
            offset = next((value.offset for given, _, value in call.named if given == name), call.offset)
            return self.source.fault(offset, rule, text)

        shapes = {name: values.shape for name, values in tensors.items() if values.ndim}
        for name, shape in shapes.items():
            first = next(iter(shapes))
            if shape != shapes[first]:
                text = f"{quoted(name)} has shape {list(shape)}, {quoted(first)} {list(shapes[first])}"
                raise fault(name, "Q10", text)
        if "scale" in tensors and not np.all(tensors["scale"] > 0):
            raise fault("scale", "Q5", f"scale {tensors['scale'].min():g} is not above 0")
        if "bits" in attributes and not 1 <= attributes["bits"] <= 64:
            raise fault("bits", "Q5", f"bits {attributes['bits']} are not 1 to 64")
        if "min" in tensors and "max" in tensors and not np.all(tensors["min"] < tensors["max"]):
            raise fault("min", "Q5", "min is not below max")
        if call.name == "logarithmic_quantize" and not np.all(tensors["max"] > 0):
            raise fault("max", "Q5", f"max {tensors['max'].min():g} is not above 0")


def _extents(value: Any) -> tuple[int, ...] | None:
    """The extents of nested lists; None for jagged ones."""
    if not isinstance(value, list):
        return ()
    if not value:
        return (0,)
    inner = {_extents(item) for item in value} if isinstance(value[0], list) else {()}
    extents = inner.pop()
    return None if inner or extents is None else (len(value), *extents)
