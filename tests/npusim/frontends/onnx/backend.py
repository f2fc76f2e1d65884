"""The tests of the package `onnx` for backends, one operator each: what npusim makes of them.

`python -m tests.npusim.frontends.onnx.backend [WORD ...] [--wrong]` counts those whose names have one of the words.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import npusim
from npusim.frontends.forms.qdq import NARROW
from npusim.isa.base.tensor import Array


class Node(NamedTuple):
    """A test: a model of one node, and data sets of inputs and outputs."""

    name: str
    model: Any
    data_sets: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float
    atol: float


def files() -> list[str]:
    """Return the modules of `onnx` that have the tests of nodes, about one per operation."""
    from onnx.backend.test.case import node

    return [module.name for module in pkgutil.iter_modules(node.__path__, f"{node.__name__}.")]


def nodes(chosen: Sequence[str]) -> Iterator[Node]:
    """Return the tests of the chosen `files`."""
    from onnx.backend.test.case import node

    for name in chosen:  # a file computes the data of its tests when it is imported
        importlib.import_module(name)
    for case in node._NodeTestCases:  # `collect_testcases` would import all files, which takes seconds
        yield Node(case.name, case.model, case.data_sets, case.rtol, case.atol)


def outcome(node: Node) -> str:
    """ "" or what is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "node.onnx"
        for inputs, outputs in node.data_sets:
            arrays = [_array(value) for value in inputs]
            if any(array is None for array in arrays):
                return "values that are no tensors"
            try:
                found = _ran(path, node.model, arrays, _known(node.model))
            except npusim.NpusimError as fault:
                if _DECIDES not in str(fault):
                    return str(fault).partition("node.onnx: ")[2] or str(fault)
                try:
                    found = _ran(path, node.model, arrays, _small(node.model, arrays))
                except npusim.NpusimError as other:
                    return str(other).partition("node.onnx: ")[2] or str(other)
            wrong = _compared(found, [_array(value) for value in outputs], node)
            if wrong:
                return wrong
    return ""


_DECIDES = "decides shapes or parameters"


def _ran(path: Path, model: Any, arrays: Sequence[Any], known: set[str]) -> Any:
    """The outputs of a run, with those inputs in the file."""
    path.write_bytes(_fixed(model, arrays, known).SerializeToString())
    pairs = zip(model.graph.input, arrays, strict=True)
    return npusim.run(path, inputs=[array for value, array in pairs if value.name not in known]).outputs or ()


def _small(model: Any, arrays: Sequence[Any]) -> set[str]:
    """The inputs of a few whole numbers or truths, or of one number."""
    pairs = zip(model.graph.input, arrays, strict=True)
    return {value.name for value, array in pairs if array.size < (9 if array.dtype.kind in "iub" else 2)}


def _array(value: Any) -> Array | None:
    import onnx

    if isinstance(value, onnx.TensorProto):
        value = onnx.numpy_helper.to_array(value)
    if not isinstance(value, np.ndarray | np.generic):
        return None
    held = NARROW.get(value.dtype.name)
    return np.asarray(value.astype(held[0]) if held else value)


DECIDING = {
    "axes", "shape", "pads", "repeats", "split", "starts", "ends", "steps", "scales", "sizes", "roi", "k", "K",
    "depth", "start", "limit", "delta", "target_shape", "seq_lens", "min", "max",
}  # fmt: skip
"""Inputs of nodes that must be known when a model is read: the tests have them as inputs of the graph."""


def _known(model: Any) -> set[str]:
    import onnx

    found = set()
    for node in model.graph.node:
        try:
            schema = onnx.defs.get_schema(node.op_type, model.opset_import[0].version, node.domain)
        except onnx.defs.SchemaError:
            continue
        for place, name in enumerate(node.input):
            formal = schema.inputs[min(place, len(schema.inputs) - 1)].name
            if formal in DECIDING or (node.op_type, formal) in DECIDING_OF:
                found.add(name)
    return found


DECIDING_OF = {
    ("ConstantOfShape", "input"),
    ("CumSum", "axis"),
    ("CumProd", "axis"),
    ("Pad", "constant_value"),
    ("Dropout", "training_mode"),
    ("ReverseSequence", "sequence_lens"),
    *((name, "sequence_lens") for name in ("LSTM", "GRU", "RNN")),
}


def _fixed(model: Any, arrays: Sequence[Any], known: set[str]) -> Any:
    """The model with those inputs as constants, and all sizes."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.input[:]
    for value, array in zip(model.graph.input, arrays, strict=True):
        if value.name in known:
            copy.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
        else:
            kind = value.type.tensor_type.elem_type
            copy.graph.input.append(onnx.helper.make_tensor_value_info(value.name, kind, array.shape))
    return copy


def _compared(found: Sequence[Array], wanted: Sequence[Array | None], node: Node) -> str:
    if len(found) != len(wanted):
        return f"{len(found)} outputs, expected {len(wanted)}"
    for own, other in zip(found, wanted, strict=True):
        if other is None or own.shape != other.shape or own.dtype != other.dtype:
            return f"{own.dtype}{list(own.shape)}, expected another type or shape"
        if other.dtype.kind == "f":
            same = np.isclose(
                own, other, rtol=max(node.rtol, 1e-5), atol=max(node.atol, 1e-6), equal_nan=True
            )
        else:
            same = own == other
        if not np.all(same):
            return f"{int(np.size(same) - np.count_nonzero(same))} of {np.size(same)} values differ"
    return ""


def main() -> None:
    """Counts."""
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    counted: Counter[str] = Counter()
    for node in nodes(files()):
        if words and not any(word in node.name for word in words):
            continue
        wrong = outcome(node)
        refused = "(" in wrong and "values differ" not in wrong and "expected" not in wrong
        counted["right" if not wrong else "refused" if refused else "wrong"] += 1
        if wrong and "--wrong" in sys.argv:
            print(f"{node.name}: {wrong[:200]}", flush=True)
    print(dict(counted))


if __name__ == "__main__":
    main()
