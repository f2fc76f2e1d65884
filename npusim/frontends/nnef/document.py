"""NNEF documents with their containers: read, checked, and turned into networks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from npusim.frontends.nnef import nnef_container, quantization_file, tensor_file
from npusim.frontends.nnef.call_network import Call, Infer, Network, Quantization, Variable
from npusim.frontends.nnef.language import call_expansion, checker, parser
from npusim.frontends.nnef.language.syntax import Parsed
from npusim.frontends.nnef.nnef_container import Container
from npusim.frontends.nnef.places import quoted
from npusim.frontends.nnef.tensor_file import TensorFile
from npusim.isa.base.lazy_dataclass import dataclass

_KINDS = {"scalar": "f", "integer": "iu", "logical": "b"}
"""Kinds of numpy types that the data of an item may have."""


@dataclass(frozen=True, slots=True)
class Document:
    """A checked document; `network` expands it."""

    container: Container
    parsed: Parsed

    def network(self, whole: Collection[str] = (), infer: Infer | None = None) -> Network:
        """Return the network, with the data of the container.

        whole: names of operations made of others, standard ones or the document's, that stay one call.
        infer: computes shapes, for documents that compute with shapes; None refuses these.

        Raises DocumentError for the first fault in expansion, labels, quantization or data.
        """
        parsed = self.parsed
        expanded = call_expansion.expand(parsed, whole, infer)
        named = [name for name in expanded.items if "/" not in name]
        variables: dict[str, Variable] = {}
        warnings = list(dict.fromkeys(parsed.warnings))
        data: dict[str, TensorFile | None] = {}
        quantization = self._quantization(named)
        labels: dict[str, Variable] = {}
        for call in expanded.calls:
            if call.operation == "variable":
                variable = self._variable(call, labels, data, quantization, warnings)
                variables[variable.name] = variable
        if self.container.has_files:
            warnings += _missing_data(variables.values())
        return Network(
            parsed.graph.name,
            tuple(name for name, _ in parsed.graph.parameters),
            tuple(name for name, _ in parsed.graph.results),
            tuple(expanded.calls),
            expanded.items,
            variables,
            quantization,
            tuple(warnings),
        )

    def _quantization(self, named: Collection[str]) -> dict[str, Quantization]:
        source = self.container.quantization
        if source is None:
            return {}
        own = {fragment.name: fragment for fragment in self.parsed.fragments}
        return quantization_file.parse(source, own.get, frozenset(named))

    def _variable(
        self,
        call: Call,
        labels: dict[str, Variable],
        data: dict[str, TensorFile | None],
        quantization: Mapping[str, Quantization],
        warnings: list[str],
    ) -> Variable:
        """Return a variable with its data, after a check of its label against the others (rules I7, X2, V4)."""
        label, extents = call.attributes["label"], call.attributes["shape"]
        assert isinstance(label, str)
        assert isinstance(extents, list)
        shape = tuple(extent for extent in extents if isinstance(extent, int))
        path = nnef_container.data_path(label)
        if path is None:
            raise call.fault("X2", f"label {quoted(label)} is no path inside the folder")
        if any(extent < 1 for extent in shape):
            raise call.fault("S1", f"shape {list(shape)} has an extent below 1")
        if label not in data:
            contents = self.container.read(path)
            data[label] = None if contents is None else tensor_file.parse(contents, path)
            if (held := data[label]) is not None and held.warning:
                warnings.append(held.warning)
        variable = Variable(
            call.result_names()[0], label, shape, call.item or "scalar", call.place, data[label]
        )
        first = labels.setdefault(label, variable)
        if (first.shape, first.item) != (variable.shape, variable.item):
            text = (
                f"label {quoted(label)} has shape {list(shape)} of {variable.item}, in {quoted(first.name)}"
            )
            raise call.fault("I7", f"{text} {list(first.shape)} of {first.item}")
        if variable.data is not None:
            _check_data(call, variable, variable.data, variable.name in quantization)
        return variable


def load(path: str | Path) -> Document:
    """Return the document in a folder, text or archive. Raises DocumentError with a text that does not repeat the
    path.
    """
    return _checked(nnef_container.opened(Path(path)))


def loads(graph: str, quantization: str | None = None, files: Mapping[str, bytes] | None = None) -> Document:
    """Return the document of a graph's text, a quantization file's text, and data files by their paths.

    Raises DocumentError.
    """
    return _checked(nnef_container.held(graph, quantization, files))


def _checked(container: Container) -> Document:
    parsed = parser.parse(container.graph)
    checker.check(parsed)
    return Document(container, parsed)


def _missing_data(variables: Collection[Variable]) -> list[str]:
    """Return a warning if no variable of a container has data. Raises DocumentError if only some have (rule V4)."""
    missing = [variable for variable in variables if variable.data is None]
    if not missing:
        return []
    first, more = missing[0], len(missing) - 1
    text = f"variable {quoted(first.name)} has no data file {quoted(f'{first.label}{nnef_container.DATA_SUFFIX}')}"
    if len(missing) < len(variables):
        raise first.place.fault("V4", f"{text}; others have")
    others = f", nor {'have' if more > 1 else 'has'} {more} more" if more else ""
    return [f"line {first.place.line}: {text}{others}: the model can be timed, not run"]


def _check_data(call: Call, variable: Variable, data: TensorFile, has_quantization: bool) -> None:
    """Check rule V4. Quantized tensors are stored as integers, whatever the variable's type."""
    file = f"{variable.label}{nnef_container.DATA_SUFFIX}"
    if data.shape != variable.shape:
        text = f"{quoted(file)} has shape {list(data.shape)}, the variable {list(variable.shape)}"
        raise call.fault("V4", text)
    kind = np.dtype(data.values.dtype).kind
    is_code = kind in "iu" and (data.quantized or has_quantization)
    if kind not in _KINDS[variable.item] and not (is_code and variable.item == "scalar"):
        raise call.fault("V4", f"{quoted(file)} has items of type {data.values.dtype} for {variable.item}")
