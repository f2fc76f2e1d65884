"""Windows over images: kernel, strides, dilations, padding of convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from npusim.frontends.onnx.operations.conversion import Conversion
from npusim.kernels.operator.parameters import Border


class Window(NamedTuple):
    """What slides over the axes of an image, outermost first."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[Border, ...]


def window_of(c: Conversion, extents: Sequence[int], size: Sequence[int]) -> Window:
    """The window of a node over an image of these extents. Raises GraphError for attributes that are none."""
    rank = len(extents)
    stride, dilation = _steps(c, "strides", rank), _steps(c, "dilations", rank)
    pads = [int(number) for number in c.attribute("pads", ()) or (0,) * (2 * rank)]
    c.require(len(pads) == 2 * rank and min(pads) >= 0, f"pads {pads} are not {2 * rank} numbers, 0 or more")
    padding: list[Border] = list(zip(pads[:rank], pads[rank:], strict=True))
    automatic = c.attribute("auto_pad", "NOTSET")
    c.require(automatic in ("NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER"), f"auto_pad is {automatic!r}")
    if automatic == "VALID":
        padding = [(0, 0)] * rank
    elif automatic.startswith("SAME"):
        padding = []
        for axis in range(rank):
            reach = (size[axis] - 1) * dilation[axis] + 1
            over = max((-(-extents[axis] // stride[axis]) - 1) * stride[axis] + reach - extents[axis], 0)
            less, more = over // 2, over - over // 2
            padding.append((less, more) if automatic == "SAME_UPPER" else (more, less))
    return Window(tuple(size), stride, dilation, tuple(padding))


def _steps(c: Conversion, name: str, rank: int) -> tuple[int, ...]:
    steps = tuple(int(number) for number in c.attribute(name, ()) or (1,) * rank)
    c.require(
        len(steps) == rank and min(steps) > 0, f"{name} {list(steps)} are not {rank} numbers, 1 or more"
    )
    return steps
