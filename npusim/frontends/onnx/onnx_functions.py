"""Calls of functions in ONNX models, replaced by their nodes: the model's own functions and those of the standard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from npusim.frontends.onnx.onnx_tensors import line
from npusim.isa.base.errors import FormatError
from npusim.kernels.graph.graph import quoted
from npusim.kernels.graph.limits import MOST_WRITTEN_OUT

_MOST_NESTED = 128
"""Maximum depth of functions that call each other."""

Key = tuple[str, str]

_MOST_VERSION = 1 << 30

_MOST_DEEP = 4
"""Maximum depth of ONNX's own functions within each other."""


def written_out(model: Any, known: Callable[[str, str], bool]) -> Any:
    """Return a model without calls of functions; `known` says whether npusim has the operation of a domain and name.

    Raises FormatError for functions that call each other in a circle, or that become too many nodes.
    """
    from onnx import inliner

    if model.functions:
        _check_size(model)
        model = _by(inliner.inline_local_functions, model)
    for _ in range(_MOST_DEEP):  # The nodes of a function may be calls of functions again.
        foreign = _of_the_standard(model, known)
        if not foreign:
            break
        versions = {entry.domain: entry.version for entry in model.opset_import}
        _say_defaults(model.graph, foreign, versions)
        model = _by(_without(sorted(foreign)), typed(model))
    return model


def _say_defaults(graph: Any, foreign: set[Key], versions: dict[str, int]) -> None:
    """Add the default attributes to nodes that become functions, because functions read them by name."""
    from onnx import defs

    for node in nodes_of(graph):
        if (node.domain, node.op_type) in foreign:
            stated = {attribute.name for attribute in node.attribute}
            schema = defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
            for name, attribute in schema.attributes.items():
                if name not in stated and attribute.default_value.name:
                    node.attribute.append(attribute.default_value)


def _without(functions: list[Key]) -> Callable[[Any], Any]:
    from onnx import inliner

    return lambda model: inliner.inline_selected_functions(model, functions, False, True)


def _by(expand: Callable[[Any], Any], model: Any) -> Any:
    try:
        return expand(model)
    except Exception as fault:  # the package raises many kinds of errors
        raise FormatError(f"has functions that cannot be written out: {line(fault)}") from None


def typed(model: Any) -> Any:
    """Return a model with the types of its values, as far as the package onnx can infer them."""
    from onnx import helper, shape_inference

    stated = {value.name for value in (*model.graph.value_info, *model.graph.input)}
    model.graph.value_info.extend(
        helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in model.graph.initializer
        if tensor.name not in stated
    )
    try:
        return shape_inference.infer_shapes(model)
    except Exception:  # Without types some functions stay as they are, and the reader reports which.
        return model


def nodes_of(graph: Any) -> Iterator[Any]:
    """Yield the nodes of a graph or function, including those of nested graphs."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes_of(attribute.g)


def _check_size(model: Any) -> None:
    functions = {(function.domain, function.name): function for function in model.functions}
    sizes: dict[Key, int] = {}

    def size(graph: Any, callers: tuple[Key, ...]) -> int:
        total = 0
        if len(callers) > _MOST_NESTED:
            raise FormatError(f"has functions within functions, more than {_MOST_NESTED} deep")
        for node in nodes_of(graph):
            key = (node.domain, node.op_type)
            if key in callers:
                raise FormatError(f"function {quoted(node.op_type)} calls itself, perhaps by way of others")
            if key in functions and key not in sizes:
                sizes[key] = size(functions[key], (*callers, key))
            total += sizes.get(key, 1)
        return total

    count = size(model.graph, ())
    most = MOST_WRITTEN_OUT + sum(1 for graph in (model.graph, *model.functions) for _ in nodes_of(graph))
    if count > most:
        raise FormatError(
            f"has {count:,} nodes with its functions written out; npusim reads {most:,} at most"
        )


def _of_the_standard(model: Any, known: Callable[[str, str], bool]) -> set[Key]:
    """Return the operations that npusim does not have and that ONNX defines as functions."""
    from onnx import defs

    versions = {entry.domain: entry.version for entry in model.opset_import}
    asked = {
        (node.domain, node.op_type) for node in nodes_of(model.graph) if not known(node.domain, node.op_type)
    }
    keys = set()
    for domain, name in asked:
        version = min(max(versions.get(domain, 1), 0), _MOST_VERSION)
        if not defs.has(name, version, domain):
            continue
        schema: Any = defs.get_schema(name, version, domain)
        if schema.has_function or schema.has_context_dependent_function:
            keys.add((domain, name))
    return keys
