"""Reading of ONNX files into networks of plain values, through the package `onnx`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from npusim.base.extras import missing
from npusim.frontends.forms.networks import STANDARD, Network, Node, Value, in_order
from npusim.frontends.forms.qdq import NARROW, held_type, type_name
from npusim.frontends.onnx.onnx_functions import nodes_of, typed, written_out
from npusim.frontends.onnx.onnx_rewrites import ELEVEN, apart, brought_forward
from npusim.frontends.onnx.onnx_tensors import array_of, dense, line
from npusim.isa.base import user_file
from npusim.isa.base.errors import FormatError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import quoted
from npusim.kernels.graph.limits import MOST_WRITTEN_OUT

OLDEST_OPSET = 7
"""The oldest version of ONNX's own operations that is read; before it, some names had other meanings."""

_COMPILED = "EPContext"
"""The operation of com.microsoft that contains machine code for an accelerator."""

MOST_DEEP = 16
"""The deepest nesting of graphs within nodes of graphs."""


def parsed(path: Path, known: Callable[[str, str], bool]) -> Network:
    """Return the network of a file; `known` says whether npusim has the operation of a domain and name.

    Raises FormatError for a file that is no ONNX model, or whose data files are missing.
    """
    onnx = _library()
    model = onnx.ModelProto()
    try:
        model.ParseFromString(user_file.contents(path, user_file.MODEL, FormatError, ""))
    except FormatError:
        raise
    except Exception as fault:  # protobuf has several errors of its own
        raise FormatError(f"is no ONNX model: {line(fault)}") from None
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise FormatError("is no ONNX model: it has no graph with nodes")
    opsets = {_domain(entry.domain): int(entry.version) for entry in model.opset_import}
    _check_opset(opsets.get(STANDARD), model.graph)
    _check_texts(model)
    _check_nested(model.graph)
    model = written_out(model, known)
    if any(node.op_type == _COMPILED for node in nodes_of(model.graph)):
        raise FormatError("already compiled for one execution provider by ONNX Runtime; give the original")
    if not all(known(node.domain, node.op_type) for node in nodes_of(model.graph)):
        model = typed(model)
    return _File(path.parent, opsets, known).network(model.graph)


def _check_nested(graph: Any) -> None:
    """Raise FormatError if branches and loops have more nodes than they may be expanded into."""
    count = sum(1 for _ in nodes_of(graph)) - len(graph.node)
    if count > MOST_WRITTEN_OUT:
        raise FormatError(
            f"has {count:,} nodes in its branches and loops; npusim writes out {MOST_WRITTEN_OUT:,} at most"
        )


def _library() -> Any:
    try:
        import onnx
    except ImportError:
        raise FormatError(f"is an ONNX model; {missing('reading one', 'onnx')}") from None
    return onnx


def _check_texts(model: Any) -> None:
    """Raise FormatError for names that are no UTF-8 text, which protobuf returns as bytes."""
    texts = [entry.domain for entry in model.opset_import]
    texts += [text for function in model.functions for text in (function.domain, function.name)]
    for graph in (model.graph, *model.functions):
        for node in nodes_of(graph):
            texts += [node.name, node.op_type, node.domain, *node.input, *node.output]
            texts += [attribute.name for attribute in node.attribute]
            inner = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
            texts += [text for message in inner for text in _named_in(message)]
    if any(isinstance(text, bytes) for text in (*texts, *_named_in(model.graph))):
        raise FormatError("is damaged: a name in it is no UTF-8 text")


def _named_in(graph: Any) -> list[str | bytes]:
    values = (*graph.input, *graph.output, *graph.initializer)
    sizes = [size.dim_param for value in graph.input for size in value.type.tensor_type.shape.dim]
    return [graph.name, *sizes, *(value.name for value in values)]


def _check_opset(version: int | None, graph: Any) -> None:
    if version is None and all(_domain(node.domain) != STANDARD for node in nodes_of(graph)):
        return  # A model of decision trees, for example, has only operations of ai.onnx.ml.
    if version is None:
        raise FormatError("states no version of ONNX's operations (opset_import)")
    newest = _library().defs.onnx_opset_version()
    fault = f"has operations of version {version} (opset_import)"
    reads = f"npusim and the onnx that is installed read {OLDEST_OPSET} to {newest}"
    if not 0 < version <= newest:
        raise FormatError(f"{fault}; {reads}")
    changed = next(_changed(graph, version), None) if version < OLDEST_OPSET else None
    if changed is not None:
        raise FormatError(f"{fault}, and {changed} was another one then; {reads}")


def _changed(graph: Any, version: int) -> Iterator[str]:
    """Yield ONNX's own operations of a graph that changed their meaning since the oldest version that is read."""
    defs = _library().defs
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _changed(attribute.g, version)
        if _domain(node.domain) != STANDARD:
            continue
        try:
            then, now = (
                defs.get_schema(node.op_type, number, "").since_version for number in (version, OLDEST_OPSET)
            )
        except defs.SchemaError:
            then, now = 0, 1
        if then != now:
            yield quoted(node.op_type)


def _domain(name: str) -> str:
    return STANDARD if name == "ai.onnx" else name


