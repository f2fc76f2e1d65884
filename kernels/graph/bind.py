"""Binding: a graph with unknown sizes becomes one whose shapes are all known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from operator import index

from npusim.isa.base.errors import GraphError, nearest
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.kernels.graph.control import body_operands
from npusim.kernels.graph.graph import UNKNOWN, UNRANKED, Graph, Node, Tensor, quoted
from npusim.kernels.graph.inference import Shape, complete_results, fits, layer_name

Sizes = Mapping[str, int | Sequence[int]]
"""Sizes that a user gives: shapes by the names of inputs, single sizes by their own names."""


@dataclass(slots=True)
class Offered:
    """Shapes of the arrays given to a run, which settle the sizes that a model leaves open.

    shapes: shapes of the arrays by input name, or by position as in0, in1, ...
    taken:  open sizes that no option gave, as the reader settled them: from `shapes`, or 1 for a first axis.
    """

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    taken: dict[str, int | tuple[int, ...]] = field(default_factory=dict)

    def learn(self, tensor: Tensor, position: int, sizes: Sizes) -> None:
        """Add the shape of an input's array to `taken` if the input has open sizes that `sizes` do not give."""
        shape = self.shapes.get(tensor.name, self.shapes.get(f"in{position}"))
        if shape is not None and not tensor.bound and _given(tensor, sizes) is None:
            self.taken[tensor.name] = shape


def open_batch(tensor: Tensor, sizes: Sizes) -> dict[str, int | tuple[int, ...]]:
    """Return size 1 for an open first axis of an input that `sizes` do not give, in the form of `sizes`; else empty.

    In nearly every exported model the first axis is the batch, and converters leave it open by default.
    """
    shape = tensor.type.shape
    if shape[:1] != (UNKNOWN,) or _given(tensor, sizes) is not None:
        return {}
    name = tensor.size_names[0] if tensor.size_names else ""
    if name:
        return {} if name in sizes else {name: 1}
    others = _named(tensor, sizes)[1:]
    return {} if min(others, default=0) < 0 else {tensor.name: (1, *others)}


def bind(graph: Graph, sizes: Sizes | None = None) -> Graph:
    """Return the graph with all shapes, those of results and of the bodies of nodes inferred in order.

    sizes: {"image": (1, 224, 224, 3)} or, where the size has a name, {"batch": 1}.

    Raises GraphError for a name that the graph does not have, a shape that does not fit what is known, a size that
    nobody gives, and a result whose shape its operands do not say.
    """
    sizes = checked(sizes)
    inputs = [graph.tensors[number] for number in graph.inputs]
    check_names(sizes, [name for tensor in inputs for name in names_of(tensor)])
    known = learned(inputs, sizes)
    tensors = list(graph.tensors)
    for number in graph.inputs:
        tensors[number] = bound_tensor(tensors[number], known)
    for state in graph.states:
        if not tensors[state.before].bound:
            name = quoted(tensors[state.before].name)
            shape = list(tensors[state.before].type.shape)
            raise GraphError(
                f"state {name}: shape {shape} has an unknown size, and it must begin with a value"
            )
    nodes = []
    for open_node in graph.nodes:
        node = _with_bound_bodies(open_node, tensors)
        nodes.append(node)
        complete_results(tensors, node)
        for result in (tensors[number] for number in node.outputs):
            if not result.bound:
                raise GraphError(
                    f"{layer_name(node)}: output {quoted(result.name)} has shape {list(result.type.shape)}, and its "
                    "operands do not say it either"
                )
    return replace(graph, tensors=tuple(tensors), nodes=tuple(nodes))


def checked(sizes: Sizes | None) -> dict[str, int | tuple[int, ...]]:
    """Return the sizes as plain integers. Raises GraphError for what is none."""
    return {name: _checked(name, given) for name, given in (sizes or {}).items()}


def _checked(name: str, given: object) -> int | tuple[int, ...]:
    try:
        if isinstance(given, Iterable) and not isinstance(given, str):
            return tuple(index(size) for size in given)
        return index(given)  # type: ignore[arg-type]
    except TypeError:
        raise GraphError(
            f"size {quoted(str(name))}: is {given!r}, may be a whole number, or a list of them for a shape"
        ) from None


def bound_tensor(tensor: Tensor, sizes: Sizes) -> Tensor:
    """Return an input with the shape that `sizes` give. Raises GraphError if they leave a size open or do not fit."""
    own, given = tensor.type.shape, _given(tensor, sizes)
    shape = _named(tensor, sizes) if given is None else given
    if min(shape, default=0) < 0:
        raise GraphError(_unknown(tensor, sizes))
    return tensor if shape == own else replace(tensor, type=replace(tensor.type, shape=shape), size_names=())


def learned(
    inputs: Iterable[Tensor], sizes: Mapping[str, int | tuple[int, ...]]
) -> dict[str, int | tuple[int, ...]]:
    """Return `sizes` with the named sizes that the given shapes of these inputs contain.

    Raises GraphError for a name that has two sizes.
    """
    known = dict(sizes)
    for tensor in inputs:
        known |= _named_sizes(tensor, known)
    return known


