"""User-defined operators: registered once in Python, known to every front end, computed on the host.

    npusim.register_operator(
        "SoftClip",
        compute=lambda inputs, attributes: [np.tanh(inputs[0])],
        shapes=lambda shapes, attributes: [shapes[0]],
        operations=lambda shapes, results, attributes: 12 * math.prod(results[0]),
    )

Operators that nobody registered are here as well: host layers that are timed by the bytes they move.

A model calls it by its name: a custom operator of TensorFlow Lite, an operation of ONNX, a fragment of NNEF without a
body, `OEM_OPERATION` or an extension of the NN HAL, a custom operation of NNAdapter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from npusim.isa.base.elements import Workload
from npusim.isa.base.errors import GraphError, NpusimError, SimulationError
from npusim.isa.base.plain_values import printable
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.operator.operands import elementwise
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values, compute_in_float32
from npusim.kernels.operator.parameters import Unchecked

Attributes = Mapping[str, Any]
"""Attributes that a model gives an operator beside its tensors, as plain values by name."""

Shape = tuple[int, ...]

Compute = Callable[[list[Any], Attributes], Sequence[Any]]
ShapesOf = Callable[[list[Any], Attributes], Sequence[Sequence[int]]]
OperationsOf = Callable[[list[Any], list[Shape], Attributes], int]

_LONGEST = 80
_operators: dict[str, Operator] = {}
_types: dict[str, tuple[str, ...]] = {}


def register_operator(
    name: str,
    compute: Compute,
    shapes: ShapesOf,
    *,
    operations: OperationsOf | None = None,
    types: Sequence[str] = (),
) -> None:
    """Make an operator known to all front ends in this process. Registering a name again replaces its operator.

    name:       name in models: the custom code of TensorFlow Lite, "domain.Operation" or "Operation" of ONNX, the name
                of NNEF's fragment, "OEM_OPERATION" or "extension:number" of the NN HAL, the name or number of
                NNAdapter's custom operation.
    compute:    (inputs, attributes) -> results, numpy arrays; an input that a model omits is None. Quantized inputs are
                dequantized to float32 first, and results are quantized with the model's scales.
    shapes:     (shapes of inputs, attributes) -> shapes of results; the shape of an omitted input is None.
    operations: (shapes of inputs, shapes of results, attributes) -> number of scalar operations, which the host
                executes at the rate of its elementwise operators. Without it only the moved bytes take time.
    types:      element types of the results, for models that do not state them (ONNX); without it that of input 0.

    The operator runs on the host, like every operator that the NPU lacks. Raises NpusimError for a wrong argument.
    """
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST or not name.isprintable():
        raise NpusimError(f"name {printable(repr(name))}: must be a name of 1 to {_LONGEST} characters")
    for what, function in (("compute", compute), ("shapes", shapes), ("operations", operations)):
        if not callable(function) and not (what == "operations" and function is None):
            raise NpusimError(f"operator {printable(name)}: {what} is {function!r:.40}, must be a function")
    entry = _Registered(printable(name), compute, shapes, operations)
    _types[name] = tuple(types)
    _operators[custom(name)] = Operator(
        name=custom(name),
        parameters=Unchecked,
        types=(),
        rules=(),
        infer=entry.infer,
        reference=entry.compute,
        workload=entry.workload,
        on_host="is registered by the user, who says what it computes and what it costs",
    )


def unregister_operator(name: str) -> None:
    """Forget a registered operator. Raises NpusimError if none has that name."""
    if _operators.pop(custom(name), None) is None:
        raise NpusimError(f"operator {printable(str(name))}: is not registered")
    del _types[name]


def custom(name: str) -> str:
    """Return the graph's operator name for a name that models use: custom "NAME"."""
    return f'custom "{name}"'


def registered(op: str) -> Operator | None:
    """Return the registered operator by its name in graphs; None if there is none."""
    return _operators.get(op)


def any_registered() -> bool:
    """Return whether the user has registered any operators of their own."""
    return bool(_operators)


