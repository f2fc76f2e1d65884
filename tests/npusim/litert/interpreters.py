"""Interpreters of LiteRT with and without the delegate, for tests; and the small models that they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import npusim.litert
from npusim.isa.base.tensor import Array

from ..frontends.tflite_builder import Builder, int32, serialize, table

PLAIN: dict[str, Any] = {"scales": None, "zero_points": None}


def interpreter(
    model: bytes | str,
    delegate: npusim.litert.Delegate | None = None,
    optimized: bool = False,
    others: Sequence[npusim.litert.Delegate] = (),
    **how: Any,
) -> Any:
    """One for the bytes or the path of a model; tensors are not allocated. Its kernels are the reference's, or not."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if optimized else OpResolverType.BUILTIN_REF
    source = {"model_content": model} if isinstance(model, bytes) else {"model_path": model}
    return Interpreter(
        **source,
        experimental_op_resolver_type=kernels,
        experimental_delegates=[delegate, *others] if delegate else None,
        **how,
    )


def invoked(runner: Any, inputs: Sequence[Array]) -> list[Array]:
    """The outputs for inputs of any shape."""
    details = runner.get_input_details()
    for detail, value in zip(details, inputs, strict=True):
        runner.resize_tensor_input(detail["index"], value.shape)
    runner.allocate_tensors()
    for detail, value in zip(details, inputs, strict=True):
        runner.set_tensor(detail["index"], value)
    runner.invoke()
    return [runner.get_tensor(detail["index"]) for detail in runner.get_output_details()]


def random_inputs(runner: Any, seed: int) -> list[Array]:
    """Codes, or reals around zero, for all inputs as they are shaped now."""
    rng = np.random.default_rng(seed)
    found: list[Array] = []
    for detail in runner.get_input_details():
        dtype, shape = detail["dtype"], detail["shape"]
        if np.issubdtype(dtype, np.integer):
            limits = np.iinfo(dtype)
            found.append(rng.integers(limits.min, limits.max + 1, shape, dtype))
        else:
            found.append(rng.standard_normal(shape).astype(dtype))
    return found


def gathering() -> bytes:
    """Rows of x by a list of numbers, which may be wrong ones."""
    builder = Builder()
    x, rows, y = (
        builder.tensor("x", [4, 6]),
        builder.tensor("rows", [2], "INT32", **PLAIN),
        builder.tensor("y", [2, 6]),
    )
    builder.operator("GATHER", [x, rows], [y], table("GatherOptions"))
    return builder.file([x, rows], [y])


def reshaping() -> bytes:
    """x + x in a shape that is an input, and that twice."""
    builder = Builder()
    x, shape = builder.tensor("x", [4, 6]), builder.tensor("shape", [2], "INT32", **PLAIN)
    sums = [builder.tensor(name, [6, 4] if name == "w" else [4, 6]) for name in ("z", "w")]
    y = builder.tensor("y", [6, 4])
    builder.operator("ADD", [x, x], [sums[0]], table("AddOptions"), version=2)
    builder.operator("RESHAPE", [sums[0], shape], [y])
    builder.operator("ADD", [y, y], [sums[1]], table("AddOptions"), version=2)
    return builder.file([x, shape], [sums[1]])


def open_batch() -> bytes:
    """x + x as rows of 24, as converters write it for a batch that is open: the shape is computed from shapes."""
    builder = Builder()
    x, z = builder.tensor("x", [1, 4, 6], ShapeSignature=int32(-1, 4, 6)), builder.tensor("z", [1, 4, 6])
    shape, batch = (
        builder.tensor("shape", [3], "INT32", **PLAIN),
        builder.tensor("batch", [], "INT32", **PLAIN),
    )
    row = builder.tensor("row", [], "INT32", int32(24), **PLAIN)
    wanted, y = builder.tensor("wanted", [2], "INT32", **PLAIN), builder.tensor("y", [1, 24])
    first = [builder.constant(0), builder.constant(1), builder.constant(1)]
    builder.operator("ADD", [x, x], [z], table("AddOptions"), version=2)
    builder.operator("SHAPE", [z], [shape], table("ShapeOptions", OutType=2))
    builder.operator(
        "STRIDED_SLICE", [shape, *first], [batch], table("StridedSliceOptions", ShrinkAxisMask=1)
    )
    builder.operator("PACK", [batch, row], [wanted], table("PackOptions", ValuesCount=2, Axis=0))
    builder.operator("RESHAPE", [z, wanted], [y])
    return builder.file([x], [y])


def two_signatures() -> bytes:
    """Subgraphs that programs call by their names: "twice" is x + x, "squared" is x * x."""
    whole = Builder()
    subgraphs, signatures = [], []
    for number, (key, code) in enumerate((("twice", "ADD"), ("squared", "MUL"))):
        part = Builder(codes=whole.codes, buffers=whole.buffers)
        x, y = part.tensor("x", [1, 4]), part.tensor("y", [1, 4])
        part.operator(code, [x, x], [y], table(f"{code.title()}Options"), version=2)
        ends = {"Inputs": int32(x), "Outputs": int32(y)}
        subgraphs.append(table("SubGraph", Name=key, Tensors=part.tensors, Operators=part.operators, **ends))
        names = {"Inputs": [table("TensorMap", Name="x", TensorIndex=x)]}
        names["Outputs"] = [table("TensorMap", Name="y", TensorIndex=y)]
        signatures.append(table("SignatureDef", SignatureKey=key, SubgraphIndex=number, **names))
    rows = {"OperatorCodes": whole.codes, "Subgraphs": subgraphs, "Buffers": whole.buffers}
    return serialize(table("Model", Version=3, SignatureDefs=signatures, **rows))
