"""Products of matrices, in reals or codes."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.frontends.forms.conversion import Conversion


def product(c: Conversion, a: int, b: int, *, final: bool = True) -> int:
    """Matrices by matrices, as numpy multiplies them; by a constant one it is a layer with weights.

    final: the product is the node's result, otherwise a step on the way.
    """
    shapes = c.shape(a), c.shape(b)
    c.require(bool(shapes[0]) and bool(shapes[1]), "multiplies matrices or vectors, not scalars")
    inner = shapes[0][-1], shapes[1][-2] if len(shapes[1]) > 1 else shapes[1][0]
    c.require(
        inner[0] == inner[1], f"{list(shapes[0])} and {list(shapes[1])} do not fit: {inner[0]} by {inner[1]}"
    )
    add = c.node if final else c.step
    if c.builder.tensors[b].constant and len(shapes[1]) == 2 and 0 not in shapes[0] and min(shapes[1]) > 0:
        kind = c.builder.type(a)
        if kind.real or kind.quantization is not None:
            return add("fully_connected", [a, c.transposed(b, (1, 0)), None], keep_num_dims=True)
    if len(shapes[0]) == 1:
        a = c.reshaped(a, (1, *shapes[0]))
    if len(shapes[1]) == 1:
        b = c.reshaped(b, (*shapes[1], 1))
    kind = c.builder.type(a)
    if not kind.real and kind.quantization is None:
        return _whole(c, a, b, shapes)
    made = add("batch_matmul", [a, b])
    return _without_ones(c, made, shapes)


def _without_ones(c: Conversion, made: int, shapes: tuple[Sequence[int], Sequence[int]]) -> int:
    shape = list(c.shape(made))
    if len(shapes[1]) == 1:
        del shape[-1]
    if len(shapes[0]) == 1:
        del shape[-1 if len(shapes[1]) == 1 else -2]
    return c.reshaped(made, shape)


def _whole(c: Conversion, a: int, b: int, shapes: tuple[Sequence[int], Sequence[int]]) -> int:
    """Whole numbers, which wrap; the operator has those of 32 bits."""
    dtype = c.builder.type(a).dtype
    c.require(dtype in ("int32", "uint32"), f"npusim has no products of matrices of {dtype}")
    made = c.step("batch_matmul", [c.cast(a, "int32"), c.cast(b, "int32")])
    return _without_ones(c, c.cast(made, dtype), shapes)
