"""Along which axis the scales of a tensor lie, where only their number is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npusim.frontends.nnef.network import Call, Shape

_CHANNELS = {("conv", "filter"): 0, ("linear", "filter"): 0, ("deconv", "filter"): 1}
"""The axis of output channels, by operation and parameter."""


def axis_of_channels(
    name: str, count: int, shape: Shape, calls: Sequence[Call], readers: Mapping[str, Sequence[int]]
) -> int | None:
    """The axis with that many extents; where several have, that of the output channels of who reads the tensor.

    None where no axis has.
    """
    axes = [axis for axis, extent in enumerate(shape) if extent == count]
    if len(axes) > 1:
        said = _by_reader(name, calls, readers)
        return said if said in axes else axes[0]
    return axes[0] if axes else None


def _by_reader(name: str, calls: Sequence[Call], readers: Mapping[str, Sequence[int]]) -> int | None:
    """The axis that the first reader has as its output channels, through transposes."""
    turns: list[Sequence[int]] = []
    for _ in calls:
        indices = readers.get(name, [])
        if not indices:
            return None
        call = calls[indices[0]]
        if call.operation == "transpose":
            turns.append(call.attributes["axes"])  # type: ignore[arg-type]  # an array of integers, by its type
            name = call.result_names()[0]
            continue
        parameter = next((key for key, operand in call.tensors.items() if operand == name), "")
        axis = _CHANNELS.get((call.operation, parameter))
        while axis is not None and turns:
            turn = turns.pop()
            axis = turn[axis] if axis < len(turn) else None
        return axis
    return None