@dataclass(frozen=True, slots=True)
class _File:
    """Context of all graphs of a file: its folder, the opset version of each domain, and the operations npusim has."""

    folder: Path
    opsets: dict[str, int]
    known: Callable[[str, str], bool]

    def network(self, graph: Any, deep: int = 0) -> Network:
        """Return the plain values of a graph."""
        if deep > MOST_DEEP:
            raise FormatError(f"has graphs within graphs, more than {MOST_DEEP} deep")
        constants = self._constants(graph)
        typed = _value if not deep else _named
        inputs = tuple(typed(value) for value in graph.input if value.name not in constants)
        read = []
        for number, node in enumerate(graph.node):
            original = self._node(node, number, deep)
            newer, moved = brought_forward(original, self.opsets.get(STANDARD, ELEVEN))
            parts, values = apart(newer)
            read += parts
            constants |= moved | values
        for node in read:
            if _is_constant(node):
                _add(constants, node.outputs[0], node.attributes["value"])
        read = [node for node in read if not _is_constant(node)]
        _check_names([*constants, *(value.name for value in inputs)], read)
        nodes = in_order(read)
        outputs = tuple(value.name for value in graph.output)
        foreign = self._foreign(graph, nodes)
        return Network(
            graph.name, nodes, constants, inputs, outputs, self.opsets, (), _narrow(graph), foreign
        )

    def _foreign(self, graph: Any, nodes: Iterable[Node]) -> dict[str, Value]:
        """Map the results of operations that npusim lacks to their stated types; only tensors, not sequences."""
        lacks = [node for node in nodes if not self.known(node.domain, node.operation)]
        results = {name for node in lacks for name in node.outputs}
        infos = (value for value in (*graph.value_info, *graph.output) if value.name in results)
        return {value.name: _value(value) for value in infos if value.type.HasField("tensor_type")}

    def _constants(self, graph: Any) -> dict[str, Array]:
        constants: dict[str, Array] = {}
        for tensor in graph.initializer:
            _add(constants, tensor.name, array_of(tensor, self.folder))
        for tensor in graph.sparse_initializer:
            constants[tensor.values.name] = dense(tensor, self.folder)
        return constants

    def _node(self, node: Any, number: int, deep: int) -> Node:
        name = node.name or (node.output[0] if node.output else "") or f"{node.op_type}_{number}"
        attributes: dict[str, Any] = {}
        for attribute in node.attribute:
            try:
                attributes[attribute.name] = self._attribute(attribute, deep)
            except ValueError as fault:
                raise FormatError(
                    f"node {quoted(name)}: attribute {quoted(attribute.name)}: {line(fault)}"
                ) from None
        return Node(
            node.op_type, _domain(node.domain), name, tuple(node.input), tuple(node.output), attributes
        )

    def _attribute(self, attribute: Any, deep: int) -> Any:
        """Return the plain value of an attribute; tensors become arrays, and graphs networks."""
        import onnx

        kinds = onnx.AttributeProto
        if attribute.type == kinds.TENSOR:
            return array_of(attribute.t, self.folder)
        if attribute.type == kinds.SPARSE_TENSOR:
            return dense(attribute.sparse_tensor, self.folder)
        if attribute.type == kinds.GRAPH:
            return self.network(attribute.g, deep + 1)
        value = onnx.helper.get_attribute_value(attribute)
        plain = (kinds.INTS, kinds.FLOATS, kinds.STRINGS)
        return [_text(item) for item in value] if attribute.type in plain else _text(value)


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _add(constants: dict[str, Array], name: str, value: Array) -> None:
    """Add a constant. Raises FormatError if another value has its name; an equal one is accepted, as in ONNX
    Runtime.
    """
    other = constants.setdefault(name, value)
    if other is not value and (other.dtype != value.dtype or not np.array_equal(other, value)):
        raise FormatError(
            f"constant {quoted(name)}: is there twice, with different values; give each a name of its own"
        )


def _check_names(given: list[str], nodes: list[Node]) -> None:
    """Raise FormatError if two nodes or constants give the same name to a value."""
    counts = Counter(given)
    counts.update(name for node in nodes for name in node.outputs if name)
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        raise FormatError(
            f"value {quoted(twice)} is written {counts[twice]} times; every value has one writer"
        )


def _narrow(graph: Any) -> dict[str, int]:
    """Return the bits per element of constants and inputs whose elements are narrower than a byte."""
    types = {value.name: value.type.tensor_type.elem_type for value in graph.input}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    for node in graph.node:
        for attribute in node.attribute:
            if (node.op_type, attribute.name) == ("Constant", "value") and node.output:
                types[node.output[0]] = attribute.t.data_type
    held = {name: NARROW.get(type_name(code)) for name, code in types.items() if code}
    return {name: kind[1] for name, kind in held.items() if kind is not None}


def _is_constant(node: Node) -> bool:
    """Return whether a node is a constant array."""
    kind = (node.domain, node.operation)
    return (
        kind == (STANDARD, "Constant")
        and len(node.outputs) == 1
        and isinstance(node.attributes.get("value"), np.ndarray)
    )


def _named(value: Any) -> Value:
    """Return an input of a nested graph, whose type its operand gives."""
    return Value(value.name, "", None)


def _value(value: Any) -> Value:
    where = f"input {quoted(value.name)}"
    if not value.type.HasField("tensor_type"):
        kind = value.type.WhichOneof("value") or "nothing"
        raise FormatError(f"{where} is {kind.removesuffix('_type')} and no tensor; npusim has tensors alone")
    kind = value.type.tensor_type
    sizes = None
    if kind.HasField("shape"):
        sizes = tuple(  # some exporters write -1 for an open size
            int(size.dim_value) if size.HasField("dim_value") and size.dim_value >= 0 else str(size.dim_param)
            for size in kind.shape.dim
        )
    return Value(value.name, held_type(kind.elem_type)[0], sizes)
