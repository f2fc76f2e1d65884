"""Products of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.frontends.nnadapter.codes import OperationType
from npusim.frontends.nnadapter.operations.conversion import Conversion
from npusim.frontends.nnadapter.operations.row import Row
from npusim.kernels.graph.builder import unshaped


def _fully_connected(c: Conversion) -> Sequence[int]:
    shape, weight = c.shape("input"), c.shape("weight")
    c.require(len(shape) >= 2, f"input has shape {list(shape)}, must have 2 dimensions or more")
    c.require(len(weight) == 2, f"weight has shape {list(weight)}, must be [units, size]")
    operands = [c.tensor("input"), c.tensor("weight"), c.bias("weight")]
    return c.node("fully_connected", operands, activation=c.activation())


def _mat_mul(c: Conversion) -> Sequence[int]:
    """A vector is a matrix of one row in front, of one column behind; the product has no dimension for it.

    A product of two vectors that is declared as one of shape [1] is that, as upstream has it.
    """
    shapes = c.shape("x"), c.shape("y")
    c.require(min(map(len, shapes)) > 0, "x and y must have a dimension or more")
    vectors = tuple(len(shape) == 1 for shape in shapes)
    x = c.reshaped(c.tensor("x"), (1, *shapes[0])) if vectors[0] else c.tensor("x")
    y = c.reshaped(c.tensor("y"), (*shapes[1], 1)) if vectors[1] else c.tensor("y")
    swapped = {
        "adj_x": c.flag("transpose_x") and not vectors[0],
        "adj_y": c.flag("transpose_y") and not vectors[1],
    }
    if not any(vectors):
        return c.node("batch_matmul", [x, y], **swapped)
    result = c.result()
    (product,) = c.node("batch_matmul", [x, y], unshaped(result.dtype, result.quantization), **swapped)
    *batch, rows, columns = c.builder.shape(product)
    kept = [size for size, vector in zip((rows, columns), vectors, strict=True) if not vector]
    shape = (*batch, *kept)
    said = c.given("output").type.shape == (1,) and not shape
    return [c.one("reshape", product, result, shape=(1,) if said else shape)]


ROWS: tuple[Row, ...] = (
    Row(
        OperationType.FULLY_CONNECTED,
        "input weight bias? fuse_code:i=0 > output=input",
        _fully_connected,
        ("fully_connected",),
    ),
    Row(
        OperationType.MAT_MUL,
        "x y transpose_x:b=False transpose_y:b=False > output=x",
        _mat_mul,
        ("batch_matmul", "reshape"),
    ),
)