def result_types(name: str) -> tuple[str, ...]:
    """Return the registered element types of the results, by the operator's name in models."""
    return _types[name]


def plain(attributes: Attributes) -> dict[str, Any]:
    """Return attributes as plain values: arrays become lists, and attributes such as graphs are left out."""
    lists = {
        name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in attributes.items()
    }
    return {name: value for name, value in lists.items() if isinstance(value, (str, int, float, list, tuple))}


class _Registered:
    """A user's functions for one operator, called with checks on what they return."""

    def __init__(
        self, name: str, compute: Compute, shapes: ShapesOf, operations: OperationsOf | None
    ) -> None:
        self._name, self._compute, self._shapes, self._operations = name, compute, shapes, operations

    def infer(self, call: Call) -> Shapes:
        """Return the shapes of the results. Raises GraphError if the user's function fails or returns no shapes."""
        with self._asking("shapes", GraphError):
            result = self._shapes(_shapes(call.inputs), call.parameters.plain())
            shapes = tuple(tuple(int(size) for size in shape) for shape in result)
        if len(shapes) != len(call.outputs):
            text = f"shapes gives {len(shapes)} results, the model has {len(call.outputs)}"
            raise GraphError(f"operator {self._name}: {text}")
        return shapes

    def compute(self, call: Call, values: Values) -> list[Array]:
        """Compute the results. Raises SimulationError if the user's function fails or returns other shapes."""
        return compute_in_float32(self._in_float, call, values)

    def _in_float(self, call: Call, values: Values) -> list[Array]:
        with self._asking("compute", SimulationError):
            arrays = self._compute(list(values), call.parameters.plain())
            results = [np.asarray(result) for result in arrays]
            shapes = [result.shape for result in results]
            if shapes != _shapes(call.outputs):
                raise ValueError(f"results have shapes {shapes}, must be {_shapes(call.outputs)}")
            return [
                result.astype(kind.numpy_dtype) for result, kind in zip(results, call.outputs, strict=True)
            ]

    def workload(self, call: Call) -> Workload:
        """Return the work of the host: the operations that the user's function counts, or the bytes moved."""
        if self._operations is None:
            return bytes_moved(call)
        with self._asking("operations", GraphError):
            inputs, results = _shapes(call.inputs), _shapes(call.outputs)
            count = int(self._operations(inputs, results, call.parameters.plain()))
            if count < 0:
                raise ValueError(f"gives {count}, must be 0 or more")
        return elementwise(call, count)

    @contextmanager
    def _asking(self, what: str, kind: type[NpusimError]) -> Iterator[None]:
        """Turn an exception of a user's function into a one-line error that names the function."""
        try:
            yield
        except Exception as fault:
            reason = " ".join(str(fault).split())[:120]
            raise kind(f"operator {self._name}: {what}: {type(fault).__name__}: {reason}") from fault


def _shapes(kinds: Iterable[TensorType | None]) -> list[Any]:
    return [None if kind is None else kind.shape for kind in kinds]


def unknown_operator(name: str) -> Operator:
    """Return an operator of which only the operands are known."""
    return Operator(
        name=name,
        parameters=Unchecked,
        types=(),
        rules=(),
        infer=lambda call: call.output_shapes,
        reference=_nothing,
        workload=bytes_moved,
        on_host="npusim does not know it; timed by its bytes alone, without results",
    )


def _nothing(call: Call, values: Values) -> list[Array]:
    raise SimulationError("an operator that npusim does not know has no results; only its time is estimated")


def bytes_moved(call: Call) -> Workload:
    """Return work in which all bytes read and written pass through the host once, at its copy speed."""
    given = {position: tensor for position, tensor in enumerate(call.inputs) if tensor is not None}
    constants = sum(tensor.size_bytes for position, tensor in given.items() if position in call.constants)
    read = sum(tensor.size_bytes for tensor in given.values()) - constants
    written = sum(output.size_bytes for output in call.outputs)
    return Workload(kind="move", weight_bytes=constants, output_bytes=read + written)