def _named_sizes(tensor: Tensor, sizes: Sizes) -> dict[str, int]:
    """Return the sizes with names that the shape given to an input contains.

    Raises GraphError for a shape that does not fit, and for a name that has another size in `sizes`.
    """
    shape, named = _given(tensor, sizes), dict[str, int]()
    if shape is None or tensor.type.shape == UNRANKED:
        return named
    open_sizes = [size for own, size in zip(tensor.type.shape, shape, strict=True) if own == UNKNOWN]
    for name, size in zip(tensor.size_names, open_sizes, strict=False):
        other = sizes[name] if name in sizes else named.setdefault(name, size) if name else size
        if other != size:
            raise GraphError(f"{_place(tensor)}: {name} is {size}, elsewhere {other}")
    return named


def names_of(tensor: Tensor) -> tuple[str, ...]:
    """Return what sizes of an input may be given by: its name, and those of its sizes."""
    return (tensor.name, *filter(None, tensor.size_names))


def check_names(sizes: Sizes, known: Sequence[str]) -> None:
    """Raise GraphError if a size was given for a name that is not one of `known`."""
    for name in sizes:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {quoted(near)}? " if near else ""
            names = ", ".join(map(quoted, dict.fromkeys(known))) or "no inputs"
            raise GraphError(f"no input and no size is named {quoted(name)}; {hint}there are {names}")


def _given(tensor: Tensor, sizes: Sizes) -> Shape | None:
    """Return the shape that is given to an input; a number alone is that of an input with one axis.

    Raises GraphError for one that does not fit.
    """
    given, own = sizes.get(tensor.name), tensor.type.shape
    if given is None or (isinstance(given, int) and tensor.name in tensor.size_names):
        return None
    shape = (given,) if isinstance(given, int) else tuple(int(size) for size in given)
    if not fits(own, shape) or min(shape, default=0) < 0:
        raise GraphError(f"{_place(tensor)}: shape {_listed(own)} in the graph, {_listed(shape)} was given")
    return shape


def _named(tensor: Tensor, sizes: Sizes) -> Shape:
    """Return the shape with the sizes that are given by their names."""
    names = iter(tensor.size_names)
    shape = []
    for size in tensor.type.shape:
        name = next(names, "") if size == UNKNOWN else ""
        given = sizes.get(name)
        if given is not None and not isinstance(given, int):
            raise GraphError(f"{_place(tensor)}: {name} is one size, {_listed(tuple(given))} was given")
        shape.append(size if given is None else given)
    return tuple(shape)


def _unknown(tensor: Tensor, sizes: Sizes) -> str:
    """Return what to do about an input whose sizes are not all known."""
    from shlex import quote

    shape, names = tensor.type.shape, [name for name in tensor.size_names if name not in sizes]
    count = sum(size == UNKNOWN for size in shape)
    if names and all(names) and len(tensor.size_names) == count:
        named, option, argument = f", named {', '.join(names)}", f"{names[0]}=N", f'{{"{names[0]}": N}}'
    else:
        written = [] if shape == UNRANKED else ["N" if size == UNKNOWN else str(size) for size in shape]
        named, option = "", f"{tensor.name}={','.join(written) or 'N,...'}"
        argument = f'{{"{tensor.name}": [{", ".join(written) or "N, ..."}]}}'
    known = [name.lower() for name in names_of(tensor)]
    strangers = [name for name in sizes if name not in names_of(tensor)]
    near = next((name for name in strangers if name.lower() in known or nearest(name.lower(), known)), None)
    hint = f" (is {quoted(near)} meant?)" if near else ""
    what = "an unknown shape" if shape == UNRANKED else f"shape {list(shape)} with an unknown size"
    return (
        f"{_place(tensor)}: has {what}{named}; give --shape {quote(option)}, in Python sizes={argument}{hint}"
    )


def _place(tensor: Tensor) -> str:
    return f"input {quoted(tensor.name)}"


def _listed(shape: Sequence[int]) -> str:
    return "?" if tuple(shape) == UNRANKED else str(list(shape))


def _with_bound_bodies(node: Node, tensors: Sequence[Tensor]) -> Node:
    """Return the node with its bodies bound to the shapes of its operands."""
    if not node.bodies:
        return node
    shapes = [None if number is None else tensors[number].type.shape for number in body_operands(node)]
    return replace(node, bodies=tuple([_bound_body(node, body, shapes) for body in node.bodies]))


def _bound_body(node: Node, body: Graph, shapes: Sequence[Shape | None]) -> Graph:
    tensors = list(body.tensors)
    for number, shape in zip(body.inputs, shapes, strict=False):
        if shape is not None:
            tensors[number] = bound_tensor(tensors[number], {tensors[number].name: shape})
    try:
        return bind(replace(body, tensors=tuple(tensors)))
    except GraphError as error:
        raise GraphError(f"{layer_name(node)}, {body.name}: {error}") from None
