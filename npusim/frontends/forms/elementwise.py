"""Functions of single elements that several operators share."""

from __future__ import annotations

import numpy as np

from npusim.frontends.forms.conversion import Conversion


def limited(c: Conversion, x: int, least: float, most: float) -> int:
    """Elements between limits, which may be infinite."""
    named = {
        (0.0, np.inf): "relu",
        (0.0, 6.0): "relu6",
        (-1.0, 1.0): "relu_n1_to_1",
        (0.0, 1.0): "relu_0_to_1",
    }
    op = named.get((least, most))
    if op is not None:
        return c.node(op, [x])
    if least == -np.inf and most == np.inf:
        return c.node("reshape", [x], shape=c.shape(x))
    limits = np.finfo(np.float32)
    return c.node("clip", [x], least=max(least, float(limits.min)), most=min(most, float(limits.max)))


def converted(c: Conversion, x: int, dtype: str) -> int:
    """Reals lose their fraction, and whole numbers what does not fit; truths are what is not 0."""
    kind = c.builder.type(x)
    if kind.dtype == dtype:
        return c.step("reshape", [x], shape=kind.shape)
    if dtype == "bool":
        return c.step("not_equal", [x, c.scalar(0, x)], "bool")
    if kind.real and dtype in ("int8", "uint8", "int16", "uint16"):
        return c.cast(c.cast(x, "int32"), dtype)
    return c.cast(x, dtype)
