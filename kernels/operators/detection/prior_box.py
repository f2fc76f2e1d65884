"""prior_box: the boxes that an SSD detector starts from, several around each pixel of a feature map.

Inputs, of which only height and width are looked at: the feature map and the image, [n, h, w, c]. Outputs: boxes
[h, w, priors, 4] as (x1, y1, x2, y2), 1 being the size of the image, and their variances, the same for all.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import elementwise, input_type
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Size
from npusim.kernels.operators.detection.boxes import COORDINATES
from npusim.kernels.operators.movement import reshape

_SAME = 1e-6
"""Aspects that differ by less are one."""
_OPERATIONS_PER_CORNER = 3


class Parameters(parameters.Parameters):
    """least, most: sizes of square boxes in pixels of the image: each least one, and with as many most ones the mean of
    both, sqrt(least * most). aspects: widths over heights of further boxes as large as the least; `flip` has their
    inverses, too.

    variances: of the four corners. clip: boxes lie in the image.
    steps:     pixels of the image from one of the map to the next, down and right; without, by their sizes.
    offset:    where in a pixel boxes have their middle.
    means_first: the box of the mean size comes before those of other aspects.
    spatial:   the axes of the inputs that are height and width.
    """

    least: tuple[float, ...]
    most: tuple[float, ...] = ()
    aspects: tuple[float, ...] = ()
    variances: tuple[float, float, float, float]
    flip: bool = False
    clip: bool = False
    steps: tuple[float, float] | None = None
    offset: float = 0.5
    means_first: bool = False
    spatial: tuple[Size, Size] = (1, 2)


def _aspects(how: Parameters) -> list[float]:
    """1, then those that are not there yet, each with its inverse behind it."""
    found = [1.0]
    for aspect in how.aspects:
        if all(abs(aspect - other) >= _SAME for other in found):
            found += [aspect, 1 / aspect] if how.flip else [aspect]
    return found


def _sizes(how: Parameters) -> list[tuple[float, float]]:
    """Width and height of the boxes around a pixel, in order."""
    found = []
    for position, least in enumerate(how.least):
        boxes = [(least * sqrt(aspect), least / sqrt(aspect)) for aspect in _aspects(how)]
        if how.most:
            mean = sqrt(least * how.most[position])
            boxes.insert(1 if how.means_first else len(boxes), (mean, mean))
        found += boxes
    return found


def _plane(call: Call[Parameters], position: int) -> tuple[int, int]:
    shape, (height, width) = input_type(call, position).shape, call.parameters.spatial
    return shape[height], shape[width]


def _infer(call: Call[Parameters]) -> Shapes:
    """Boxes of every size around each pixel of the feature map."""
    shape = (*_plane(call, 0), len(_sizes(call.parameters)), COORDINATES)
    return shape, shape


def priors(call: Call[Parameters]) -> list[Array]:
    """Boxes and variances, which depend on sizes only."""
    how, (height, width), (image_height, image_width) = call.parameters, _plane(call, 0), _plane(call, 1)
    down, right = how.steps or (image_height / height, image_width / width)
    sizes: Any = np.array(_sizes(how), np.float64)
    y = ((np.arange(height) + how.offset) * down)[:, None, None]
    x = ((np.arange(width) + how.offset) * right)[:, None]
    half_width, half_height = sizes[:, 0] / 2, sizes[:, 1] / 2
    corners = [(x - half_width) / image_width, (y - half_height) / image_height]
    corners += [(x + half_width) / image_width, (y + half_height) / image_height]
    boxes = np.stack(np.broadcast_arrays(*corners), axis=-1).astype(np.float32)
    if how.clip:
        boxes = np.clip(boxes, np.float32(0), np.float32(1))
    return [boxes, np.broadcast_to(np.array(how.variances, np.float32), boxes.shape).copy()]


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    return [each.astype(tensor.numpy_dtype) for each, tensor in zip(priors(call), call.outputs, strict=True)]


def _constants(call: Call[Parameters]) -> Expansion:
    """Nothing is left to compute: the results are copies of constants."""
    found = Expansion(len(call.inputs))
    for name, data, output in zip(("boxes", "variances"), priors(call), call.outputs, strict=True):
        constant = found.constant(data.astype(output.numpy_dtype))
        shape = reshape.Parameters(shape=output.shape)
        found.results += found.call(name, "reshape", (constant,), [output], shape)
    return found


def _workload(call: Call) -> Workload:
    """The elements of the inputs are not read."""
    return replace(elementwise(call, call.outputs[0].elements * _OPERATIONS_PER_CORNER), input_bytes=0)


# Rules


def _planes(call: Call[Parameters]) -> bool:
    """inputs have four dimensions, of which spatial names height and width, and these are not 0"""
    shapes = [input_type(call, position).shape for position in (0, 1)]
    axes = call.parameters.spatial
    return all(
        len(shape) == 4 and max(axes) < 4 and min(shape[axis] for axis in axes) > 0 for shape in shapes
    )


def _parameters(call: Call[Parameters]) -> bool:
    """sizes, aspects and steps are above 0, there is a least size or more, and no or as many most ones"""
    how = call.parameters
    numbers = (*how.least, *how.most, *how.aspects, *(how.steps or ()))
    return (
        len(how.least) > 0 and len(how.most) in (0, len(how.least)) and all(number > 0 for number in numbers)
    )


def _outputs(call: Call) -> bool:
    """outputs are [height, width, boxes around a pixel, 4], height and width those of the feature map"""
    return _infer(call) == tuple(output.shape for output in call.outputs)


OPERATOR = Operator(
    name="prior_box",
    parameters=Parameters,
    types=("float32|float16|int8|uint8 -> float32",),
    rules=(rules.operands(2, 2), _planes, _parameters, _outputs),
    infer=_infer,
    reference=_reference,
    workload=_workload,
    expand=_constants,
    on_host="its results are constants, which the NPU copies",
)
